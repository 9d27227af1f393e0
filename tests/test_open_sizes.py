"""Sizes that ONNX's shape inference leaves open, and that follow from others: they are what ONNX Runtime computes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.running import outputs
from workbench.formats.io.onnx_file import load_proto
from workbench.ir import from_text
from workbench.ir.to_proto import to_proto

SIZES = {"N": 3, "S": 5}
TABLE = f"float[9,3] table = {{{','.join(map(str, range(27)))}}}, int64 zero = {{0}}, int64 one = {{1}}"

# the graph up to y, and the shape of y; a last node is put behind, since the dims of an output are only declared
FOLLOWS = {
    "what is left of a batch": (
        "(float[N,4,8] x) <int64[4] s = {-1,4,2,4}> { y = Reshape(x, s)",
        ("N", 4, 2, 4),
    ),
    "a batch copied": ("(float[N,4,8] x) <int64[4] s = {0,-1,2,4}> { y = Reshape(x, s)", ("N", 4, 2, 4)),
    "heads of a text": ("(float[N,S,8] x) <int64[4] s = {0,0,2,-1}> { y = Reshape(x, s)", ("N", "S", 2, 4)),
    "a batch merged with heads and split again": (
        """(float[N,2,4,3] x) <int64[3] flat = {-1,4,3}, int64[4] back = {-1,2,3,4}> {
            f = Reshape(x, flat)  t = Transpose<perm=[0,2,1]>(f)  y = Reshape(t, back)""",
        ("N", 2, 3, 4),
    ),
    "as many places as there are words": (
        f"(float[N,S] x) <{TABLE}> {{ d = Shape(x)  n = Gather(d, one)  p = Range(zero, n, one)  y = Gather(table, p)",
        ("S", 3),
    ),
    "a sum of words and places": (
        f"""(float[N,S,3] x) <{TABLE}> {{
            d = Shape(x)  n = Gather(d, one)  p = Range(zero, n, one)  e = Gather(table, p)  y = Add(x, e)""",
        ("N", "S", 3),
    ),
}
# the graph up to y, and how many of its dims stay open
OPEN = {
    "two symbols merged": ("(float[N,S,8] x) <int64[2] s = {-1,8}> { y = Reshape(x, s)", 1),
    "a quotient that may not be whole": ("(float[N,4,3] x) <int64[2] s = {-1,5}> { y = Reshape(x, s)", 1),
    "a shape that is given": ("(float[N,4,3] x, int64[2] s) <int64 one = {1}> { y = Reshape(x, s)", 2),
    "a Range from 1": (
        f"(float[N,S] x) <{TABLE}> {{ d = Shape(x)  n = Gather(d, one)  r = Range(one, n, one)  y = Cast<to=1>(r)",
        1,
    ),
    "two lengths": (
        f"""(float[N,S] x, float[N,T] z) <{TABLE}> {{
            d = Shape(z)  n = Gather(d, one)  p = Range(zero, n, one)  c = Cast<to=1>(p)  y = Add(x, c)""",
        1,
    ),
}


def loaded(text):
    inputs, rest = text.split(") <", 1)
    return load_proto(to_proto(from_text(f"g {inputs}) => (float out) <{rest}  out = Identity(y) }}")))


@pytest.mark.parametrize("name", FOLLOWS)
def test_a_size_that_follows(name):
    text, expected = FOLLOWS[name]
    graph = loaded(text)
    assert graph.shape("y") == expected
    x = np.zeros([SIZES.get(dim, dim) for dim in graph.shape("x")], np.float32)
    assert outputs(graph, {"x": x})["out"].shape == tuple(SIZES.get(dim, dim) for dim in expected)


@pytest.mark.parametrize("name", OPEN)
def test_a_size_that_does_not_follow_stays_open(name):
    text, count = OPEN[name]
    assert sum(isinstance(dim, str) and dim.startswith("unk_") for dim in loaded(text).shape("y")) == count
