"""Products and sums with fewer operators, or with more of the work on the smaller operands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Graph, Node
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, WrongLaw
from workbench.rewrite.algebra import algebraic_rule, same_shape, smaller
from workbench.rewrite.graph_rules import graph_rule
from workbench.rewrite.matching import Match
from workbench.rewrite.terms import Variable

_NEVER_NEGATIVE = (
    *("Abs", "Exp", "Relu", "Sigmoid", "Softmax", "Softplus", "Sqrt"),
    *("ReduceL1", "ReduceL2", "ReduceSumSquare"),
)
_AS_THEIR_OPERANDS = ("Add", "Div", "Max", "Mul", "ReduceMax", "ReduceMean", "ReduceSum")
_DEEPEST = 4  # operators that are looked through


def _is_never_negative(graph: Graph, value: str, depth: int = _DEEPEST) -> bool:
    """Is it known from the operators that make it, or from its numbers?"""
    tensor, node = graph.constant(value), graph.producer(value)
    if tensor is not None:
        return bool((tensor.numpy() >= 0).all())
    if node is None or depth == 0:
        return False
    if _is_even_power(graph, node):
        return True
    operands = node.inputs if len(node.inputs) == 2 and not node.op.startswith("Reduce") else node.inputs[:1]
    return node.op in _NEVER_NEGATIVE or (
        node.op in _AS_THEIR_OPERANDS and all(_is_never_negative(graph, operand, depth - 1) for operand in operands)
    )


def _is_even_power(graph: Graph, node: Node) -> bool:
    """Is it a square, as Mul or as Pow, or another even power?"""
    if node.op != "Pow":
        return node.op == "Mul" and node.inputs[0] == node.inputs[1]
    exponent = graph.constant(node.inputs[1])
    return exponent is not None and bool((exponent.numpy() % 2 == 0).all())


def never_negative(match: Match) -> None:
    """Raises NoMatch where b of the law may be below 0, where its root is NaN."""
    if not _is_never_negative(match.graph, match["b"]):
        raise NoMatch(f"'{match['b']}' is not known to be 0 or more, and below 0 its root is NaN")


def finite_sum(match: Match) -> None:
    """Raises NoMatch where the sum of the weights c and d is more than their type holds."""
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
    """Raises NoMatch where the two convolutions p and q do not read the same numbers for the same result."""
    first, second = match.node("p"), match.node("q")
    axes = len(match.graph.constants[match["c"]].shape) - 2
    for key, default in (
        ("group", 1),
        ("auto_pad", "NOTSET"),
        ("strides", (1,) * axes),
        ("dilations", (1,) * axes),
        ("pads", (0, 0) * axes),
    ):
        has, wants = (node.attr(key, default) for node in (first, second))
        if has != wants:
            raise NoMatch(f"{first} has {key} {has}, and {second} {wants}")


def added_bias(match: Match) -> np.ndarray | str | None:
    """Both biases as one constant, the only one by its name, or none."""
    given = [name for name in ("a", "b") if match.get(name)]
    return _sum(match, *given) if len(given) == 2 else next((match[name] for name in given), None)


@dataclass(frozen=True)
class AlgebraProducts(Pass):
    """Nine cases:

    - |x| * |w| is |x * w|, of floating-point numbers to the last bit; |x| * z * |w| is |x * w| * z;
    - (x * sqrt(b)) * (sqrt(b) * z) is (x * b) * z;
    - (x * s) * (s * z) squares s first, and (s + m) + (t + n) adds m and n first, where these are smaller;
    - 1 / x * (1 / (x * z)) is (1 / x * (1 / x)) * (1 / z) where z is smaller;
    - x + x * z is x * (z + 1) where z is smaller;
    - x @ c + x @ d with constant weights is x @ (c + d), also with the weights first;
    - two Conv of one value, in the same windows, whose results are added, are one: their weights and biases are added.

    Must not act where what comes first is not known to be smaller, nor where anything else reads a product in between.
    Nor where b may be below 0, where sqrt(b) is NaN and b is not. All but the first are for the mode `fast`, since
    products and sums in another order overflow or vanish elsewhere: of 1e-30, 1e30 and 1e-30, the first two first
    give 1e-30, the outer two first 0.

    Source: Niu et al., "DNNFusion: Accelerating Deep Neural Networks Execution with Advanced Operator Fusion", PLDI
    2021, table 4. The course "Buddy Compiler" prints its first line with B in the end; it is 1 / B.
    """

    title = "Multiply less"

    rules = (
        algebraic_rule(
            "absolute product",
            "for floats: abs(x) * abs(w) == abs(x * w)",
            "{nodes[0]} and {nodes[1]} become one, of the product of '{x}' and '{w}'; 1 node less",
            Example(
                before="g (float[N,3] x, float[N,3] w) => (float[N,3] y) { a = Abs(x)  b = Abs(w)  y = Mul(a, b) }",
                after="g (float[N,3] x, float[N,3] w) => (float[N,3] y) { y_mul = Mul(x, w)  y = Abs(y_mul) }",
                sentences=("Abs 'Abs_a' and Abs 'Abs_b' become one, of the product of 'x' and 'w'; 1 node less",),
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
            exactness=Exactness.BITS,
            where=(same_shape("x", "w"),),
        ),
        algebraic_rule(
            "absolute factors",
            "(abs(x) * z) * abs(w) == abs(x * w) * z",
            "{nodes[0]} and {nodes[2]} become one, of the product of '{x}' and '{w}'; 1 node less",
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
                sentences=("Abs 'Abs_a' and Abs 'Abs_b' become one, of the product of 'x' and 'w'; 1 node less",),
                mode="fast",
            ),
            exactness=Exactness.SIGNS,
            counterexample=Counterexample({"x": 1e20, "z": 1e30, "w": 1e-20}, np.inf, 1e30, "abs(x) * z overflows"),
            where=(same_shape("x", "w"),),
        ),
        algebraic_rule(
            "root twice",
            "(x * sqrt(b)) * (sqrt(b) * z) == (x * b) * z if b >= 0",
            "{nodes[0]} is multiplied in twice, which '{b}' does once; 2 nodes less",
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
                sentences=("Sqrt 'Sqrt_s' is multiplied in twice, which 'b' does once; 2 nodes less",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    """g (float[3] x, float[3] z, float[3] b, float[3] c) => (float[3] y)
                        { s = Sqrt(b)  t = Sqrt(c)  p = Mul(x, s)  q = Mul(t, z)  y = Mul(p, q) }""",
                    "'t' of Mul 'Mul_q' is not 's', as (x * sqrt(b)) * (sqrt(b) * z) has it",
                ),
                Refusal(
                    "g (float[3] x, float[3] z, float[3] b) => (float[3] y)"
                    " { s = Sqrt(b)  p = Mul(x, s)  q = Mul(s, z)  y = Mul(p, q) }",
                    "'b' is not known to be 0 or more, and below 0 its root is NaN",
                ),
            ),
            exactness=Exactness.SIGNS,
            counterexample=Counterexample({"x": 1e-20, "z": 3e38, "v": 100}, np.inf, 3e22, "sqrt(b) * z overflows"),
            where=(never_negative,),
        ),
        algebraic_rule(
            "small factor twice",
            "(x * s) * (s * z) == (x * (s * s)) * z",
            "'{s}', which is multiplied in twice, is squared before, for it is smaller than '{x}'",
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
                sentences=("'s', which is multiplied in twice, is squared before, for it is smaller than 'x'",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    """g (float[N,3] x, float[N,3] z, float[N,3] s) => (float[N,3] y)
                        { p = Mul(x, s)  q = Mul(s, z)  y = Mul(p, q) }""",
                    "'s' is not known to have fewer elements than 'x'",
                ),
            ),
            exactness=Exactness.SIGNS,
            counterexample=Counterexample({"x": 1e30, "z": 1e30, "w": 1e-30}, 9, 0, "s * s vanishes"),
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
            exactness=Exactness.SIGNS,
            counterexample=Counterexample({"x": 1e-20, "z": 1e30}, 1e10, np.inf, "the square of 1 / x overflows"),
            wrong_laws=(
                WrongLaw(
                    "reciprocal(x) * reciprocal(x * z) == (reciprocal(x) * reciprocal(x)) * z",
                    {"x": 2, "z": 4},
                    (0.0625, 1),
                    'The course "Buddy Compiler" prints it so; it forgets that z is divided by as well.',
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
            exactness=Exactness.SIGNS,
            counterexample=Counterexample({"x": 3e38, "z": -2}, -np.inf, -3e38, "x * z overflows"),
            where=(smaller("z", "x"),),
        ),
        algebraic_rule(
            "small summands first",
            "(x + s) + (z + t) == (x + z) + (s + t)",
            "{root} adds '{s}' and '{t}' before, for they are smaller than '{x}' and '{z}'",
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
                sentences=("Add 'Add_y' adds 's' and 't' before, for they are smaller than 'x' and 'z'",),
                mode="fast",
            ),
            exactness=Exactness.SIGNS,
            counterexample=Counterexample({"x": 1e8, "s": 1, "z": -1e8, "t": 0}, 0, 1, "1 is lost in 1e+08"),
            where=(smaller("s", "x"), smaller("t", "z"), same_shape("s", "t"), same_shape("x", "z")),
        ),
        algebraic_rule(
            "weights of one operand",
            "matmul(x, c) + matmul(x, d) == matmul(x, c + d); matmul(c, x) + matmul(d, x) == matmul(c + d, x)",
            "{nodes[0]} and {nodes[1]} of '{x}' become one, their weights added; 2 nodes less",
            Example(
                before="""g (float[N,2] x) => (float[N,2] y)
                    <float[2,2] c = {1, 2, 3, 4}, float[2,2] d = {1, 0, 0, 1}> {
                    p = MatMul(x, c)
                    q = MatMul(x, d)
                    y = Add(p, q)
                }""",
                after="g (float[N,2] x) => (float[N,2] y) <float[2,2] y_add = {2, 2, 3, 5}> { y = MatMul(x, y_add) }",
                sentences=(
                    "MatMul 'MatMul_p' and MatMul 'MatMul_q' of 'x' become one, their weights added; 2 nodes less",
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
            exactness=Exactness.SIGNS,
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
            "{nodes[0]} and {nodes[1]} of '{x}' become one, their weights added; {fewer} nodes less",
            Example(
                before="""g (float[N,2,4] x) => (float[N,1,4] y)
                    <float[1,2,1] c = {1, 2}, float[1] a = {3}, float[1,2,1] d = {4, -1}, float[1] b = {0.5}> {
                    p = Conv(x, c, a)
                    q = Conv<strides=[1]>(x, d, b)
                    y = Add(p, q)
                }""",
                after="""g (float[N,2,4] x) => (float[N,1,4] y)
                    <float[1,2,1] y_weights = {5, 1}, float[1] y_bias = {3.5}> { y = Conv(x, y_weights, y_bias) }""",
                sentences=("Conv 'Conv_p' and Conv 'Conv_q' of 'x' become one, their weights added; 2 nodes less",),
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
            exactness=Exactness.SIGNS,
            counterexample=Counterexample({"x": np.inf}, np.nan, np.inf, "weights of both signs cancel infinities"),
            constants=("a", "b", "c", "d"),
            where=(same_shape("c", "d"), finite_sum, same_windows),
            computed={"weights": lambda match: _sum(match, "c", "d"), "bias": added_bias},
            law="x * c + x * d == x * (c + d)",
        ),
    )
