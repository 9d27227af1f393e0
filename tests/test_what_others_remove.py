"""What other tools remove, the preset `simplify` removes: each as it is found in models, with what is left of it."""

import numpy as np
import pytest

from tests.running import outputs, random_inputs, typed
from workbench.interfaces import api

EXACT = {
    "a difference of an integer and itself": (
        "g (int64[2,3] x, int64[2,3] z) => (int64[2,3] y) { s = Sub(x, x)  a = Add(s, z)  y = Neg(a) }",
        ["Neg"],
    ),
    "a quotient of an integer and itself": (
        """g (int64[2,3] x, int64[2,3] z) => (int64[2,3] y) <int64 one = {1}> {
            m = Max(x, one)  q = Div(m, m)  a = Mul(q, z)  y = Neg(a)
        }""",
        ["Neg"],
    ),
    "an integer that equals itself": (
        "g (int64[2,3] x, bool[2,3] z) => (bool[2,3] y) { e = Equal(x, x)  a = And(e, z)  y = Not(a) }",
        ["Not"],
    ),
    "a number above itself": (
        "g (float[2,3] x, bool[2,3] z) => (bool[2,3] y) { e = Greater(x, x)  a = Or(e, z)  y = Not(a) }",
        ["Not"],
    ),
    "exclusive or of a value and itself": (
        "g (bool[2,3] x, bool[2,3] z) => (bool[2,3] y) { e = Xor(x, x)  a = Or(e, z)  y = Not(a) }",
        ["Not"],
    ),
    "a choice between a value and itself": (
        "g (bool[N,1] c, int64[N,3] x) => (int64[N,3] y) { a = Where(c, x, x)  y = Neg(a) }",
        ["Neg"],
    ),
    "neighbouring slices that are joined": (
        """g (float[N,8] x) => (float[N,6] y)
        <int64[1] a = {1}, int64[1] b = {4}, int64[1] c = {7}, int64[1] i = {1}> {
            s = Slice(x, a, b, i)  t = Slice(x, b, c, i)  y = Concat<axis=1>(s, t)
        }""",
        ["Slice"],
    ),
    "slices of all that are joined": (
        """g (float[N,8] x) => (float[N,8] y)
        <int64[1] a = {0}, int64[1] b = {4}, int64[1] c = {9223372036854775807}, int64[1] i = {1}> {
            s = Slice(x, a, b, i)  t = Slice(x, b, c, i)  j = Concat<axis=1>(s, t)  y = Neg(j)
        }""",
        ["Neg"],
    ),
    "a value that is repeated for a product": (
        "g (float[N,4] x, float[N,1] z) => (float[N,4] y) <int64[2] r = {1, 4}> { t = Tile(z, r)  y = Mul(t, x) }",
        ["Mul"],
    ),
    "not of a comparison of integers": (
        "g (int64[N] x, int64[N] z) => (bool[N] y) { a = Greater(x, z)  y = Not(a) }",
        ["LessOrEqual"],
    ),
}
IEEE = {
    "a state of zeros with the shape that makes it": (
        """g (float[S,N,2] x) => (float[S,1,N,3] y)
        <float[1,9,2] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9},
         float[1,9,3] r = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9},
         int64[1] one = {1}, int64[1] three = {3}, int64 i = {1}, int64[1] axes = {0}> {
            shape = Shape(x)  n = Gather(shape, i)  m = Unsqueeze(n, axes)
            s = Concat<axis=0>(one, m, three)
            h = ConstantOfShape(s)
            y = GRU<hidden_size=3>(x, w, r, , , h)
        }""",
        ["GRU"],
    ),
    "a pool of one element behind a bias": (
        """g (float[N,1,2,2] x) => (float[N,1,2,2] y) <float[1,1,1,1] w = {2}, float[1] b = {1}> {
            c = Conv(x, w, b)  a = AveragePool<kernel_shape=[1, 1]>(c)  y = Neg(a)
        }""",
        ["Conv", "Neg"],
    ),
    "the mean of an image of one element behind a bias": (
        """g (float[N,1,1,1] x) => (float[N,1,1,1] y) <float[1,1,1,1] w = {2}, float[1] b = {1}> {
            c = Conv(x, w, b)  a = GlobalAveragePool(c)  y = Neg(a)
        }""",
        ["Conv", "Neg"],
    ),
    "a slope of one": ("g (float[N] x) => (float[N] y) { a = LeakyRelu<alpha=1.0>(x)  y = Neg(a) }", ["Neg"]),
    "a condition that is false": (
        "g (float[N] x) => (float[N] y) <bool c = {0}, float z = {3}> { a = Where(c, z, x)  y = Neg(a) }",
        ["Neg"],
    ),
    "a condition that is true, of integers": (
        "g (int64[N] x) => (int64[N] y) <bool c = {1}, int64 z = {3}> { a = Where(c, x, z)  y = Neg(a) }",
        ["Neg"],
    ),
    "a maximum with the lowest integer": (
        "g (int8[N] x) => (int8[N] y) <int8 l = {-128}> { a = Max(x, l)  y = Neg(a) }",
        ["Neg"],
    ),
    "a maximum with -infinity": (
        "g (float[N] x) => (float[N] y) <float z = {0}> { l = Log(z)  a = Max(x, l)  y = Neg(a) }",
        ["Neg"],
    ),
    "a maximum over an axis of one": (
        "g (float[N,1] x) => (float[N,1] y) <int64[1] i = {1}> { a = ReduceMax(x, i)  y = Neg(a) }",
        ["Neg"],
    ),
    "blocks of one element": (
        "g (float[N,1,2,2] x) => (float[N,1,2,2] y) { a = DepthToSpace<blocksize=1>(x)  y = Neg(a) }",
        ["Neg"],
    ),
    "a gather of all": (
        "g (float[N,3] x) => (float[N,3] y) <int64[3] i = {0, 1, 2}> { a = Gather<axis=1>(x, i)  y = Neg(a) }",
        ["Neg"],
    ),
    "a neutral normalization behind an Exp": (
        """g (float[N,1,4] x) => (float[N,1,4] y) <float[1] o = {1}, float[1] z = {0}, float[1] v = {0.99999}> {
            e = Exp(x)  a = BatchNormalization(e, o, z, z, v)  y = Neg(a)
        }""",
        ["Exp", "Neg"],
    ),
    "a pad of a pad": (
        """g (float[3] x) => (float[M] y) <int64[2] p = {1, 0}> {
            a = Pad(x, p)  b = Pad(a, p)  y = Neg(b)
        }""",
        ["Pad", "Neg"],
    ),
    "an expand of an expand": (
        """g (float[1,1] x) => (float[2,3] y) <int64[2] s = {2, 1}, int64[2] t = {1, 3}> {
            a = Expand(x, s)  b = Expand(a, t)  y = Neg(b)
        }""",
        ["Expand", "Neg"],
    ),
    "blocks and back": (
        """g (float[N,1,4,4] x) => (float[N,1,4,4] y) {
            a = SpaceToDepth<blocksize=2>(x)  b = DepthToSpace<blocksize=2>(a)  y = Neg(b)
        }""",
        ["Neg"],
    ),
    "reshapes around a function": (
        """g (float[N,2,3] x) => (float[N,2,3] y) <int64[2] s = {-1, 3}, int64[3] t = {-1, 2, 3}> {
            a = Flatten(x)  b = Sigmoid(a)  y = Reshape(b, t)
        }""",
        ["Sigmoid"],
    ),
    "a reshape before a maximum of all": (
        "g (float[N,2] x) => (float y) <int64[1] s = {-1}> { a = Reshape(x, s)  y = ReduceMax<keepdims=0>(a) }",
        ["ReduceMax"],
    ),
    "a transpose before a sum of all": (
        "g (float[N,2] x) => (float[1,1] y) { a = Transpose(x)  y = ReduceSum(a) }",
        ["ReduceSum"],
    ),
    "a reciprocal that is multiplied": (
        "g (float[N] a, float[N] b) => (float[N] y) <float o = {1}> { r = Div(o, a)  y = Mul(r, b) }",
        ["Div"],
    ),
    "transposes around an operator in a graph without a convolution": (
        """g (float[1,4,4,2] x) => (float[1,4,4,2] y) {
            a = Transpose<perm=[0,3,1,2]>(x)  b = Relu(a)  y = Transpose<perm=[0,2,3,1]>(b)
        }""",
        ["Relu"],
    ),
    "transposes around a Softmax and a sum": (
        """g (float[N,4,3] x) => (float[N,1,3] y) <int64[1] i = {2}> {
            a = Transpose<perm=[0,2,1]>(x)  b = Softmax<axis=2>(a)  c = ReduceSum(b, i)
            y = Transpose<perm=[0,2,1]>(c)
        }""",
        ["Softmax", "ReduceSum"],
    ),
    "a layer scale by negative numbers before a residual sum": (
        """g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}, float[2] b = {1, 2}, float[2] m = {-1, 2}> {
            e = Exp(x)  c = Gemm(x, w, b)  s = Mul(c, m)  y = Add(e, s)
        }""",
        ["Exp", "Gemm", "Add"],
    ),
    "the shape of a head in which -1 says the batch": (
        """g (float[N,4,6,2] x) => (float[6,2] y)
        <int64[1] four = {4}, int64[1] six = {6}, int64[1] rest = {-1}, int64[1] i = {0}> {
            n = Shape<start=0, end=1>(x)  m = Mul(n, four)  s = Concat<axis=0>(m, six, rest)
            r = Reshape(x, s)  y = ReduceMax<keepdims=0>(r, i)
        }""",
        ["Reshape", "ReduceMax"],
    ),
    "a mean times the number of its elements": (
        "g (float[N,4] x) => (float[N,1] y) <int64[1] i = {1}, float n = {4}> { m = ReduceMean(x, i)  y = Mul(m, n) }",
        ["ReduceSum"],
    ),
    "a sum divided by the number of its elements": (
        "g (float[N,5] x) => (float[N,1] y) <int64[1] i = {1}, float n = {5}> { s = ReduceSum(x, i)  y = Div(s, n) }",
        ["ReduceMean"],
    ),
}
FAST = {
    "a pool of one element": (
        "g (float[N,1,2,2] x) => (float[N,1,2,2] y) { a = AveragePool<kernel_shape=[1, 1]>(x)  y = Neg(a) }",
        ["Neg"],
    ),
    "a sum over an axis of one": (
        "g (float[N,1] x) => (float[N,1] y) <int64[1] i = {1}> { a = ReduceSum(x, i)  y = Neg(a) }",
        ["Neg"],
    ),
    "a condition that is true": (
        "g (float[N] x) => (float[N] y) <bool c = {1}, float z = {3}> { a = Where(c, x, z)  y = Neg(a) }",
        ["Neg"],
    ),
    "a clip without bounds": ("g (float[N] x) => (float[N] y) { a = Clip(x)  y = Neg(a) }", ["Neg"]),
    "quotients by one divisor": (
        """g (float[N] a, float[N] b, float[N] c) => (float[N] y) {
            e = Exp(b)  p = Div(a, e)  q = Div(c, e)  y = Add(p, q)
        }""",
        ["Exp", "Add", "Div"],
    ),
    "a sum of logarithms": (
        """g (float[N] a, float[N] b) => (float[N] y) {
            c = Softplus(a)  d = Softplus(b)  p = Log(c)  q = Log(d)  y = Add(p, q)
        }""",
        ["Softplus", "Softplus", "Mul", "Log"],
    ),
    "a product of roots": (
        """g (float[N] a, float[N] b) => (float[N] y) {
            c = Softplus(a)  d = Softplus(b)  p = Sqrt(c)  q = Sqrt(d)  y = Mul(p, q)
        }""",
        ["Softplus", "Softplus", "Mul", "Sqrt"],
    ),
    "a transpose before a maximum over listed axes": (
        """g (float[N,2,3] x) => (float[N,1,1] y) <int64[2] i = {1, 2}> {
            t = Transpose<perm=[0,2,1]>(x)  y = ReduceMax(t, i)
        }""",
        ["ReduceMax"],
    ),
    "a transpose before a maximum of all": (
        "g (float[N,2,3] x) => (float y) { t = Transpose<perm=[2,0,1]>(x)  y = ReduceMax<keepdims=0>(t) }",
        ["ReduceMax"],
    ),
    "a difference of a number and itself": (
        "g (float[2,3] x, float[2,3] z) => (float[2,3] y) { s = Sub(x, x)  a = Add(s, z)  y = Neg(a) }",
        ["Neg"],
    ),
    "a quotient of a number and itself": (
        "g (float[2,3] x, float[2,3] z) => (float[2,3] y) { e = Exp(x)  s = Div(e, e)  a = Mul(s, z)  y = Neg(a) }",
        ["Neg"],
    ),
    "a choice between a number and itself": (
        "g (bool[N] c, float[N] x) => (float[N] y) { a = Where(c, x, x)  y = Neg(a) }",
        ["Neg"],
    ),
    "not of a comparison": (
        "g (float[2,3,4] a, float[2,3,4] b) => (bool[2,3,4] y) { g = Greater(a, b)  y = Not(g) }",
        ["LessOrEqual"],
    ),
    "a sum of products with one factor": (
        """g (float[N,3] a, float[N,3] b, float[N,3] c, float[3] k) => (float[N,3] y) {
            p = Mul(a, k)  q = Mul(b, k)  r = Mul(k, c)  y = Sum(p, q, r)
        }""",
        ["Sum", "Mul"],
    ),
    "the root of a square": ("g (float[N] x) => (float[N] y) { a = Mul(x, x)  y = Sqrt(a) }", ["Abs"]),
    "integers that are multiplied before their sum": (
        """g (int64[N,3] x) => (int64[N] y) <int64 k = {3}, int64[1] i = {1}> {
            m = Mul(x, k)  s = ReduceSum<keepdims=0>(m, i)  y = Neg(s)
        }""",
        ["ReduceSum", "Mul", "Neg"],
    ),
}
CASES = [
    pytest.param(text, left, mode, id=name)
    for mode, cases in (("exact", EXACT), ("ieee", IEEE), ("fast", FAST))
    for name, (text, left) in cases.items()
]


@pytest.mark.parametrize(("text", "left", "mode"), CASES)
def test_simplify_leaves_nothing_of_what_others_remove(text, left, mode):
    graph = typed(text)
    found = api.optimize(graph, preset="simplify", mode=mode).graph
    assert sorted(node.op for node in found.nodes) == sorted(left)
    inputs = random_inputs(graph)
    for name, array in outputs(found, inputs).items():
        np.testing.assert_allclose(array, outputs(graph, inputs)[name], rtol=1e-5, atol=1e-6)


def test_the_condition_of_a_loop_that_stays_true_takes_no_node():
    graph = typed("""g (int64 n, float[2] x) => (float[2] y) <bool t = {1}> {
        y = Loop(n, t, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) {
            d = Identity(c)  r = Add(s, s)
        }>
    }""")
    found = api.optimize(graph, preset="simplify").graph
    assert [node.op for node in found.node("Loop_y").bodies["body"].nodes] == ["Add"]
