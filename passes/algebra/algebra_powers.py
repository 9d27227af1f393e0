"""Write powers, roots, reciprocals and divisions in their cheapest form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node, constant
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.discontinuous import require_no_discontinuous_users
from workbench.rewrite.core.guards import require_constant
from workbench.rewrite.patterns.algebra import algebraic_rule, same_shape

_FLOATS = (np.float16, np.float32, np.float64)


def _divisor(graph: Graph, node: Node) -> np.ndarray:
    """The constant divisor. Raises NoMatch unless it is floating-point and its reciprocals lose no digits."""
    array = require_constant(graph, node.inputs[1], node)
    if array.dtype.type not in _FLOATS:
        raise NoMatch(f"{node} divides {array.dtype}, not floating-point numbers")
    exponent = int(np.finfo(array.dtype).maxexp) // 2
    magnitude = np.abs(array.astype(np.float64))
    if not ((magnitude >= 2.0**-exponent) & (magnitude <= 2.0**exponent)).all():
        raise NoMatch(f"a divisor of {node} is not between 2**-{exponent} and 2**{exponent}")
    return array


def _are_powers_of_two(array: np.ndarray) -> bool:
    return bool((np.abs(np.frexp(array)[0]) == 0.5).all())


def _multiplied(graph: Graph, node: Node, array: np.ndarray, reason: str) -> Rewrite:
    name = graph.fresh(f"{node.inputs[1]}_reciprocal")
    inverse = np.reciprocal(array)
    changed = node.replace(op_type="Mul", inputs=(node.inputs[0], name))
    edit = Edit(remove=(node.name,), insert=(changed,), constants={name: constant(inverse, name)})
    divisor = f"{array.reshape(()):g}" if array.size == 1 else f"{array.size:,} constants"
    return Rewrite(
        edit, f"{node} divides by {divisor}; written as a product with the reciprocal, {reason}", (node.name,)
    )


def match_power_of_two(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    array = _divisor(graph, node)
    if not _are_powers_of_two(array):
        raise NoMatch(f"a divisor of {node} is not a power of two")
    return _multiplied(graph, node, array, "which is exact")


def match_divisor(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    require_no_discontinuous_users(graph, node)
    return _multiplied(graph, node, _divisor(graph, node), "which costs less")


@dataclass(frozen=True)
class AlgebraPowers(Pass):
    """Cases, all on floating-point numbers:

    - Pow(x, 2) becomes Mul(x, x), Pow(x, -1) Reciprocal(x), and Pow(x, 0.5) Sqrt(x), which differs for -0.0 and -inf;
    - Div(1, x) becomes Reciprocal(x);
    - Div by a constant becomes Mul by its reciprocal, bit for bit the same if the constant is a power of two;
    - x * Reciprocal(z) becomes x / z, and x / Reciprocal(z) becomes x * z;
    - Exp(Log(x)) and Log(Exp(x)) become x, which differs for NaN and infinities;
    - Sqrt(x * x) becomes Abs(x), which differs where the square overflows or is 0;
    - Log(x) + Log(z) becomes Log(x * z), and Sqrt(x) * Sqrt(z) becomes Sqrt(x * z), differences and quotients likewise,
      which differs for negative numbers and where the product overflows.

    Does not apply:

    - to integers;
    - if the power or the number 1 is computed or gives the result more axes;
    - to divisors so large or so small that a reciprocal loses digits;
    - before Floor and the like: Floor(41 / 41) is 1, but Floor(41 * (1 / 41)) is 0.

    Source: laws of powers; ONNX's definitions of Pow, Sqrt, Reciprocal, Div, Exp and Log.
    """

    title = "Write powers, roots and divisions simply"

    rules = (
        algebraic_rule(
            "square",
            "x ** 2 == x * x",
            "{root} squares '{x}'; written as a product, which costs less",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) <float e = {2}> { y = Pow(x, e) }",
                after="g (float[N,3] x) => (float[N,3] y) { y = Mul(x, x) }",
                sentences=("Pow 'Pow_y' squares 'x'; written as a product, which costs less",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,3] y) <float e = {3}> { y = Pow(x, e) }",
                    "'e' of Pow 'Pow_y' is 3, not 2",
                ),
                Refusal(
                    "g (float[N,3] x) => (float[1,N,3] y) <float[1,1,1] e = {2}> { y = Pow(x, e) }",
                    "'e' of Pow 'Pow_y' is not one number for all",
                ),
                Refusal(
                    "g (float[N,3] x, float e) => (float[N,3] y) { y = Pow(x, e) }",
                    "'e', an operand of Pow 'Pow_y', is not a constant",
                ),
                Refusal(
                    "g (int64[N,3] x) => (int64[N,3] y) <int64 e = {2}> { y = Pow(x, e) }",
                    "'x', an operand of Pow 'Pow_y', is not known to hold floating-point numbers",
                ),
            ),
            exactness=Exactness.ROUNDING,
        ),
        algebraic_rule(
            "power of minus one",
            "x ** -1 == reciprocal(x) if x != 0",
            "{root} raises '{x}' to the power -1; written as Reciprocal",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) <int64 e = {-1}> { y = Pow(x, e) }",
                after="g (float[N,3] x) => (float[N,3] y) { y = Reciprocal(x) }",
                sentences=("Pow 'Pow_y' raises 'x' to the power -1; written as Reciprocal",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,3] y) <float e = {-2}> { y = Pow(x, e) }",
                    "'e' of Pow 'Pow_y' is -2, not -1",
                ),
            ),
            exactness=Exactness.ROUNDING,
        ),
        algebraic_rule(
            "power of one half",
            "x ** 0.5 == sqrt(x) if x >= 0",
            "{root} raises '{x}' to the power 0.5; written as Sqrt",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) <float e = {0.5}> { a = Abs(x)  y = Pow(a, e) }",
                after="g (float[N,3] x) => (float[N,3] y) { a = Abs(x)  y = Sqrt(a) }",
                sentences=("Pow 'Pow_y' raises 'a' to the power 0.5; written as Sqrt",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,3] y) <float e = {-0.5}> { y = Pow(x, e) }",
                    "'e' of Pow 'Pow_y' is -0.5, not 0.5",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": -np.inf},
                np.inf,
                np.nan,
                "Pow ignores the sign of an infinity",
                "g (float[N,3] x) => (float[N,3] y) <float e = {0.5}> { y = Pow(x, e) }",
            ),
        ),
        algebraic_rule(
            "one over",
            "1 / x == reciprocal(x) if x != 0",
            "{root} divides 1 by '{x}'; written as Reciprocal",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) <float[1] one = {1}> { y = Div(one, x) }",
                after="g (float[N,3] x) => (float[N,3] y) { y = Reciprocal(x) }",
                sentences=("Div 'Div_y' divides 1 by 'x'; written as Reciprocal",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,3] y) <float two = {2}> { y = Div(two, x) }",
                    "'two' of Div 'Div_y' is 2, not 1",
                ),
            ),
            exactness=Exactness.ROUNDING,
        ),
        Rule(
            "divided by a power of two",
            ("Div",),
            match_power_of_two,
            Example(
                before="g (float[N,3] x) => (float[N,3] y) <float[3] c = {4, -0.5, 1}> { y = Div(x, c) }",
                after="g (float[N,3] x) => (float[N,3] y) <float[3] c_reciprocal = {0.25, -2, 1}> {"
                " y = Mul(x, c_reciprocal) }",
                sentences=(
                    "Div 'Div_y' divides by 3 constants; written as a product with the reciprocal, which is exact",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,3] y) <float c = {3}> { y = Div(x, c) }",
                    "a divisor of Div 'Div_y' is not a power of two",
                ),
                Refusal(
                    "g (float[N,3] x) => (float[N,3] y) <float c = {0}> { y = Div(x, c) }",
                    "a divisor of Div 'Div_y' is not between 2**-64 and 2**64",
                ),
                Refusal(
                    "g (int64[N,3] x) => (int64[N,3] y) <int64 c = {4}> { y = Div(x, c) }",
                    "Div 'Div_y' divides int64, not floating-point numbers",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for floats: x / 4 == x * 0.25; x / -0.5 == x * -2; x / 128 == x * 0.0078125",
        ),
        Rule(
            "divided by a constant",
            ("Div",),
            match_divisor,
            Example(
                before="g (float[N,3] x) => (float[N,3] y) <float c = {5}> { y = Div(x, c) }",
                after="g (float[N,3] x) => (float[N,3] y) <float c_reciprocal = {0.2}> { y = Mul(x, c_reciprocal) }",
                sentences=("Div 'Div_y' divides by 5; written as a product with the reciprocal, which costs less",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, float c) => (float[N,3] y) { y = Div(x, c) }",
                    "'c', an operand of Div 'Div_y', is not a constant",
                ),
                Refusal(
                    "g (float[N,3] x) => (float[N,3] y) <float c = {41}> { d = Div(x, c)  y = Floor(d) }",
                    "Floor 'Floor_y' is discontinuous; a difference in the last bit of 'd' could change its result",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="x / a == x * (1 / a) if a != 0",
        ),
        algebraic_rule(
            "product with a reciprocal",
            "x * reciprocal(z) == x / z if z != 0; x / reciprocal(z) == x * z if z != 0",
            "{nodes[0]} and {root} become {new}; 1 node fewer",
            Example(
                before="""g (float[N,3] x, float[N,1] z, float[3] w) => (float[N,3] y) {
                    r = Reciprocal(z)
                    a = Mul(r, x)
                    s = Reciprocal(w)
                    y = Div(a, s)
                }""",
                after="""g (float[N,3] x, float[N,1] z, float[3] w) => (float[N,3] y) {
                    a = Div(x, z)
                    y = Mul(a, w)
                }""",
                sentences=(
                    "Reciprocal 'Reciprocal_r' and Mul 'Mul_a' become Div; 1 node fewer",
                    "Reciprocal 'Reciprocal_s' and Div 'Div_y' become Mul; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, float[N,3] z) => (float[N,3] y) { y = Mul(x, z) }",
                    "Mul 'Mul_y' does not follow a Reciprocal",
                ),
                Refusal(
                    "g (float[3] x, float[3] z) => (float[3] y, float[3] r) { r = Reciprocal(z)  y = Mul(x, r) }",
                    "'r' of Reciprocal 'Reciprocal_r' is an output of the graph",
                ),
            ),
            exactness=Exactness.ROUNDING,
        ),
        algebraic_rule(
            "exponential and logarithm",
            "exp(log(x)) == x if x > 0; log(exp(x)) == x",
            "{root} undoes {nodes[0]}; removed",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) { a = Abs(x)  b = Log(a)  c = Exp(b)  y = Neg(c) }",
                after="g (float[N,3] x) => (float[N,3] y) { a = Abs(x)  b = Log(a)  y = Neg(a) }",
                sentences=("Exp 'Exp_c' undoes Log 'Log_b'; removed",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,3] y) { b = Exp(x)  c = Exp(b)  y = Neg(c) }",
                    "Exp 'Exp_c' does not follow a Log",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": 100},
                np.inf,
                100,
                "Exp overflows",
                "g (float[N,3] x) => (float[N,3] y) { e = Exp(x)  l = Log(e)  y = Relu(l) }",
            ),
        ),
        algebraic_rule(
            "root of a square",
            "sqrt(x * x) == abs(x)",
            "{root} of the square of '{x}' becomes {new}; 1 node fewer",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) { a = Mul(x, x)  y = Sqrt(a) }",
                after="g (float[N,3] x) => (float[N,3] y) { y = Abs(x) }",
                sentences=("Sqrt 'Sqrt_y' of the square of 'x' becomes Abs; 1 node fewer",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[3] x, float[3] z) => (float[3] y) { a = Mul(x, z)  y = Sqrt(a) }",
                    "sqrt(x * x) needs 'x' where Mul 'Mul_a' reads 'z'",
                ),
                Refusal(
                    "g (float[3] x) => (float[3] y, float[3] a) { a = Mul(x, x)  y = Sqrt(a) }",
                    "'a' of Mul 'Mul_a' is an output of the graph",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 1e30}, np.inf, 1e30, "the square overflows"),
        ),
        algebraic_rule(
            "sum of logarithms",
            "log(x) + log(z) == log(x * z) if x > 0 and z > 0; log(x) - log(z) == log(x / z) if x > 0 and z > 0",
            "{nodes[0]}, {nodes[1]} and {root} become one {new}; 1 node fewer",
            Example(
                before="""g (float[N,3] x, float[N,3] z) => (float[N,3] y) {
                    a = Abs(x)
                    b = Softplus(z)
                    p = Log(a)
                    q = Log(b)
                    y = Add(p, q)
                }""",
                after="""g (float[N,3] x, float[N,3] z) => (float[N,3] y) {
                    a = Abs(x)
                    b = Softplus(z)
                    y_mul = Mul(a, b)
                    y = Log(y_mul)
                }""",
                sentences=("Log 'Log_p', Log 'Log_q' and Add 'Add_y' become one Log; 1 node fewer",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, float[3] z) => (float[N,3] y) { p = Log(x)  q = Log(z)  y = Sub(p, q) }",
                    "'x' and 'z' are not known to have the same shape",
                ),
                Refusal(
                    "g (float[3] x, float[3] z) => (float[3] y) { p = Log(x)  q = Exp(z)  y = Add(p, q) }",
                    "Add 'Add_y' does not follow a Log",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": 1e30, "z": 1e30},
                138.15511,
                np.inf,
                "x * z overflows",
                "g (float[N,3] x, float[N,3] z) => (float[N,3] y) { p = Log(x)  q = Log(z)  y = Add(p, q) }",
            ),
            where=(same_shape("x", "z"),),
        ),
        algebraic_rule(
            "product of roots",
            "sqrt(x) * sqrt(z) == sqrt(x * z) if x >= 0 and z >= 0; "
            "sqrt(x) / sqrt(z) == sqrt(x / z) if x >= 0 and z > 0",
            "{nodes[0]}, {nodes[1]} and {root} become one {new}; 1 node fewer",
            Example(
                before="""g (float[N,3] x, float[N,3] z) => (float[N,3] y) {
                    a = Abs(x)
                    b = Exp(z)
                    p = Sqrt(a)
                    q = Sqrt(b)
                    y = Mul(p, q)
                }""",
                after="""g (float[N,3] x, float[N,3] z) => (float[N,3] y) {
                    a = Abs(x)
                    b = Exp(z)
                    y_mul = Mul(a, b)
                    y = Sqrt(y_mul)
                }""",
                sentences=("Sqrt 'Sqrt_p', Sqrt 'Sqrt_q' and Mul 'Mul_y' become one Sqrt; 1 node fewer",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, float[3] z) => (float[N,3] y) { p = Sqrt(x)  q = Sqrt(z)  y = Mul(p, q) }",
                    "'x' and 'z' are not known to have the same shape",
                ),
                Refusal(
                    "g (float[3] x) => (float[3] y) { p = Sqrt(x)  y = Mul(p, p) }",
                    "Mul 'Mul_y' reads 'p' twice",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": -1, "z": -4},
                np.nan,
                2,
                "the root of a negative number is NaN",
                "g (float[N,3] x, float[N,3] z) => (float[N,3] y) { p = Sqrt(x)  q = Sqrt(z)  y = Mul(p, q) }",
            ),
            where=(same_shape("x", "z"),),
        ),
    )
