"""Graphs that other simplifiers made wrong, too large or invalid, each after a public report of that.

The numbers are those of issues and pull requests on GitHub. The graphs are ours: small ones of the shape that the
report describes. What went wrong there stands above each. Reports of onnx/optimizer from 252 on, and 277 of
OnnxSlim, name the pass and measure the difference, not the cause: there the graph holds what such a pass must tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """A graph and where its like went wrong.

    source:  the report.
    nodes:   how many may be left at most, where it is not as many as there were.
    moves:   only moves elements, or computes with integers only: equal to the last bit.
    inputs:  numbers that the report is about, beside random and hostile ones.
    """

    source: str
    text: str
    nodes: int | None = None
    moves: bool = False
    inputs: Mapping[str, Any] = field(default_factory=dict)


NORM = "float[2] s = {1, 2}, float[2] b = {0.5, 1}, float[2] m = {1, -1}, float[2] v = {1, 4}"
NAMED = (
    # The pass that makes a Slice behind Shape the start and end of the Shape. Here: negative places, bounds past the end.
    Case(
        "onnx/optimizer#263 negative places",
        """g (float[N,3,M,5] x) => (int64[A] y, int64[B] z)
            <int64[1] s = {-3}, int64[1] e = {-1}, int64[1] i = {0}, int64[1] t = {1}, int64[1] f = {9}> {
            h = Shape(x)  a = Slice(h, s, e, i)  y = Neg(a)  k = Shape<start=1, end=-1>(x)  c = Slice(k, t, f, i)
            z = Neg(c)
        }""",
        moves=True,
    ),
    Case(
        "onnx/optimizer#263 backward",
        """g (float[N,3,M,5] x) => (int64[A] y)
            <int64[1] s = {-1}, int64[1] e = {-4}, int64[1] i = {0}, int64[1] p = {-2}> {
            h = Shape(x)  a = Slice(h, s, e, i, p)  y = Neg(a)
        }""",
        moves=True,
    ),
    # Batch norms went into convolutions whose weights are initializers as new nodes that compute the weights.
    Case(
        "onnx/optimizer#133 initializers",
        f"""g (float[N,2,3,3] x) => (float[N,2,3,3] y) <float[2,2,1,1] w = {{1, 2, 3, 4}}, {NORM}> {{
            a = Conv(x, w)  y = BatchNormalization(a, s, b, m, v)
        }}""",
        nodes=1,
    ),
    # The same with constants that two convolutions share, and with another reader of the convolution.
    Case(
        "onnx/optimizer#178 shared weights",
        f"""g (float[N,2,3,3] x) => (float[N,2,3,3] y) <float[2,2,1,1] w = {{1, 2, 3, 4}}, {NORM}> {{
            a = Conv(x, w)  c = BatchNormalization(a, s, b, m, v)
            d = Conv(c, w)  y = BatchNormalization(d, s, b, m, v)
        }}""",
        nodes=2,
    ),
    Case(
        "onnx/optimizer#178 two readers",
        f"""g (float[N,2,3,3] x) => (float[N,2,3,3] y, float[N,2,3,3] z) <float[2,2,1,1] w = {{1, 2, 3, 4}}, {NORM}> {{
            a = Conv(x, w)  y = BatchNormalization(a, s, b, m, v)  z = Neg(a)
        }}""",
    ),
    # The pass that removes Slices in a row. Here: one axis twice, other axes, backward.
    Case(
        "inisis/OnnxSlim#277 one axis twice",
        """g (float[2,7,N] x) => (float[A,B,C] y, float[D,E,F] z)
            <int64[1] s = {1}, int64[1] e = {-1}, int64[1] i = {1}, int64[1] j = {-2}, int64[1] p = {2}> {
            a = Slice(x, s, e, i, p)  y = Slice(a, s, e, j)  z = Neg(a)
        }""",
        moves=True,
    ),
    Case(
        "inisis/OnnxSlim#277 other axes",
        """g (float[5,7,3] x) => (float[A,B,C] y) <int64[2] s = {1, -4}, int64[2] e = {6, 4}, int64[2] i = {1, 0},
            int64[2] t = {-1, 0}, int64[2] f = {-9, 2}, int64[2] j = {-2, 2}, int64[2] p = {-2, 1}> {
            a = Slice(x, s, e, i)  y = Slice(a, t, f, j, p)
        }""",
        nodes=1,
        moves=True,
    ),
    # Folded Reshapes and Squeezes kept pointing into the memory of an initializer that was then freed.
    Case(
        "microsoft/onnxruntime#29788 views of a constant",
        """g (float[N,6] x) => (float[N,6] y, float[N,6] z)
            <float[2,3] w = {1, 2, 3, 4, 5, 6}, int64[2] s = {1, 6}, int64[1] i = {0}> {
            a = Reshape(w, s)  b = Squeeze(a, i)  c = Flatten<axis=0>(w)  y = Mul(x, b)  z = Div(x, c)
        }""",
        nodes=2,
    ),
    # Float arithmetic with zeros is no identity: -0.0 + 0.0 is 0.0, NaN * 0 and Inf * 0 are NaN, 0 / 0 too.
    Case("signs: x + 0", "g (float[N] x) => (float[N] y) <float z = {0}> { a = Add(x, z)  y = Neg(a) }"),
    Case("signs: 0 - x", "g (float[N] x) => (float[N] y) <float z = {0}> { a = Sub(z, x)  y = Neg(a) }"),
    Case("signs: x * 0", "g (float[N] x) => (float[N] y) <float z = {0}> { a = Mul(x, z)  y = Neg(a) }"),
    Case("signs: x - x, x / x", "g (float[N] x) => (float[N] y, float[N] z) { y = Sub(x, x)  z = Div(x, x) }"),
)

SHAPES = (
    # Two Squeezes of the last axis became one of axes -1 and 0.
    Case(
        "onnx/optimizer#35 squeezed from the end",
        "g (float[1,N,1,1] x) => (float[1,N] y) <int64[1] i = {-1}> { a = Squeeze(x, i)  y = Squeeze(a, i) }",
        nodes=1,
        moves=True,
    ),
    # The same pass again. Here: a Squeeze without axes, which depends on the sizes.
    Case(
        "onnx/optimizer#253 squeezed without axes",
        "g (float[1,N,1,3] x) => (float[?] y) <int64[1] i = {0}> { a = Squeeze(x, i)  b = Squeeze(a)  y = Neg(b) }",
        moves=True,
    ),
    # The pass that removes an Expand that does nothing. Here: one that makes more elements, and more axes.
    Case(
        "onnx/optimizer#275 expanded",
        """g (float[2,1] x) => (float[2,3] y, float[1,2,1] z, float[2,1] w)
            <int64[2] s = {2, 3}, int64[3] t = {1, 1, 1}, int64[1] u = {1}> {
            a = Expand(x, s)  y = Neg(a)  b = Expand(x, t)  z = Neg(b)  c = Expand(x, u)  w = Neg(c)
        }""",
        nodes=5,
        moves=True,
    ),
    # The pass that removes a Concat of one operand. Here: beside an empty one, and alone along a negative axis.
    Case(
        "onnx/optimizer#252 joined with nothing",
        """g (float[N,2] x, float[N,0] e) => (float[N,2] y, float[N,4] z) {
            a = Concat<axis=1>(x, e)  y = Neg(a)  b = Concat<axis=-1>(x)  z = Concat<axis=-1>(b, x)
        }""",
        moves=True,
    ),
    # The pass that removes a Split into one piece. Here: beside one that makes several.
    Case(
        "onnx/optimizer#283 split",
        """g (float[N,5] x) => (float[N,5] y, float[N,2] z) <int64[1] one = {5}, int64[3] two = {2, 2, 1}> {
            a = Split<axis=-1>(x, one)  y = Neg(a)  b, c, d = Split<axis=1>(x, two)  z = Sub(c, b)
        }""",
        moves=True,
    ),
    # The pass that writes sizes into a Reshape. Here: in another order, and beside a -1.
    Case(
        "onnx/optimizer#267 shape put together",
        """g (float[N,M,6] x) => (float[M,N,6] y, float[N,C,2] z)
            <int64[1] i = {1}, int64[1] j = {0}, int64[1] rest = {-1}, int64[1] two = {2}> {
            h = Shape(x)  m = Gather(h, i)  n = Gather(h, j)  e = Gather(h, two)  s = Concat<axis=0>(m, n, e)
            y = Reshape(x, s)  t = Concat<axis=0>(n, rest, two)  z = Reshape(x, t)
        }""",
        moves=True,
    ),
    # Of an axis whose size is not known the -1 that stands for it was taken as a size; the Reshape got two.
    Case(
        "microsoft/onnxscript#2963 two unknown axes",
        """g (float[?,?,4] x) => (float[?,?] y) <int64[1] i = {0}, int64[1] rest = {-1}> {
            h = Shape(x)  n = Gather(h, i)  s = Concat<axis=0>(n, rest)  y = Reshape(x, s)
        }""",
        moves=True,
    ),
    # The pass that folds Shape. Here: of a part, with negative places, and a Gather of a scalar.
    Case(
        "onnx/optimizer#279 part of a shape",
        """g (float[N,3,M,5] x) => (int64[A] y, int64 z, int64[B] w) <int64 i = {-2}, int64[2] j = {-1, 0}> {
            h = Shape<start=-3, end=-1>(x)  y = Neg(h)  k = Shape(x)  g = Gather(k, i)  z = Neg(g)
            f = Gather(h, j)  w = Neg(f)
        }""",
        moves=True,
    ),
    # The pass that folds a Gather from a Shape. Here: from one with a start, which moves the places.
    Case(
        "onnx/optimizer#280 gathered from a part",
        """g (float[2,3,4,5] x) => (int64 y) <int64 i = {1}> {
            h = Shape<start=2>(x)  g = Gather(h, i)  y = Neg(g)
        }""",
        nodes=1,
        moves=True,
    ),
    # Two chains with one shape constant that holds -1 got the sizes of one of them, or a name that nothing makes.
    Case(
        "microsoft/onnxscript#2945 one shape for two",
        """g (float[2,6] x, float[3,6] z) => (float[4,3] y, float[6,3] w) <int64[2] s = {-1, 3}, int64[1] f = {-1}> {
            a = Reshape(x, f)  y = Reshape(a, s)  b = Reshape(z, f)  w = Reshape(b, s)
        }""",
        nodes=2,
        moves=True,
    ),
    # A Gather with a scalar drops the axis and one with a list of one keeps it; as pieces of a Split they were alike.
    Case(
        "microsoft/onnxruntime#19600 scalar and list",
        """g (float[3,N] x) => (float[N] y, float[1,N] z)
            <int64 i = {0}, int64[1] j = {1}, int64[1] s = {2}, int64[1] e = {3}, int64[1] k = {0}> {
            a = Gather<axis=0>(x, i)  y = Neg(a)  b = Gather<axis=0>(x, j)  c = Slice(x, s, e, k)  z = Sub(b, c)
        }""",
    ),
    # Axes of Unsqueeze as a scalar, which exporters write and runtimes take, stopped the fusion of two.
    Case(
        "microsoft/onnxscript#1988 scalar axes",
        "g (float[N,3] x) => (float[1,N,3,1] y) <int64 i = {2}, int64[1] j = {0}>"
        " { a = Unsqueeze(x, i)  y = Unsqueeze(a, j) }",
        moves=True,
    ),
)

TYPES = (
    # Casts to a narrower type and back went, though they round.
    Case("microsoft/onnxruntime#8787", "g (float[N] x) => (float[N] y) { a = Cast<to=10>(x)  y = Cast<to=1>(a) }"),
    Case("microsoft/onnxruntime#17565", "g (double[N] x) => (double[N] y) { a = Cast<to=1>(x)  y = Cast<to=11>(a) }"),
    # A Cast to integers between floats, or before bool, went, though it cuts off.
    Case(
        "microsoft/onnxruntime#4039 over integers",
        "g (float[N] x) => (float[N] y) { a = Cast<to=6>(x)  y = Cast<to=1>(a) }",
        inputs={"x": [0.5, -0.5, 2.75, -3.25]},
    ),
    Case(
        "microsoft/onnxruntime#11994 to bool",
        "g (float[N] x) => (bool[N] y) { a = Cast<to=6>(x)  y = Cast<to=9>(a) }",
        inputs={"x": [-0.25, 0.0, 0.5, 2.0]},
    ),
    # Two Casts of one kind were merged with the one to bool.
    Case(
        "microsoft/onnxruntime#18212 the same Cast twice",
        "g (float[N] x) => (bool[N] y, int32[N] z) { a = Cast<to=6>(x)  y = Cast<to=9>(a)  b = Cast<to=6>(a)"
        "  z = Identity(b) }",
        inputs={"x": [-0.25, 0.0, 0.5, 2.0]},
    ),
    # Integers over unsigned ones and back, and over narrower ones: the sign and the high bits were forgotten.
    Case(
        "microsoft/onnxruntime#17953 signs",
        "g (int32[N] x, int64[M] z) => (int64[N] y, int64[M] w)"
        " { a = Cast<to=12>(x)  y = Cast<to=7>(a)  b = Cast<to=6>(z)  w = Cast<to=7>(b) }",
        moves=True,
    ),
    # The pass that removes a Cast to the type that is there. Here: beside one to another.
    Case(
        "onnx/optimizer#273",
        "g (int32[N] x) => (int32[N] y, int64[N] z) { a = Cast<to=6>(x)  y = Neg(a)  b = Cast<to=7>(x)  z = Neg(b) }",
        nodes=3,
        moves=True,
    ),
    # Relu and Clip in double precision: the fusion knew float only and stopped.
    Case(
        "microsoft/onnxruntime#11836 Relu and Clip",
        "g (double[N] x) => (double[N] y) <double a = {-1}, double b = {1}> { r = Relu(x)  y = Clip(r, a, b) }",
    ),
    # x * sigmoid(1.702 * x) in double became an operator that has no kernel for it.
    Case(
        "microsoft/onnxruntime#32421 double",
        "g (double[N] x) => (double[N] y) <double k = {1.702}> { a = Mul(x, k)  b = Sigmoid(a)  y = Mul(x, b) }",
    ),
)

FOLDED = (
    # x / 1 * 1 behind a node that goes: what was left read the value that had gone.
    Case(
        "microsoft/onnxruntime#32413 Identity",
        """g (float[N] x) => (float[N] y) <float o = {1}, float z = {0}> {
            m = Identity(x)  f = Div(o, o)  w = Mul(m, f)  y = Add(w, z)
        }""",
        nodes=1,
    ),
    Case(
        "microsoft/onnxruntime#32414 Dropout",
        "g (float[N] x) => (float[N] y) <float o = {1}> { m = Dropout(x)  f = Div(o, o)  y = Mul(f, m) }",
        nodes=1,
    ),
    Case(
        "microsoft/onnxruntime#32416 Cast",
        "g (float[N] x) => (float[N] y) <float o = {1}> { m = Cast<to=1>(x)  f = Div(o, o)  y = Mul(m, f) }",
        nodes=1,
    ),
    # The pass that removes neutral ones and zeros. Here: larger than what they are neutral to.
    Case(
        "onnx/optimizer#285 neutral but larger",
        """g (int32[N,1] x) => (int32[N,2] y, int32[1,N,1] z) <int32[2] o = {1, 1}, int32[1,1,1] k = {0}> {
            a = Mul(x, o)  y = Neg(a)  b = Add(x, k)  z = Neg(b)
        }""",
        moves=True,
    ),
    # The pass that removes Dropout. Here: its mask is read.
    Case(
        "onnx/optimizer#274 mask",
        "g (float[N] x) => (float[N] y, bool[N] z) { a, m = Dropout(x)  y = Neg(a)  z = Not(m) }",
    ),
    # The pass that computes once what is computed twice. Here: for two outputs, and beside other axes.
    Case(
        "onnx/optimizer#254 computed twice",
        """g (float[N,2] x) => (float[N,1] y, float[N,1] z, float[1,2] w) <int64[1] i = {1}, int64[1] j = {0}> {
            y = ReduceMax(x, i)  z = ReduceMax(x, i)  w = ReduceMax(x, j)
        }""",
    ),
    # The pass that removes what keeps the order before ArgMax. Here: Exp, until it overflows.
    Case(
        "onnx/optimizer#281 place of the largest",
        """g (float[N,3] x) => (int64[N,1] y, int64[N,1] z) {
            a = Exp(x)  y = ArgMax<axis=1>(a)  b = Exp(a)  z = ArgMax<axis=1>(b)
        }""",
        inputs={"x": [[100.0, 200.0, 1.0], [-200.0, -100.0, -150.0]]},
    ),
    # The place of the least of constants with NaN, and 1 / 0 * 0, were folded to something else than was computed.
    Case(
        "microsoft/onnxruntime#31140 NaN among constants",
        """g (int64[N] x) => (int64[2] y) <float[2,2] k = {0, -1, -1, -1}, int64[2] o = {0, 0}> {
            a = Log(k)  b = ArgMin<axis=1, keepdims=0>(a)  y = Add(b, o)
        }""",
    ),
    Case(
        "microsoft/onnxruntime#31163 infinity among constants",
        """g (float[N] x) => (float[N] y) <float k = {0}> {
            a = Sqrt(k)  b = Reciprocal(a)  c = Mul(b, k)  y = Mul(x, c)
        }""",
        nodes=1,
    ),
    # A constant inside a function was folded into the graph outside, where nothing kept it.
    Case(
        "microsoft/onnxscript#2673 constants of a function",
        """<ir_version: 10, opset_import: ["": 21, "this": 1]> g (float x) => (float y) { y = this.f(x) }
        <domain: "this", opset_import: ["": 21]> f (x) => (r) {
            k = Constant<value_int: int = 1>()  c = Cast<to: int = 1>(k)  r = Sub(c, x)
        }""",
    ),
    # An output of the graph that is a constant went with the node that made it.
    Case(
        "microsoft/onnxscript#2728 constant outputs",
        """g (float[N] x, bool c) => (float[2] k, float[2] y, float[2] z, float[2] w)
            <float[2] k = {1, 2}, float[2] j = {1, 2}> {
            y = Neg(j)  z = Identity(k)
            w = If(c) <
                then_branch = t () => (float[2] r) { r = Constant<value = float[2] {1.0, 2.0}>() },
                else_branch = e () => (float[2] q) { q = Abs(j) }
            >
        }""",
    ),
    # The If that exporters write for a squeeze: its branch went to the outside without the axes.
    Case(
        "microsoft/onnxscript#2810 axes of a branch",
        """g (float[1,N] x, bool c) => (float[?] y, float[?] z) <int64[1] k = {0}, int64 o = {1}, int64 i = {0}> {
            h = Shape(x)  d = Gather(h, i)  one = Equal(d, o)
            y = If(one) <
                then_branch = t () => (float[?] r) { r = Squeeze(x, k) }, else_branch = e () => (float[?] q) { q = Neg(x) }
            >
            z = If(c) <
                then_branch = u () => (float[?] s) { s = Squeeze(x, k) }, else_branch = f () => (float[?] p) { p = Neg(x) }
            >
        }""",
    ),
    # Bodies lost the results that are constant, the first of which says whether a Loop goes on.
    Case(
        "microsoft/onnxruntime#8825 constant results of bodies",
        """g (float[2] x, bool c) => (float[2] y, float[A,2] s, float z) <int64 n = {3}, bool p = {1}> {
            y, s = Loop(n, p, x) <body = b (int64 i, bool q, float[2] a) => (bool t, float[2] d, float[2] o) {
                t = Constant<value = bool {1}>()  d = Add(a, x)  o = Identity(a)
            }>
            z = If(c) <
                then_branch = t () => (float r) { r = Constant<value = float {1.0}>() },
                else_branch = e () => (float q) { q = Constant<value = float {2.0}>() }
            >
        }""",
        nodes=9,
    ),
    # A Loop that carries nothing and is told constants only was folded, though its body reads from outside.
    Case(
        "onnxsim/onnxsim#204 loop without state",
        """g (float[N,2] x) => (float[2,N] y) <int64 n = {2}, bool c = {1}> {
            y = Loop(n, c) <body = b (int64 i, bool p) => (bool q, float[N] r) {
                q = Identity(p)  s = Gather<axis=1>(x, i)  r = Neg(s)
            }>
        }""",
        nodes=7,
    ),
    # A branch that is one constant gave zeros.
    Case(
        "microsoft/onnxruntime#3900 branch of a constant",
        """g (float[1,1,1,1] x) => (float[1,1,1,1] y) <float k = {0}> {
            m = ReduceMax<keepdims=0>(x)  c = Greater(m, k)
            y = If(c) <
                then_branch = t () => (float[1,1,1,1] r) { r = Constant<value = float[1,1,1,1] {1.0}>() },
                else_branch = e () => (float[1,1,1,1] q) { q = Constant<value = float[1,1,1,1] {-1.0}>() }
            >
        }""",
    ),
)

CASES = (*NAMED, *SHAPES, *TYPES, *FOLDED)
