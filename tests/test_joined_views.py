"""Reshapes that meet where a layout strategy took the Transposes between them: one is left, or none."""

import numpy as np
import pytest

from tests.running import outputs, typed
from workbench.interfaces import api

_MEETS = """g (float[1,6,4,8] x, float[1,4,3,8] q) => (float[1,4,3,6] y)
    <int64[3] s = {4, 6, 8}, int64[4] t = {1, 4, 8, 6}> {
    k = Transpose<perm=[0,2,1,3]>(x)
    a = Reshape(k, s)
    b = Transpose<perm=[0,2,1]>(a)
    c = Reshape(b, t)
    y = MatMul(q, c)
}"""
_ACROSS = """g (float[2,6,4,8] x, float[2,4,3,8] q) => (float[2,4,3,6] y) <float low = {0.1}, int64[1] i = {-1}> {
    k = Transpose<perm=[0,2,1,3]>(x)
    norm = ReduceL2<keepdims=1>(k, i)
    clipped = Clip(norm, low)
    unit = Div(k, clipped)
    turned = Transpose<perm=[0,1,3,2]>(unit)
    y = MatMul(q, turned)
}"""


@pytest.mark.parametrize(("text", "reshapes"), [(_MEETS, 0), (_ACROSS, 0)])
def test_a_strategy_leaves_no_pair_of_reshapes(text, reshapes):
    graph = typed(text)
    after = api.optimize(graph, ["layout_optimal"], target="npu").graph
    assert len(after.nodes_of(("Reshape",))) == reshapes
    generator = np.random.default_rng(0)
    inputs = {v: generator.random(graph.shape(v), np.float32) for v in graph.inputs}
    np.testing.assert_allclose(outputs(after, inputs)["y"], outputs(graph, inputs)["y"], rtol=1e-5)
