"""Remove arithmetic, logic and shifts with an identity element: x * 1, x - 0, p and true."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Graph, Node, constant_shape
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.zeros import holds_no_negative_zero
from workbench.rewrite.core.guards import broadcasts_into, replace_with_operand, require_constant, require_floating

_COMMUTATIVE = frozenset({"Add", "Mul", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor"})


def _operands(graph: Graph, node: Node) -> tuple[str, str]:
    """The operand that may replace the result, and the constant."""
    left, right = node.inputs
    if node.op in _COMMUTATIVE and left in graph.constants:
        left, right = right, left
    if left in graph.constants or right not in graph.constants:
        if node.op in _COMMUTATIVE:
            raise NoMatch(f"{node} needs exactly one constant operand")
        raise NoMatch(f"{node} needs a computed first operand and a constant second operand")
    return left, right


def _removed(graph: Graph, node: Node, source: str, identity: str, verb: str) -> Rewrite:
    shape = constant_shape(graph.constants[identity])
    if shape and not broadcasts_into(shape, graph.shape(source)):
        raise NoMatch(f"'{identity}' of {node} may enlarge '{source}' by broadcasting")
    return replace_with_operand(
        graph, node, source, f"{node} {verb} '{identity}', which changes nothing; replaced by '{source}'"
    )


def _all_equal_with_sign(array: np.ndarray, number: float) -> bool:
    """Whether every element is that number; zeros of floating-point types are compared with their sign."""
    are_equal = bool((array == number).all())
    if number or np.issubdtype(array.dtype, np.integer):
        return are_equal
    return are_equal and bool((np.signbit(array.astype(np.float64)) == np.signbit(number)).all())


def match_zero(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """For floats, only adding -0.0 and subtracting 0.0 change nothing: x + 0.0 turns -0.0 into 0.0."""
    source, zero = _operands(graph, node)
    identity, other_zero = (-0.0, 0.0) if node.op == "Add" else (0.0, -0.0)
    if not _all_equal_with_sign(require_constant(graph, zero, node), identity):
        raise NoMatch(f"'{zero}' of {node} is not zero, or is {other_zero}, with which -0.0 becomes 0.0")
    return _removed(graph, node, source, zero, "adds" if node.op == "Add" else "subtracts")


def match_no_negative_zero(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    source, zero = _operands(graph, node)
    if require_constant(graph, zero, node).any():
        raise NoMatch(f"'{zero}' of {node} is not zero")
    if not holds_no_negative_zero(graph, source):
        raise NoMatch(f"'{source}' may hold -0.0, which {node} turns into 0.0")
    return _removed(graph, node, source, zero, "adds" if node.op == "Add" else "subtracts")


def match_zero_ignoring_sign(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    source, zero = _operands(graph, node)
    if require_constant(graph, zero, node).any():
        raise NoMatch(f"'{zero}' of {node} is not zero")
    return _removed(graph, node, source, zero, "adds" if node.op == "Add" else "subtracts")


def match_one(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    source, one = _operands(graph, node)
    if not _all_equal_with_sign(require_constant(graph, one, node), 1):
        raise NoMatch(f"'{one}' of {node} is not 1")
    return _removed(graph, node, source, one, "multiplies by" if node.op == "Mul" else "divides by")


def match_power(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """Powers of integers are kept: runtimes compute them in floating point, which loses digits."""
    base, one = _operands(graph, node)
    require_floating(graph, base, node)
    if not _all_equal_with_sign(require_constant(graph, one, node), 1):
        raise NoMatch(f"'{one}' of {node} is not 1")
    return _removed(graph, node, base, one, "raises to the power")


def match_boolean_identity(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    source, value = _operands(graph, node)
    if (require_constant(graph, value, node) != (node.op == "And")).any():
        raise NoMatch(f"'{value}' of {node} is not {'true' if node.op == 'And' else 'false'} everywhere")
    return _removed(graph, node, source, value, "combines with")


def match_bits(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    source, value = _operands(graph, node)
    array = require_constant(graph, value, node)
    if (~array if node.op == "BitwiseAnd" else array).any():
        raise NoMatch(f"'{value}' of {node} changes bits")
    return _removed(graph, node, source, value, "shifts by" if node.op == "BitShift" else "combines with")


@dataclass(frozen=True)
class RemoveNeutral(Pass):
    """A binary operator is removed if its constant operand is its identity element:

    - x + 0 and x - 0 of integers; for floats x + (-0.0) and x - 0.0, which keep the sign of a zero;
    - x + 0.0 and x - (-0.0) if x cannot be -0.0, for example after adding a constant that is not zero. Otherwise only
      in mode "fast", because they turn -0.0 into 0.0;
    - x * 1, x / 1, and x ** 1 of floats;
    - p and true, p or false, p xor false; x & ~0, x | 0, x ^ 0, and shifts by 0.

    Does not apply if the constant has more elements or axes than the operand may have, since broadcasting would
    enlarge it, nor to powers of integers, which runtimes compute in floating point.

    Source: identity elements of IEEE 754 and of Boolean algebra; the rules of LLVM's InstSimplify for fadd, which
    ignore the sign of a zero only under fast-math flags.
    """

    title = "Remove arithmetic with identity elements"

    rules = (
        Rule(
            "zero",
            ("Add", "Sub"),
            match_zero,
            Example(
                before="""g (float[N,3] x, int32[N] i) => (float[N,3] y, int32[N] j)
                    <float[3] z = {0, 0, 0}, float m = {-0.0}, int32 k = {0}> {
                    a = Sub(x, z)
                    b = Add(m, a)
                    y = Neg(b)
                    c = Add(i, k)
                    j = Neg(c)
                }""",
                after="g (float[N,3] x, int32[N] i) => (float[N,3] y, int32[N] j) { y = Neg(x)  j = Neg(i) }",
                sentences=(
                    "Sub 'Sub_a' subtracts 'z', which changes nothing; replaced by 'x'",
                    "Add 'Add_b' adds 'm', which changes nothing; replaced by 'x'",
                    "Add 'Add_c' adds 'k', which changes nothing; replaced by 'i'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) <float z = {0}> { a = Add(x, z)  y = Neg(a) }",
                    "'z' of Add 'Add_a' is not zero, or is 0.0, with which -0.0 becomes 0.0",
                ),
                Refusal(
                    "g (int32[N] x) => (int32[N] y) <int32 z = {0}> { a = Sub(z, x)  y = Neg(a) }",
                    "Sub 'Sub_a' needs a computed first operand and a constant second operand",
                ),
                Refusal(
                    "g (int32[N] x) => (int32[M] y) <int32[2] z = {0, 0}> { a = Add(x, z)  y = Neg(a) }",
                    "'z' of Add 'Add_a' may enlarge 'x' by broadcasting",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="x + -0.0 == x; x - 0 == x",
        ),
        Rule(
            "zero added to a value without -0.0",
            ("Add", "Sub"),
            match_no_negative_zero,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y) <float[3] b = {1, 0, -1}, float z = {0}> {
                    a = Add(x, b)
                    r = Relu(a)
                    s = Add(r, z)
                    y = Neg(s)
                }""",
                after="""g (float[N,3] x) => (float[N,3] y) <float[3] b = {1, 0, -1}> {
                    a = Add(x, b)
                    r = Relu(a)
                    y = Neg(r)
                }""",
                sentences=("Add 'Add_s' adds 'z', which changes nothing; replaced by 'r'",),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) <float z = {0}> { r = Relu(x)  s = Add(r, z)  y = Neg(s) }",
                    "'r' may hold -0.0, which Add 'Add_s' turns into 0.0",
                ),
                Refusal(
                    "g (float[N] x, float[N] w) => (float[N] y) <float z = {0}>"
                    " { r = Mul(x, w)  s = Add(r, z)  y = Neg(s) }",
                    "'r' may hold -0.0, which Add 'Add_s' turns into 0.0",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for floats: (x + a) + 0.0 == x + a if a != 0",
        ),
        Rule(
            "zero, ignoring its sign",
            ("Add", "Sub"),
            match_zero_ignoring_sign,
            Example(
                before="g (float[N] x) => (float[N] y) <float z = {0}> { a = Add(x, z)  y = Neg(a) }",
                after="g (float[N] x) => (float[N] y) { y = Neg(x) }",
                sentences=("Add 'Add_a' adds 'z', which changes nothing; replaced by 'x'",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) <float z = {1}> { a = Add(x, z)  y = Neg(a) }",
                    "'z' of Add 'Add_a' is not zero",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": -0.0}, before=-0.0, after=0, because="-0 + 0 is 0, and Neg then flips the sign"
            ),
            law="x + 0 == x",
        ),
        Rule(
            "one",
            ("Mul", "Div"),
            match_one,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y) <float[1,3] w = {1, 1, 1}, float u = {1}> {
                    a = Mul(w, x)
                    b = Div(a, u)
                    y = Neg(b)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }",
                sentences=(
                    "Mul 'Mul_a' multiplies by 'w', which changes nothing; replaced by 'x'",
                    "Div 'Div_b' divides by 'u', which changes nothing; replaced by 'x'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,2] x) => (float[N,2] y) <float[2] w = {1, 2}> { a = Mul(x, w)  y = Neg(a) }",
                    "'w' of Mul 'Mul_a' is not 1",
                ),
                Refusal(
                    "g (float[N] x, float[N] z) => (float[N] y) { a = Mul(x, z)  y = Neg(a) }",
                    "Mul 'Mul_a' needs exactly one constant operand",
                ),
                Refusal(
                    "g (float[N] x) => (float[1,N] y) <float[1,1] w = {1}> { a = Mul(x, w)  y = Neg(a) }",
                    "'w' of Mul 'Mul_a' may enlarge 'x' by broadcasting",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="x * 1 == x; x / 1 == x",
        ),
        Rule(
            "power of one",
            ("Pow",),
            match_power,
            Example(
                before="g (float[N] x) => (float[N] y) <int64 e = {1}> { a = Pow(x, e)  y = Neg(a) }",
                after="g (float[N] x) => (float[N] y) { y = Neg(x) }",
                sentences=("Pow 'Pow_a' raises to the power 'e', which changes nothing; replaced by 'x'",),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) <float e = {2}> { a = Pow(x, e)  y = Neg(a) }",
                    "'e' of Pow 'Pow_a' is not 1",
                ),
                Refusal(
                    "g (int64[N] x) => (int64[N] y) <int64 e = {1}> { a = Pow(x, e)  y = Neg(a) }",
                    "'x', an operand of Pow 'Pow_a', is not known to hold floating-point numbers",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="x ** 1 == x",
        ),
        Rule(
            "boolean identity",
            ("And", "Or", "Xor"),
            match_boolean_identity,
            Example(
                before="""g (bool[N] p) => (bool[N] y) <bool t = {1}, bool f = {0}> {
                    a = And(p, t)
                    b = Or(f, a)
                    c = Xor(b, f)
                    y = Not(c)
                }""",
                after="g (bool[N] p) => (bool[N] y) { y = Not(p) }",
                sentences=(
                    "And 'And_a' combines with 't', which changes nothing; replaced by 'p'",
                    "Or 'Or_b' combines with 'f', which changes nothing; replaced by 'p'",
                    "Xor 'Xor_c' combines with 'f', which changes nothing; replaced by 'p'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (bool[N] p) => (bool[N] y) <bool f = {0}> { a = And(p, f)  y = Not(a) }",
                    "'f' of And 'And_a' is not true everywhere",
                ),
                Refusal(
                    "g (bool[N] p) => (bool[N] y) <bool t = {1}> { a = Xor(p, t)  y = Not(a) }",
                    "'t' of Xor 'Xor_a' is not false everywhere",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="(p and True) == p; (p or False) == p; xor(p, False) == p",
        ),
        Rule(
            "bits",
            ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"),
            match_bits,
            Example(
                before="""g (uint8[N] x) => (uint8[N] y) <uint8 o = {255}, uint8 z = {0}> {
                    a = BitwiseAnd(x, o)
                    b = BitwiseXor(z, a)
                    c = BitShift<direction="LEFT">(b, z)
                    y = BitwiseNot(c)
                }""",
                after="g (uint8[N] x) => (uint8[N] y) { y = BitwiseNot(x) }",
                sentences=(
                    "BitwiseAnd 'BitwiseAnd_a' combines with 'o', which changes nothing; replaced by 'x'",
                    "BitwiseXor 'BitwiseXor_b' combines with 'z', which changes nothing; replaced by 'x'",
                    "BitShift 'BitShift_c' shifts by 'z', which changes nothing; replaced by 'x'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (uint8[N] x) => (uint8[N] y) <uint8 o = {127}> { a = BitwiseAnd(x, o)  y = BitwiseNot(a) }",
                    "'o' of BitwiseAnd 'BitwiseAnd_a' changes bits",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="x & ~0 == x; x | 0 == x; x ^ 0 == x",
        ),
    )
