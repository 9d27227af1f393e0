"""Transposes before reductions and beside views: for random permutations ONNX Runtime gives the same."""

import random

import numpy as np
import pytest

from passes.cleanup.useless_transposes import UselessTransposes
from tests.running import outputs, typed
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass


def optimized(text):
    graph = typed(text)
    step = run_pass(UselessTransposes(), graph, PassContext(load_profile("cuda")), check_each=True)
    return graph, step.rewrites


def assert_same(text, after, shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    expected, found = (outputs(graph, {"x": x})["y"] for graph in (typed(text), after))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.shape == expected.shape


@pytest.mark.parametrize("seed", range(30))
def test_reductions_of_any_axes(seed):
    chosen = random.Random(seed)
    rank = chosen.randint(2, 5)
    perm = chosen.sample(range(rank), rank)
    axes = chosen.sample(range(-rank, 0), chosen.randint(1, rank))
    shape = [chosen.randint(2, 4) for _ in perm]
    keeps, op = chosen.randint(0, 1), chosen.choice(("ReduceSum", "ReduceMean"))
    text = f"""g (float[{",".join(map(str, shape))}] x) => (float[] y)
        <int64[{len(axes)}] i = {{{",".join(map(str, axes))}}}> {{
        t = Transpose<perm=[{",".join(map(str, perm))}]>(x)
        y = {op}<keepdims={keeps}>(t, i)
    }}"""
    after, rewrites = optimized(text)
    assert len(rewrites) == 1
    assert_same(text, after, shape)


@pytest.mark.parametrize("seed", range(30))
def test_transposes_that_move_axes_of_size_one_only(seed):
    chosen = random.Random(seed)
    long = [3, 4]
    places = sorted(chosen.sample(range(5), 2))
    shape = [1] * 5
    for place, size in zip(places, long, strict=True):
        shape[place] = size
    ones = [axis for axis in range(5) if axis not in places]
    chosen.shuffle(ones)
    perm = list(places)
    for axis in ones:
        perm.insert(chosen.randint(0, len(perm)), axis)
    turn = f"Transpose<perm=[{','.join(map(str, perm))}]>"
    lines = chosen.choice(
        [f"t = {turn}(x)  y = Flatten<axis=2>(t)", f"t = Unsqueeze(x, i)  u = Squeeze(t, i)  y = {turn}(u)"]
    )
    text = f"g (float[{','.join(map(str, shape))}] x) => (float[] y) <int64[1] i = {{0}}> {{ {lines} }}"
    after, rewrites = optimized(text)
    assert rewrites and "Transpose" not in [node.op for node in after.nodes]
    assert_same(text, after, shape)


def test_what_is_laid_out_anew_only_to_be_flattened_into_an_output():
    text = """g (float[N,7,7,8] x) => (float[N,8] y) <int64[2] i = {1, 2}> {
        p = ReduceMean(x, i)
        t = Transpose<perm=[0,3,1,2]>(p)
        y = Flatten(t)
    }"""
    after, _ = optimized(text)
    assert [node.op for node in after.nodes] == ["ReduceMean", "Reshape"]
    assert_same(text, after, (2, 7, 7, 8))
