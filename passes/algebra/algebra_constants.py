"""Combine the constants of consecutive operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.discontinuous import require_no_discontinuous_users
from workbench.rewrite.patterns.algebra import algebraic_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import has_negative_zero
from workbench.rewrite.patterns.terms import Variable

_COMMUTATIVE = ("Add", "Mul", "Equal", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
_MAX_RATIO = 16  # if the sum of two constants is at most this times the smaller one, it loses at most four bits
_SUMS = (
    "(x + a) + b == x + (a + b); (x + a) - b == x + (a - b); (x - a) + b == x + (b - a); "
    "(x - a) - b == x + (-a - b); (a - x) + b == (a + b) - x; (a - x) - b == (a - b) - x; "
    "b - (x + a) == (b - a) - x; b - (x - a) == (a + b) - x; b - (a - x) == x + (b - a)"
)
_PRODUCTS = (
    "(x * a) * b == x * (a * b); (x * a) / b == x * (a / b) if b != 0; (x / a) * b == x * (b / a) if a != 0; "
    "(x / a) / b == x * (1 / a * (1 / b)) if a != 0 and b != 0; (a / x) * b == (a * b) / x if x != 0; "
    "(a / x) / b == (a / b) / x if x != 0 and b != 0; b / (x * a) == (b / a) / x if x != 0 and a != 0; "
    "b / (x / a) == (a * b) / x if x != 0 and a != 0; b / (a / x) == x * (b / a) if x != 0 and a != 0"
)
_BECOME_ONE = "the constants of {nodes[0]} and {root} become one, {constant}; 1 node fewer"


# ---- conditions on constants -------------------------------------------------------------


def _constants(match: Match) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two constants and their combination, up to its sign; floats in double precision."""
    a, b = (np.asarray(match.array(Variable(name))) for name in sorted(match.pattern.constants))
    if match.combined is None:
        raise NoMatch(f"the constants of {_two_nodes(match)} cannot be computed here")
    return a, b, match.combined


def require_no_larger_constant(match: Match) -> None:
    """Raises NoMatch if the constants broadcast to more elements than either has."""
    a, b, total = (array.size for array in _constants(match))
    if total > max(a, b):
        raise NoMatch(f"the constants of {_two_nodes(match)} broadcast to more elements than either has")


def _two_nodes(match: Match, conjunction: str = "and") -> str:
    return f"{match.nodes[0]} {conjunction} {match.root}"


def require_continuous_users(match: Match) -> None:
    require_no_discontinuous_users(match.graph, match.root)


def require_kept_precision(match: Match) -> None:
    """Raises NoMatch for summands that overflow, cancel, or differ so much that one is rounded away."""
    constants = _constants(match)
    a, b, total = (np.abs(array) for array in constants)
    finfo = np.finfo(_element_type(match))
    exponent = int(finfo.maxexp) - int(finfo.nmant) - 2  # below half an ulp of the largest float: no sum overflows
    large, small = np.maximum(a, b), np.minimum(a, b)
    if not (large < 2.0**exponent).all() or not (total < 2.0**exponent).all():
        raise NoMatch(f"a constant of {_two_nodes(match, 'or')} is not below 2**{exponent}: a sum may overflow")
    if (total < large / 2).any():
        raise NoMatch(
            f"the constants of {_two_nodes(match)} cancel: adding one after the other rounds, adding their sum does not"
        )
    if ((total > _MAX_RATIO * small) & (small > 0)).any():
        raise NoMatch(f"a constant of {_two_nodes(match, 'or')} is far smaller than the other, and loses digits")
    if any(has_negative_zero(array) for array in constants[:2]):
        raise NoMatch(
            f"a constant of {_two_nodes(match, 'or')} is -0.0: adding it keeps the sign of a zero, and the combined "
            "constant may not"
        )


def require_kept_range(match: Match) -> None:
    """Raises NoMatch for factors so large or so small that a product overflows or underflows."""
    exponent = int(np.finfo(_element_type(match)).maxexp) // 2
    magnitudes = [np.abs(array) for array in _constants(match)]
    if not all(((magnitude >= 2.0**-exponent) & (magnitude <= 2.0**exponent)).all() for magnitude in magnitudes):
        raise NoMatch(
            f"a constant of {_two_nodes(match, 'or')}, or both together, is not between "
            f"2**-{exponent} and 2**{exponent}: a product may overflow or underflow"
        )


def _element_type(match: Match) -> np.dtype:
    dtype = match.graph.constants[match["a"]].dtype.numpy()
    if dtype.kind != "f":
        raise NoMatch(f"{match.root} computes with {dtype}, not with a floating-point type of NumPy")
    return dtype


def require_defined_sign(match: Match) -> None:
    """Raises NoMatch for NaN and zero, for which ONNX does not define the sign of Min and Max."""
    a, b, _ = _constants(match)
    if a.dtype.kind == "f" and any((np.isnan(array) | (array == 0)).any() for array in (a, b)):
        raise NoMatch(f"a constant of {_two_nodes(match, 'or')} is NaN or zero: the sign of the result is undefined")


# ---- order -------------------------------------------------------------------------------


def _constant_index(graph: Graph, node: Node) -> int:
    """The index of the operand that is a constant. Raises NoMatch unless exactly one of two is."""
    indices = [index for index, value in enumerate(node.inputs) if value in graph.constants]
    if len(node.inputs) != 2 or len(indices) != 1:
        raise NoMatch(f"{node} does not combine one constant and one computed value")
    return indices[0]


def match_constant_last(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    if _constant_index(graph, node) == 1:
        raise NoMatch(f"the constant of {node} is already its second operand")
    edit = Edit(remove=(node.name,), insert=(node.replace(inputs=node.inputs[::-1]),))
    sentence = f"constant '{node.inputs[0]}' of {node} moves after '{node.inputs[1]}', where rules expect it"
    return Rewrite(edit, sentence, (node.name,))


@dataclass(frozen=True)
class AlgebraConstants(Pass):
    """Eight rules, of five kinds:

    - a constant that is the first operand of a commutative operator becomes the second;
    - consecutive Add and Sub with constants, x + a + b, a - x - b and so on, become one Add or Sub;
    - consecutive Mul with integer constants become one Mul;
    - consecutive Mul and Div with floating-point constants become one Mul, or one Div of a constant;
    - Min of Min, Max of Max, And of And, Or of Or, Xor of Xor with constants become one, also bitwise.

    Does not apply:

    - if anything else reads the intermediate value;
    - if the two constants broadcast to more elements than either has;
    - to sums of floating-point constants that cancel, such as x + 12582912 - 12582912, which rounds;
    - to floats before Floor and the like, or before the Sin of what may be a large angle;
    - to factors so large or so small that a product overflows or underflows;
    - to Div of integers, which truncates.

    Source: associativity and commutativity; LLVM's pass reassociate; ONNX's definitions of Add, Sub,
    Mul, Div, Min, Max, And, Or, Xor, BitwiseAnd, BitwiseOr and BitwiseXor.
    """

    title = "Combine constants"

    rules = (
        Rule(
            "constant last",
            _COMMUTATIVE,
            match_constant_last,
            Example(
                before="g (float[N,3] x) => (float[N,3] y) <float[3] a = {1, 2, 3}> { y = Add(a, x) }",
                after="g (float[N,3] x) => (float[N,3] y) <float[3] a = {1, 2, 3}> { y = Add(x, a) }",
                sentences=("constant 'a' of Add 'Add_y' moves after 'x', where rules expect it",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,3] y) <float a = {1}> { y = Mul(x, a) }",
                    "the constant of Mul 'Mul_y' is already its second operand",
                ),
                Refusal(
                    "g (float[N,3] x, float[N,3] z) => (float[N,3] y) { y = Mul(x, z) }",
                    "Mul 'Mul_y' does not combine one constant and one computed value",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="a + x == x + a; a * x == x * a; p and q == q and p; p or q == q or p; xor(p, q) == xor(q, p); "
            "a & x == x & a; a | x == x | a; a ^ x == x ^ a",
        ),
        algebraic_rule(
            "sum of integers",
            f"for integers: {_SUMS}",
            _BECOME_ONE,
            Example(
                before="""g (int64[N,3] x) => (int64[N,3] y) <int64[3] a = {1, 2, 9223372036854775807}, int64 b = {5}> {
                    s = Sub(a, x)
                    y = Add(s, b)
                }""",
                after="""g (int64[N,3] x) => (int64[N,3] y) <int64[3] y_add = {6, 7, -9223372036854775804}> {
                    y = Sub(y_add, x)
                }""",
                sentences=("the constants of Sub 'Sub_s' and Add 'Add_y' become one, of shape [3]; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (int64[3] x) => (int64[3] y, int64[3] s) <int64 a = {1}> { s = Add(x, a)  y = Add(s, a) }",
                    "'s' of Add 'Add_s' is an output of the graph",
                ),
                Refusal(
                    "g (int64[3] x) => (int64[3] y) <int64 a = {1}> { s = Neg(x)  y = Add(s, a) }",
                    "Add 'Add_y' does not follow an Add or Sub",
                ),
                Refusal(
                    "g (int64[3,3] x) => (int64[3,3] y) <int64[3] a = {1, 2, 3}, int64[3,1] b = {1, 2, 3}>"
                    " { s = Add(x, a)  y = Add(s, b) }",
                    "the constants of Add 'Add_s' and Add 'Add_y' broadcast to more elements than either has",
                ),
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {1}> { s = Add(x, a)  y = Add(s, a) }",
                    "'s', an operand of Add 'Add_y', is not known to hold integers",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            constants=("a", "b"),
            where=(require_no_larger_constant,),
        ),
        algebraic_rule(
            "sum",
            _SUMS,
            _BECOME_ONE,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y) <float[3] a = {1, 0, 3}, float b = {2.5}> {
                    s = Add(x, a)
                    y = Add(s, b)
                }""",
                after="""g (float[N,3] x) => (float[N,3] y) <float[3] y_add = {3.5, 2.5, 5.5}> {
                    y = Add(x, y_add)
                }""",
                sentences=("the constants of Add 'Add_s' and Add 'Add_y' become one, of shape [3]; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {12582912}> { s = Add(x, a)  y = Sub(s, a) }",
                    "the constants of Add 'Add_s' and Sub 'Sub_y' cancel: adding one after the other rounds, "
                    "adding their sum does not",
                ),
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {1e32}> { s = Add(x, a)  y = Add(s, a) }",
                    "a constant of Add 'Add_s' or Add 'Add_y' is not below 2**103: a sum may overflow",
                ),
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {1e8}, float b = {1}> { s = Add(x, a)  y = Add(s, b) }",
                    "a constant of Add 'Add_s' or Add 'Add_y' is far smaller than the other, and loses digits",
                ),
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {-0.0}> { s = Add(x, a)  y = Add(s, a) }",
                    "a constant of Add 'Add_s' or Add 'Add_y' is -0.0: adding it keeps the sign of a zero, and the "
                    "combined constant may not",
                ),
            ),
            exactness=Exactness.ROUNDING,
            constants=("a", "b"),
            where=(require_continuous_users, require_kept_precision, require_no_larger_constant),
        ),
        algebraic_rule(
            "product of integers",
            "for integers: (x * a) * b == x * (a * b)",
            _BECOME_ONE,
            Example(
                before="""g (int32[N,3] x) => (int32[N,3] y) <int32[3] a = {1, -2, 2147483647}, int32 b = {3}> {
                    s = Mul(a, x)
                    y = Mul(s, b)
                }""",
                after="""g (int32[N,3] x) => (int32[N,3] y) <int32[3] y_mul = {3, -6, 2147483645}> {
                    y = Mul(x, y_mul)
                }""",
                sentences=(
                    "constant 'a' of Mul 'Mul_s' moves after 'x', where rules expect it",
                    "the constants of Mul 'Mul_s' and Mul 'Mul_y' become one, of shape [3]; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (int32[3] x) => (int32[3] y) <int32 a = {3}> { s = Div(x, a)  y = Mul(s, a) }",
                    "Mul 'Mul_y' does not follow a Mul",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            constants=("a", "b"),
            where=(require_no_larger_constant,),
        ),
        algebraic_rule(
            "product",
            _PRODUCTS,
            _BECOME_ONE,
            Example(
                before="""g (float[N,2] x) => (float[N,2] y) <float[2] a = {3, -0.5}, float b = {4}> {
                    s = Mul(x, a)
                    y = Div(s, b)
                }""",
                after="""g (float[N,2] x) => (float[N,2] y) <float[2] y_div = {0.75, -0.125}> {
                    y = Mul(x, y_div)
                }""",
                sentences=("the constants of Mul 'Mul_s' and Div 'Div_y' become one, of shape [2]; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {1e19}, float b = {2}> { s = Mul(x, a)  y = Mul(s, b) }",
                    "a constant of Mul 'Mul_s' or Mul 'Mul_y', or both together, is not between "
                    "2**-64 and 2**64: a product may overflow or underflow",
                ),
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {3}> { s = Mul(x, a)  t = Div(s, a)  y = Floor(t) }",
                    "Floor 'Floor_y' is discontinuous; a difference in the last bit of 't' could change its result",
                ),
                Refusal(
                    """g (float[3] x) => (float[3] y) <float a = {3}, float b = {5}> {
                        s = Mul(x, a)  t = Mul(s, b)  y = Sin(t)
                    }""",
                    "Sin 'Sin_y' may have an angle of more than 100 radians, so that a difference in the last bit of "
                    "'t' could change its result",
                ),
            ),
            exactness=Exactness.ROUNDING,
            constants=("a", "b"),
            where=(require_continuous_users, require_kept_range, require_no_larger_constant),
        ),
        algebraic_rule(
            "max or min",
            "min(min(x, a), b) == min(x, min(a, b)); max(max(x, a), b) == max(x, max(a, b))",
            _BECOME_ONE,
            Example(
                before="""g (float[N,2] x) => (float[N,2] y) <float[2] a = {3, -0.5}, float b = {2}> {
                    s = Min(x, a)
                    y = Min(s, b)
                }""",
                after="""g (float[N,2] x) => (float[N,2] y) <float[2] y_min = {2, -0.5}> {
                    y = Min(x, y_min)
                }""",
                sentences=("the constants of Min 'Min_s' and Min 'Min_y' become one, of shape [2]; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {0}, float b = {2}> { s = Max(x, a)  y = Max(s, b) }",
                    "a constant of Max 'Max_s' or Max 'Max_y' is NaN or zero: the sign of the result is undefined",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            constants=("a", "b"),
            where=(require_defined_sign, require_no_larger_constant),
        ),
        algebraic_rule(
            "logic",
            "(p and q) and r == p and (q and r); (p or q) or r == p or (q or r); "
            "xor(xor(p, q), r) == xor(p, xor(q, r))",
            _BECOME_ONE,
            Example(
                before="""g (bool[N,2] x) => (bool[N,2] y) <bool[2] a = {1, 0}, bool b = {1}> {
                    s = Xor(x, a)
                    y = Xor(s, b)
                }""",
                after="g (bool[N,2] x) => (bool[N,2] y) <bool[2] y_xor = {0, 1}> { y = Xor(x, y_xor) }",
                sentences=("the constants of Xor 'Xor_s' and Xor 'Xor_y' become one, of shape [2]; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (bool[N,2] x) => (bool[N,2] y) <bool[2] a = {1, 0}, bool b = {1}>"
                    " { s = And(x, a)  y = Xor(s, b) }",
                    "Xor 'Xor_y' does not follow a Xor",
                ),
                Refusal(
                    "g (bool[1,2] x) => (bool[3,2] y) <bool[1,2] a = {1, 0}, bool[3,1] b = {1, 0, 1}>"
                    " { s = Xor(x, a)  y = Xor(s, b) }",
                    "the constants of Xor 'Xor_s' and Xor 'Xor_y' broadcast to more elements than either has",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            constants=("q", "r"),
            where=(require_no_larger_constant,),
        ),
        algebraic_rule(
            "bits",
            "(x & a) & b == x & (a & b); (x | a) | b == x | (a | b); (x ^ a) ^ b == x ^ (a ^ b)",
            _BECOME_ONE,
            Example(
                before="""g (uint8[N,2] x) => (uint8[N,2] y) <uint8[2] a = {1, 6}, uint8 b = {3}> {
                    s = BitwiseXor(x, a)
                    y = BitwiseXor(b, s)
                }""",
                after="g (uint8[N,2] x) => (uint8[N,2] y) <uint8[2] y_bitwisexor = {2, 5}>"
                " { y = BitwiseXor(x, y_bitwisexor) }",
                sentences=(
                    "constant 'b' of BitwiseXor 'BitwiseXor_y' moves after 's', where rules expect it",
                    "the constants of BitwiseXor 'BitwiseXor_s' and BitwiseXor 'BitwiseXor_y' become one, of shape "
                    "[2]; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (uint8[N,2] x) => (uint8[N,2] y) <uint8[2] a = {1, 6}, uint8 b = {3}>"
                    " { s = BitwiseAnd(x, a)  y = BitwiseXor(s, b) }",
                    "BitwiseXor 'BitwiseXor_y' does not follow a BitwiseXor",
                ),
                Refusal(
                    "g (uint8[N,2] x, uint8[2] a) => (uint8[N,2] y) <uint8 b = {3}>"
                    " { s = BitwiseXor(x, a)  y = BitwiseXor(s, b) }",
                    "'a', an operand of BitwiseXor 'BitwiseXor_s', is not a constant",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            constants=("a", "b"),
            where=(require_no_larger_constant,),
        ),
    )
