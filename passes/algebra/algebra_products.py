"""Compute products and sums with fewer operators, or with more of them on the smaller operands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, WrongLaw
from workbench.rewrite.analyses.signs import is_never_negative
from workbench.rewrite.patterns.algebra import algebraic_rule, same_shape, smaller
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.terms import Variable


def never_negative(match: Match) -> None:
    """Raises NoMatch if b of the law may be below 0, where its root is NaN."""
    if not is_never_negative(match.graph, match["b"]):
        raise NoMatch(f"'{match['b']}' is not known to be 0 or more, and below 0 its root is NaN")


def finite_sum(match: Match) -> None:
    """Raises NoMatch if the sum of the weights c and d overflows."""
    if not np.isfinite(_sum(match, "c", "d")).all():
        raise NoMatch(f"the weights '{match['c']}' and '{match['d']}' together are not finite")


def _sum(match: Match, *names: str) -> np.ndarray:
    """The sum of constants, rounded once."""
    dtype = match.graph.constants[match[names[0]]].dtype.numpy()
    arrays = [np.asarray(match.array(Variable(name))) for name in names]
    with np.errstate(over="ignore"):
        total: np.ndarray = np.add(*arrays)
        return total.astype(dtype)


def same_windows(match: Match) -> None:
    """Raises NoMatch if the two convolutions p and q do not read the same elements for each result."""
    first, second = match.node("p"), match.node("q")
    axes = len(match.graph.constants[match["c"]].shape) - 2
    for key, default in (
        ("group", None),
        ("auto_pad", None),
        ("strides", (1,) * axes),
        ("dilations", (1,) * axes),
        ("pads", (0, 0) * axes),
    ):
        of_first, of_second = (node.attr(key, default) for node in (first, second))
        if of_first != of_second:
            raise NoMatch(f"{first} has {key} {of_first}, and {second} {of_second}")


def added_bias(match: Match) -> np.ndarray | str | None:
    """The sum of both biases as a constant, the name of the only one, or None."""
    biases = [name for name in ("a", "b") if match.get(name)]
    return _sum(match, *biases) if len(biases) == 2 else next((match[name] for name in biases), None)


@dataclass(frozen=True)
class AlgebraProducts(Pass):
    """Nine cases:

    - |x| * |w| becomes |x * w|, bit for bit the same for floating-point numbers; |x| * z * |w| becomes |x * w| * z;
    - (x * sqrt(b)) * (sqrt(b) * z) becomes (x * b) * z;
    - (x * s) * (s * z) squares s first, and (x + s) + (z + t) adds s and t first, if these are smaller;
    - 1 / x * (1 / (x * z)) becomes (1 / x * (1 / x)) * (1 / z) if z is smaller;
    - x + x * z becomes x * (z + 1) if z is smaller;
    - x @ c + x @ d with constant weights becomes x @ (c + d), also with the weights first;
    - two Convs of one value, with the same windows, whose results are added become one with the sums of their weights
      and biases.

    Does not apply if the operands that are combined first are not known to be smaller, if anything else reads an
    intermediate product, nor if b may be below 0, where sqrt(b) is NaN and b is not. All but the first are for mode
    "fast", since reordered products and sums overflow or underflow differently: in float32 (1e-30 * 1e30) * 1e-30 is
    1e-30, and (1e-30 * 1e-30) * 1e30 is 0.

    Source: Niu et al., "DNNFusion: Accelerating Deep Neural Networks Execution with Advanced Operator Fusion", PLDI
    2021, table 4.
    """

    title = "Multiply less"

    rules = (
        algebraic_rule(
            "absolute product",
            "for floats: abs(x) * abs(w) == abs(x * w)",
            "{nodes[0]} and {nodes[1]} become one, of the product of '{x}' and '{w}'; 1 node fewer",
            Example(
                before="g (float[N,3] x, float[N,3] w) => (float[N,3] y) { a = Abs(x)  b = Abs(w)  y = Mul(a, b) }",
                after="g (float[N,3] x, float[N,3] w) => (float[N,3] y) { y_mul = Mul(x, w)  y = Abs(y_mul) }",
                sentences=("Abs 'Abs_a' and Abs 'Abs_b' become one, of the product of 'x' and 'w'; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, float[3] w) => (float[N,3] y) { a = Abs(x)  b = Abs(w)  y = Mul(a, b) }",
                    "'x' and 'w' are not known to have the same shape",
                ),
                Refusal(
                    "g (int8[3] x, int8[3] w) => (int8[3] y) { a = Abs(x)  b = Abs(w)  y = Mul(a, b) }",
                    "'a', an operand of Mul 'Mul_y', is not known to hold floating-point numbers",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            where=(same_shape("x", "w"),),
        ),
        algebraic_rule(
            "absolute factors",
            "(abs(x) * z) * abs(w) == abs(x * w) * z",
            "{nodes[0]} and {nodes[2]} become one, of the product of '{x}' and '{w}'; 1 node fewer",
            Example(
                before="""g (float[N,3] x, float[N,3] z, float[N,3] w) => (float[N,3] y) {
                    a = Abs(x)
                    p = Mul(a, z)
                    b = Abs(w)
                    y = Mul(p, b)
                }""",
                after="""g (float[N,3] x, float[N,3] z, float[N,3] w) => (float[N,3] y) {
                    y_mul = Mul(x, w)
                    y_abs = Abs(y_mul)
                    y = Mul(y_abs, z)
                }""",
                sentences=("Abs 'Abs_a' and Abs 'Abs_b' become one, of the product of 'x' and 'w'; 1 node fewer",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, float[N,3] z, float[3] w) => (float[N,3] y)"
                    " { a = Abs(x)  p = Mul(a, z)  b = Abs(w)  y = Mul(p, b) }",
                    "'x' and 'w' are not known to have the same shape",
                ),
                Refusal(
                    "g (float[3] x, float[3] z, float[3] w) => (float[3] y, float[3] p)"
                    " { a = Abs(x)  p = Mul(a, z)  b = Abs(w)  y = Mul(p, b) }",
                    "'p' of Mul 'Mul_p' is an output of the graph",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 1e20, "z": 1e30, "w": 1e-20}, np.inf, 1e30, "abs(x) * z overflows"),
            where=(same_shape("x", "w"),),
        ),
        algebraic_rule(
            "root twice",
            "(x * sqrt(b)) * (sqrt(b) * z) == (x * b) * z if b >= 0",
            "two factors {nodes[0]} become one factor '{b}'; 2 nodes fewer",
            Example(
                before="""g (float[N,3] x, float[N,3] z, float[N,1] v) => (float[N,3] y) {
                    b = Mul(v, v)
                    s = Sqrt(b)
                    p = Mul(x, s)
                    q = Mul(s, z)
                    y = Mul(p, q)
                }""",
                after="""g (float[N,3] x, float[N,3] z, float[N,1] v) => (float[N,3] y) {
                    b = Mul(v, v)
                    y_mul = Mul(x, b)
                    y = Mul(y_mul, z)
                }""",
                sentences=("two factors Sqrt 'Sqrt_s' become one factor 'b'; 2 nodes fewer",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    """g (float[3] x, float[3] z, float[3] b, float[3] c) => (float[3] y)
                        { s = Sqrt(b)  t = Sqrt(c)  p = Mul(x, s)  q = Mul(t, z)  y = Mul(p, q) }""",
                    "(x * sqrt(b)) * (sqrt(b) * z) needs 's' where Mul 'Mul_q' reads 't'",
                ),
                Refusal(
                    "g (float[3] x, float[3] z, float[3] b) => (float[3] y)"
                    " { s = Sqrt(b)  p = Mul(x, s)  q = Mul(s, z)  y = Mul(p, q) }",
                    "'b' is not known to be 0 or more, and below 0 its root is NaN",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 1e-20, "z": 3e38, "v": 100}, np.inf, 3e22, "sqrt(b) * z overflows"),
            where=(never_negative,),
        ),
        algebraic_rule(
            "small factor twice",
            "(x * s) * (s * z) == (x * (s * s)) * z",
            "'{s}', which is a factor twice, is squared first, since it is smaller than '{x}'",
            Example(
                before="""g (float[N,3] x, float[N,3] z, float[N,3] w) => (float[N,3] y) <int64[1] a = {1}> {
                    s = ReduceSum(w, a)
                    p = Mul(x, s)
                    q = Mul(z, s)
                    y = Mul(p, q)
                }""",
                after="""g (float[N,3] x, float[N,3] z, float[N,3] w) => (float[N,3] y) <int64[1] a = {1}> {
                    s = ReduceSum(w, a)
                    y_mul_1 = Mul(s, s)
                    y_mul = Mul(x, y_mul_1)
                    y = Mul(y_mul, z)
                }""",
                sentences=("'s', which is a factor twice, is squared first, since it is smaller than 'x'",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    """g (float[N,3] x, float[N,3] z, float[N,3] s) => (float[N,3] y)
                        { p = Mul(x, s)  q = Mul(s, z)  y = Mul(p, q) }""",
                    "'s' is not known to have fewer elements than 'x'",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 1e30, "z": 1e30, "w": 1e-30}, 9, 0, "s * s underflows"),
            where=(smaller("s", "x"), smaller("s", "z")),
        ),
        algebraic_rule(
            "reciprocal of a product",
            "reciprocal(x) * reciprocal(x * z) == (reciprocal(x) * reciprocal(x)) * reciprocal(z) if x != 0 and z != 0",
            "{nodes[2]} of {nodes[1]} becomes that of '{z}', which is smaller than '{x}'",
            Example(
                before="""g (float[N,3] x, float[N,1] z) => (float[N,3] y) {
                    r = Reciprocal(x)
                    p = Mul(x, z)
                    q = Reciprocal(p)
                    y = Mul(r, q)
                }""",
                after="""g (float[N,3] x, float[N,1] z) => (float[N,3] y) {
                    r = Reciprocal(x)
                    y_mul = Mul(r, r)
                    y_reciprocal = Reciprocal(z)
                    y = Mul(y_mul, y_reciprocal)
                }""",
                sentences=("Reciprocal 'Reciprocal_q' of Mul 'Mul_p' becomes that of 'z', which is smaller than 'x'",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, float[N,3] z) => (float[N,3] y)"
                    " { r = Reciprocal(x)  p = Mul(x, z)  q = Reciprocal(p)  y = Mul(r, q) }",
                    "'z' is not known to have fewer elements than 'x'",
                ),
                Refusal(
                    "g (float[N,3] x, float[N,1] z, float[N,3] w) => (float[N,3] y)"
                    " { r = Reciprocal(w)  p = Mul(x, z)  q = Reciprocal(p)  y = Mul(r, q) }",
                    "reciprocal(x) * reciprocal(x * z) needs 'w' where Mul 'Mul_p' reads 'x'",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 1e-20, "z": 1e30}, 1e10, np.inf, "the square of 1 / x overflows"),
            wrong_laws=(
                WrongLaw(
                    "reciprocal(x) * reciprocal(x * z) == (reciprocal(x) * reciprocal(x)) * z",
                    {"x": 2, "z": 4},
                    (0.0625, 1),
                    "It forgets that z is a divisor as well.",
                ),
            ),
            where=(smaller("z", "x"),),
        ),
        algebraic_rule(
            "value and its product",
            "x + x * z == x * (z + 1)",
            "{root} adds 1 to '{z}' instead, which is smaller than '{x}'",
            Example(
                before="g (float[N,3] x, float[N,1] z) => (float[N,3] y) { p = Mul(x, z)  y = Add(p, x) }",
                after="g (float[N,3] x, float[N,1] z) => (float[N,3] y) <float y_number = {1}>"
                " { y_add = Add(z, y_number)  y = Mul(x, y_add) }",
                sentences=("Add 'Add_y' adds 1 to 'z' instead, which is smaller than 'x'",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, float[N,3] z) => (float[N,3] y) { p = Mul(x, z)  y = Add(p, x) }",
                    "'z' is not known to have fewer elements than 'x'",
                ),
                Refusal(
                    "g (float[N,3] x, float[N,1] z, float[N,3] w) => (float[N,3] y) { p = Mul(x, z)  y = Add(p, w) }",
                    "x + x * z needs 'w' where Mul 'Mul_p' reads 'x'",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 3e38, "z": -2}, -np.inf, -3e38, "x * z overflows"),
            where=(smaller("z", "x"),),
        ),
        algebraic_rule(
            "small summands first",
            "(x + s) + (z + t) == (x + z) + (s + t)",
            "{root} adds '{s}' and '{t}' first, since they are smaller than '{x}' and '{z}'",
            Example(
                before="""g (float[N,3] x, float[3] s, float[N,3] z, float[3] t) => (float[N,3] y) {
                    p = Add(x, s)
                    q = Add(t, z)
                    y = Add(p, q)
                }""",
                after="""g (float[N,3] x, float[3] s, float[N,3] z, float[3] t) => (float[N,3] y) {
                    y_add = Add(x, z)
                    y_add_1 = Add(s, t)
                    y = Add(y_add, y_add_1)
                }""",
                sentences=("Add 'Add_y' adds 's' and 't' first, since they are smaller than 'x' and 'z'",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, float[N,3] s, float[N,3] z, float[3] t) => (float[N,3] y)"
                    " { p = Add(x, s)  q = Add(t, z)  y = Add(p, q) }",
                    "'s' is not known to have fewer elements than 'x'",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 1e8, "s": 1, "z": -1e8, "t": 0}, 0, 1, "1 is lost in 1e+08"),
            where=(smaller("s", "x"), smaller("t", "z"), same_shape("s", "t"), same_shape("x", "z")),
        ),
        algebraic_rule(
            "weights of one operand",
            "matmul(x, c) + matmul(x, d) == matmul(x, c + d); matmul(c, x) + matmul(d, x) == matmul(c + d, x)",
            "{nodes[0]} and {nodes[1]} of '{x}' become one, their weights added; 2 nodes fewer",
            Example(
                before="""g (float[N,2] x) => (float[N,2] y)
                    <float[2,2] c = {1, 2, 3, 4}, float[2,2] d = {1, 0, 0, 1}> {
                    p = MatMul(x, c)
                    q = MatMul(x, d)
                    y = Add(p, q)
                }""",
                after="g (float[N,2] x) => (float[N,2] y) <float[2,2] y_add = {2, 2, 3, 5}> { y = MatMul(x, y_add) }",
                sentences=(
                    "MatMul 'MatMul_p' and MatMul 'MatMul_q' of 'x' become one, their weights added; 2 nodes fewer",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,2] x, float[2,2] c) => (float[N,2] y) <float[2,2] d = {1, 0, 0, 1}>"
                    " { p = MatMul(x, c)  q = MatMul(x, d)  y = Add(p, q) }",
                    "'c', an operand of MatMul 'MatMul_p', is not a constant",
                ),
                Refusal(
                    "g (float[N,1] x) => (float[N,1] y) <float[1,1] c = {3e38}>"
                    " { p = MatMul(x, c)  q = MatMul(x, c)  y = Add(p, q) }",
                    "the weights 'c' and 'c' together are not finite",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": np.inf}, np.nan, np.inf, "the weight 0 makes NaN of an infinity"),
            constants=("c", "d"),
            where=(same_shape("c", "d"), finite_sum),
        ),
        graph_rule(
            "convolutions of one operand",
            """
            p = Conv(x, c, a | None, **windows)
            q = Conv(x, d, b | None, **others)
            y = Add(p, q)
            """,
            "y = Conv(x, weights, bias, **windows)",
            "{nodes[0]} and {nodes[1]} of '{x}' become one, their weights added; {fewer} fewer",
            Example(
                before="""g (float[N,2,4] x) => (float[N,1,4] y)
                    <float[1,2,1] c = {1, 2}, float[1] a = {3}, float[1,2,1] d = {4, -1}, float[1] b = {0.5}> {
                    p = Conv(x, c, a)
                    q = Conv<strides=[1]>(x, d, b)
                    y = Add(p, q)
                }""",
                after="""g (float[N,2,4] x) => (float[N,1,4] y)
                    <float[1,2,1] y_weights = {5, 1}, float[1] y_bias = {3.5}> { y = Conv(x, y_weights, y_bias) }""",
                sentences=("Conv 'Conv_p' and Conv 'Conv_q' of 'x' become one, their weights added; 2 nodes fewer",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[1,2,4] x) => (float[1,1,4] y) <float[1,2,3] c = {1, 1, 1, 1, 1, 1}>"
                    " { p = Conv<pads=[1,1]>(x, c)  q = Conv<pads=[2,2], dilations=[2]>(x, c)  y = Add(p, q) }",
                    "Conv 'Conv_p' has dilations (1,), and Conv 'Conv_q' (2,)",
                ),
                Refusal(
                    "g (float[1,2,4] x) => (float[1,2,4] y)"
                    " <float[2,1,1] c = {1, 1}, float[2,2,1] d = {1, 1, 1, 1}>"
                    " { p = Conv<group=2>(x, c)  q = Conv(x, d)  y = Add(p, q) }",
                    "'c' and 'd' are not known to have the same shape",
                ),
                Refusal(
                    "g (float[1,2,4] x, float[1,2,1] c) => (float[1,1,4] y) <float[1,2,1] d = {1, 1}>"
                    " { p = Conv(x, c)  q = Conv(x, d)  y = Add(p, q) }",
                    "'c', an operand of Conv 'Conv_p', is not a constant",
                ),
                Refusal(
                    "g (float[1,2,4] x, float[1] a) => (float[1,1,4] y) <float[1,2,1] c = {1, 1}>"
                    " { p = Conv(x, c, a)  q = Conv(x, c)  y = Add(p, q) }",
                    "'a', an operand of Conv 'Conv_p', is not a constant",
                ),
                Refusal(
                    "g (float[1,2,4] x) => (float[1,1,4] y, float[1,1,4] q) <float[1,2,1] c = {1, 1}>"
                    " { p = Conv(x, c)  q = Conv(x, c)  y = Add(p, q) }",
                    "'q' of Conv 'Conv_q' is an output of the graph",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": np.inf}, np.nan, np.inf, "weights of both signs cancel infinities"),
            constants=("a", "b", "c", "d"),
            where=(same_shape("c", "d"), finite_sum, same_windows),
            computed={"weights": lambda match: _sum(match, "c", "d"), "bias": added_bias},
            law="x * c + x * d == x * (c + d)",
        ),
    )
