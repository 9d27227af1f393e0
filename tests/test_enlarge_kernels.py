"""Convolutions enlarged by zeros compute what they computed, whatever their windows are."""

import itertools

import numpy as np
import pytest

import workbench as wb
from tests.running import outputs, typed
from workbench.formats.io.samples import samples
from workbench.ir import Edit, constant

CHAIN = ["enlarge_kernels", "sum_into_conv", "fuse_conv"]


def with_weights(graph):
    """The graph with random numbers in its floating-point constants."""
    random = np.random.default_rng(3)
    shapes = {name: held.shape.numpy() for name, held in graph.constants.items() if held.dtype.is_floating_point()}
    new = {name: constant(random.standard_normal(shape).astype(np.float32)) for name, shape in shapes.items()}
    graph.apply(Edit(constants=new))
    return graph


def optimized(graph, passes, force=True):
    options = {f"{name}.force": force for name in passes if name != "fuse_conv"}
    history = wb.optimize(graph, passes, mode="fast", options=options)
    again = wb.optimize(history.graph, passes, mode="fast", options=options)
    assert not any(step.rewrites for step in again), "a second run changes nothing"
    return history


def assert_equal(before, after):
    random = np.random.default_rng(5)
    inputs = {name: random.standard_normal(before.shape(name)).astype(np.float32) for name in before.inputs}
    expected = outputs(before, inputs)
    for name, array in outputs(after, inputs).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-4)


def weights(name, *shape):
    return f"float[{','.join(map(str, shape))}] {name} = {{{','.join(['1'] * int(np.prod(shape)))}}}"


WINDOWS = {
    "1x1 in 3x3": ((1, 1), "group=1", (3, 3), "pads=[1,1,1,1]"),
    "1x1 with a stride": ((1, 1), "strides=[2,2]", (3, 3), "pads=[1,1,1,1],strides=[2,2]"),
    "3x3 in 5x5": ((3, 3), "pads=[1,1,1,1]", (5, 5), "pads=[2,2,2,2]"),
    "1x1 in a dilated window": ((1, 1), "strides=[1,1]", (3, 3), "pads=[2,2,2,2],dilations=[2,2]"),
    "3x3 in 5x5, both dilated": ((3, 3), "pads=[2,2,2,2],dilations=[2,2]", (5, 5), "pads=[4,4,4,4],dilations=[2,2]"),
    "1x3 in 3x3": ((1, 3), "pads=[0,1,0,1]", (3, 3), "pads=[1,1,1,1]"),
    "padding on one side": ((1, 1), "strides=[1,1]", (2, 2), "pads=[1,0,0,1]"),
    "padding of both": ((1, 1), "pads=[1,1,1,1]", (3, 3), "pads=[2,2,2,2]"),
    "automatic padding": ((1, 1), 'auto_pad="SAME_UPPER"', (4, 4), 'auto_pad="SAME_UPPER"'),
    "automatic padding below": ((3, 3), 'auto_pad="SAME_LOWER"', (5, 5), 'auto_pad="SAME_LOWER",strides=[1,1]'),
    "automatic padding and a stride": ((1, 1), 'auto_pad="VALID",strides=[2,2]', (3, 3), 'pads=[1,1,1,1],strides=[2,2]'),
}  # fmt: skip


@pytest.mark.parametrize(("small", "of_small", "large", "of_large"), WINDOWS.values(), ids=WINDOWS)
def test_a_smaller_window_in_a_larger(small, of_small, large, of_large):
    graph = with_weights(
        typed(f"""g (float[2,3,9,8] x) => (float[2,2,P,Q] y, float[2,4,R,S] z)
            <{weights("v", 2, 3, *small)}, {weights("w", 4, 3, *large)}, {weights("b", 2)}, {weights("c", 4)}> {{
                y = Conv<{of_small}>(x, v, b)
                z = Conv<{of_large}>(x, w, c)
            }}""")
    )
    history = optimized(graph, ["enlarge_kernels"])
    assert [node.op for node in history.graph.nodes] == ["Conv", "Split"]
    assert_equal(graph, history.graph)


@pytest.mark.parametrize("spatial", [(9,), (4, 5, 6)], ids=["one axis", "three axes"])
def test_any_number_of_axes(spatial):
    rank, free = len(spatial), ["P", "Q", "R"][: len(spatial)]
    window, around = [3] * rank, ",".join(["1"] * 2 * rank)
    graph = with_weights(
        typed(f"""g (float[1,3,{",".join(map(str, spatial))}] x) => (float[1,2,{",".join(free)}] y)
            <{weights("v", 2, 3, *[1] * rank)}, {weights("w", 2, 3, *window)}, {weights("u", 2, 2, *window)}> {{
                short = Conv(x, v)
                first = Conv<pads=[{around}]>(x, w)
                second = Conv<pads=[{around}]>(first, u)
                y = Add(second, short)
            }}""")
    )
    history = optimized(graph, ["enlarge_kernels", "sum_into_conv"])
    assert [node.op for node in history.graph.nodes] == ["Conv", "Conv"]
    assert_equal(graph, history.graph)


def test_three_windows_become_one():
    graph = with_weights(
        typed(f"""g (float[1,3,8,8] x) => (float[1,1,8,8] a, float[1,2,8,8] b, float[1,3,8,8] c, float[1,1,8,8] d)
            <{weights("r", 1, 3, 1, 1)}, {weights("s", 2, 3, 3, 3)}, {weights("t", 3, 3, 5, 5)},
             {weights("u", 1, 3, 5, 5)}> {{
                a = Conv(x, r)
                b = Conv<pads=[1,1,1,1]>(x, s)
                c = Conv<pads=[2,2,2,2]>(x, t)
                d = Conv<pads=[2,2,2,2]>(x, u)
            }}""")
    )
    history = optimized(graph, ["enlarge_kernels"])
    assert [node.op for node in history.graph.nodes] == ["Conv", "Split"]
    (rewrite,) = history[1].rewrites
    assert "4 kernels" in rewrite.sentence and "7 (1 + 2 + 3 + 1) output channels" in rewrite.sentence
    flops = 2 * 64 * 3 * (1 * 24 + 2 * 16)
    assert rewrite.sentence.endswith(f"{3 * 768:,} bytes less, for {flops:,} FLOPs more")
    assert_equal(graph, history.graph)


@pytest.mark.parametrize(("part_first", "sum_first"), list(itertools.product([False, True], repeat=2)))
def test_the_parts_of_a_split_in_any_order(part_first, sum_first):
    parts, add = "b, a" if part_first else "a, b", "Add(b, c)" if sum_first else "Add(c, b)"
    sizes = "{3,2}" if part_first else "{2,3}"
    graph = with_weights(
        typed(f"""g (float[2,5,6,6] x) => (float[2,3,6,6] y)
            <{weights("w", 3, 2, 3, 3)}, {weights("bias", 3)}, int64[2] sizes = {sizes}> {{
                {parts} = Split<axis=-3>(x, sizes)
                c = Conv<pads=[1,1,1,1]>(a, w, bias)
                y = {add}
            }}""")
    )
    history = optimized(graph, ["sum_into_conv"])
    assert [node.op for node in history.graph.nodes] == ["Conv"]
    assert_equal(graph, history.graph)


def test_a_module_of_resnet_becomes_two_kernels():
    """The founding document's chain: a kernel enlarged, two merged, a sum and an activation fused."""
    sample = next(one for one in samples() if one.file.stem == "resnet_module")
    graph = wb.load(sample.file)
    history = optimized(graph, CHAIN, force=False)
    assert [len(step.rewrites) for step in history] == [0, 1, 1, 1]
    assert [node.op_type for node in history.graph.nodes] == ["Conv", "ConvRelu"]
    assert_equal(graph, history.graph)
