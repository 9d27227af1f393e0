"""The light networks, as they are and written in two other ways, through every layout strategy: equal outputs.

Where that can be, channels are a quarter of the network's own; the structure is whole. All are timed in one worker.
"""

from functools import cache

import numpy as np
import pytest

import passes
from sample_models.light import LIGHT_MODELS, random_light
from sample_models.variants import mixed_layouts, nhwc_dataflow
from tests.running import outputs, random_inputs, typed
from workbench.formats.io import load_model
from workbench.interfaces.api import layouts, optimize
from workbench.ir import Graph

WRITTEN = {"plain": Graph.copy, "nhwc": nhwc_dataflow, "mixed": mixed_layouts}
TARGETS = {"plain": "cuda", "nhwc": "cpu", "mixed": "cuda"}
WHOLE = ("shufflenet",)  # its groups have too few channels to be divided further
ALIKE = ("bvlc_alexnet", "vgg19")  # the operators of zfnet512 in the same order
CASES = [
    pytest.param(name, written, marks=[] if name == "squeezenet" else [pytest.mark.slow])
    for name in LIGHT_MODELS
    if name not in ALIKE
    for written in WRITTEN
    if written == "plain" or name != "zfnet512"
]


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("light")

    @cache
    def made(name: str) -> Graph:
        path = folder / f"{name}.onnx"
        path.write_bytes(random_light(name, narrow=1 if name in WHOLE else 4).SerializeToString())
        return load_model(path)

    return made


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(("name", "written"), CASES)
def test_every_strategy_keeps_what_it_computes(network, name, written):
    graph = WRITTEN[written](network(name))
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    found = layouts(graph, target=TARGETS[written])
    assert list(found) == ["none", *passes.compared_strategies()]
    for strategy, laid_out in found.items():
        for output, numbers in outputs(laid_out.history.graph, inputs).items():
            np.testing.assert_allclose(numbers, expected[output], rtol=1e-4, atol=1e-6, err_msg=strategy)
    assert found["optimal"].row()["certified"]
    least = min(row.row()["bytes_moved"] for name, row in found.items() if name not in ("none", "measured"))
    assert found["optimal"].row()["bytes_moved"] == least


@pytest.mark.parametrize("target", ["cuda", "nchw"])
def test_pure_moves_are_bit_equal(target):
    """Operators that only move or compare elements: not one bit changes, whatever the strategy."""
    graph = typed("""g (float[2,4,8,8] x) => (float[2,4,4,2] y, int64[2,1,8,8] i) <int64[4] s = {0, 1, 0, 0},
        int64[4] e = {2, 3, 8, 4}, int64[4] a = {0, 1, 2, 3}, int64[8] p = {0,0,1,1,0,0,1,1}> {
        t = Transpose<perm=[0,2,3,1]>(x)
        r = Relu(t)
        u = Transpose<perm=[0,3,1,2]>(r)
        m = MaxPool<kernel_shape=[2,2], strides=[2,2]>(u)
        q = Pad(m, p)
        n = MaxPool<kernel_shape=[3,3]>(q)
        c = Slice(n, s, e, a)
        d = Concat<axis=1>(c, c, c, c)
        h, k = Split<axis=3, num_outputs=2>(d)
        y = Transpose<perm=[0,1,2,3]>(h)
        i = ArgMax<axis=1>(u)
    }""")
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    for strategy in passes.compared_strategies():
        result = optimize(graph, ["cancel_transposes"], layout=strategy, target=target).graph
        for output, numbers in outputs(result, inputs).items():
            np.testing.assert_array_equal(numbers, expected[output], err_msg=strategy)
