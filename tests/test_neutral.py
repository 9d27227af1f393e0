"""What changes nothing goes with `simplify`, however it is written."""

import numpy as np
import pytest

from tests.running import outputs, random_inputs, typed
from workbench.interfaces import api

GRAPHS = {
    "resize by scales of 1": """(float[1,2,4,4] x) => (float[1,2,4,4] y) <float[4] s = {1, 1, 1, 1}>
        { a = Resize<mode="cubic">(x, , s)  y = Neg(a) }""",
    "resize to its own sizes": """(float[1,2,4,4] x) => (float[1,2,4,4] y) <int64[2] s = {4, 4}>
        { a = Resize<axes=[2,3]>(x, , , s)  y = Neg(a) }""",
    "pool of one": """(float[N,2,4,4] x) => (float[N,2,4,4] y)
        { a = MaxPool<kernel_shape=[1,1], strides=[1,1]>(x)  y = Neg(a) }""",
    "pool of one integer": """(int8[N,2,4] x) => (int8[N,2,4] y) { a = MaxPool<kernel_shape=[1]>(x)  y = Neg(a) }""",
    "training dropout of none": """(float[N] x) => (float[N] y) <float r = {0}, bool t = {1}>
        { a = Dropout(x, r, t)  y = Neg(a) }""",
    "expand and squeeze": """(float[N,3] x) => (float[N,3] y) <int64[3] s = {1, 1, 1}, int64[1] i = {0}>
        { a = Expand(x, s)  b = Squeeze(a, i)  y = Neg(b) }""",
    "concat and another split": """(float[N,1] x, float[N,2] z) => (float[N,2] y) <int64[3] s = {1, 1, 1}>
        { a = Concat<axis=1>(x, z)  b, c, d = Split<axis=1>(a, s)  e = Concat<axis=1>(c, d)  y = Neg(e) }""",
    "concat and slice": """(float[N,1] x, float[N,2] z) => (float[N,2] y) <int64[1] s = {-2}, int64[1] e = {9},
        int64[1] i = {1}> { a = Concat<axis=1>(x, z)  b = Slice(a, s, e, i)  y = Neg(b) }""",
    "times two times half": """(float[N] x) => (float[N] y) <float a = {2}, float b = {0.5}>
        { p = Mul(x, a)  q = Mul(p, b)  y = Neg(q) }""",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_what_changes_nothing_goes(name):
    graph = typed(f"g {GRAPHS[name]}")
    simplified = api.optimize(graph, preset="simplify").graph
    assert [node.op for node in simplified.nodes] == ["Neg"]
    inputs = random_inputs(graph)
    np.testing.assert_array_equal(outputs(simplified, inputs)["y"], outputs(graph, inputs)["y"])


def test_a_shape_that_is_known_is_a_constant_as_an_output_too():
    graph = typed("g (float[2,3] x) => (int64[2] y, float[2,3] z) { y = Shape(x)  z = Neg(x) }")
    simplified = api.optimize(graph, preset="simplify").graph
    assert [node.op for node in simplified.nodes] == ["Neg"]
    assert outputs(simplified, random_inputs(graph))["y"].tolist() == [2, 3]
