"""Constants that a value meets one after the other become one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, Found, NoMatch, Pass, Refusal, Rule
from workbench.rewrite.chains import Chain, chain_of, constant_place, demand, gathered
from workbench.rewrite.steps import no_step_after

_COMMUTATIVE = ("Add", "Mul", "Equal", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
_LOGIC: dict[str, Callable[..., np.ndarray]] = {
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}
_MOST_TIMES = 16  # the sum of two constants may be so many times the smaller one: it then loses four bits at most
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


# ---- sums ----------------------------------------------------------------------------


def _summand(graph: Graph, node: Node, numbers: np.ndarray) -> tuple[int, np.ndarray]:
    """What the node does as (sign, c): sign * x + c."""
    if node.op == "Add":
        return 1, numbers
    return (-1, numbers) if constant_place(graph, node) == 0 else (1, np.negative(numbers))


def _sum(graph: Graph, chain: Chain) -> tuple[int, np.ndarray]:
    with np.errstate(over="ignore"):
        inner, a = _summand(graph, chain.first, chain.a)
        outer, b = _summand(graph, chain.second, chain.b)
        return inner * outer, np.add(a if outer > 0 else np.negative(a), b)


def _gathered_sum(graph: Graph, chain: Chain, sign: int, total: np.ndarray) -> Found:
    return gathered(graph, chain, "Add" if sign > 0 else "Sub", total, first_operand=sign < 0)


def match_integer_sum(graph: Graph, node: Node, options: Pass) -> Found:
    chain = chain_of(graph, node, ("Add", "Sub"))
    demand(chain, "iu", "integers")
    return _gathered_sum(graph, chain, *_sum(graph, chain))


def match_sum(graph: Graph, node: Node, options: Pass) -> Found:
    chain = chain_of(graph, node, ("Add", "Sub"))
    demand(chain, "f", "floating-point numbers")
    no_step_after(graph, node)
    sign, total = _sum(graph, chain)
    kind = np.finfo(total.dtype)
    exponent = int(kind.maxexp) - int(kind.nmant) - 2  # less is half a step of the largest number: no overflow
    large = np.maximum(np.abs(chain.a), np.abs(chain.b)).astype(np.float64)
    if not (large < 2.0**exponent).all() or not (np.abs(total) < 2.0**exponent).all():
        raise NoMatch(f"a constant of {chain.first} or {chain.second} is not below 2**{exponent}: a sum may overflow")
    if (np.abs(total) < large / 2).any():
        raise NoMatch(f"the constants of {chain.first} and {chain.second} cancel, and what they round away would stay")
    small = np.minimum(np.abs(chain.a), np.abs(chain.b)).astype(np.float64)
    if ((np.abs(total) > _MOST_TIMES * small) & (small > 0)).any():
        raise NoMatch(f"a constant of {chain.first} or {chain.second} is far smaller than the other, and loses digits")
    if any((np.signbit(numbers) & (numbers == 0)).any() for numbers in (chain.a, chain.b)):
        raise NoMatch(f"a constant of {chain.first} or {chain.second} is -0.0, which keeps the sign of a zero")
    return _gathered_sum(graph, chain, sign, total)


# ---- products ------------------------------------------------------------------------


def match_integer_product(graph: Graph, node: Node, options: Pass) -> Found:
    chain = chain_of(graph, node, ("Mul",))
    demand(chain, "iu", "integers")
    with np.errstate(over="ignore"):
        return gathered(graph, chain, "Mul", np.multiply(chain.a, chain.b))


def _factor(graph: Graph, node: Node, numbers: np.ndarray) -> tuple[int, np.ndarray]:
    """What the node does as (power, c): c * x ** power."""
    numbers = numbers.astype(np.float64)
    if node.op == "Mul":
        return 1, numbers
    return (-1, numbers) if constant_place(graph, node) == 0 else (1, 1 / numbers)


def match_product(graph: Graph, node: Node, options: Pass) -> Found:
    chain = chain_of(graph, node, ("Mul", "Div"))
    demand(chain, "f", "floating-point numbers")
    no_step_after(graph, node)
    with np.errstate(all="ignore"):
        inner, a = _factor(graph, chain.first, chain.a)
        outer, b = _factor(graph, chain.second, chain.b)
        total = np.asarray((a if outer > 0 else 1 / a) * b).astype(chain.a.dtype)
    exponent = int(np.finfo(chain.a.dtype).maxexp) // 2
    sizes = [np.abs(numbers.astype(np.float64)) for numbers in (chain.a, chain.b, total)]
    if not all(((size >= 2.0**-exponent) & (size <= 2.0**exponent)).all() for size in sizes):
        raise NoMatch(
            f"a constant of {chain.first} or {chain.second}, or both together, is not between "
            f"2**-{exponent} and 2**{exponent}: a product may overflow or vanish"
        )
    power = inner * outer
    return gathered(graph, chain, "Mul" if power > 0 else "Div", total, first_operand=power < 0)


# ---- bounds and logic ------------------------------------------------------------------


def match_bounds(graph: Graph, node: Node, options: Pass) -> Found:
    chain = chain_of(graph, node, (node.op,))
    if chain.a.dtype.kind not in "iu":
        demand(chain, "f", "floating-point numbers")
        if any((np.isnan(numbers) | (numbers == 0)).any() for numbers in (chain.a, chain.b)):
            raise NoMatch(f"a constant of {chain.first} or {chain.second} is NaN or zero, of which signs are not fixed")
    join = np.minimum if node.op == "Min" else np.maximum
    return gathered(graph, chain, node.op, join(chain.a, chain.b), first_operand=constant_place(graph, node) == 0)


def match_logic(graph: Graph, node: Node, options: Pass) -> Found:
    chain = chain_of(graph, node, (node.op,))
    return gathered(graph, chain, node.op, _LOGIC[node.op](chain.a, chain.b))


def match_constant_last(graph: Graph, node: Node, options: Pass) -> Found:
    if constant_place(graph, node) == 1:
        raise NoMatch(f"the constant of {node} is its second operand already")
    edit = Edit(remove=(node.name,), insert=(node.replace(inputs=node.inputs[::-1]),))
    sentence = f"constant '{node.inputs[0]}' of {node} goes behind '{node.inputs[1]}', where rules look for it"
    return Found(edit, sentence, (node.name,))


@dataclass(frozen=True)
class AlgebraConstants(Pass):
    """Seven cases:

    - a constant that is the first operand of a commutative operator becomes the second;
    - Add and Sub of constants, one after the other: x + a + b, a - x - b and so on are one Add or Sub;
    - Mul of integer constants, one after the other, is one Mul;
    - Mul and Div by floating-point constants, one after the other: one Mul, or one Div of a constant;
    - Min of Min, Max of Max, And of And, Or of Or, Xor of Xor with constants, also bit by bit.

    Must not act where anything else reads the value between the two; where the two constants together
    are larger than each; on sums of floating-point constants that cancel, such as x + 12582912 -
    12582912, which rounds; before Floor and the like; on factors so large or so small that a product
    overflows or vanishes; on Div of integers, which cuts off.

    Source: associativity and commutativity; LLVM's pass reassociate; ONNX's definitions of Add, Sub,
    Mul, Div, Min, Max, And, Or, Xor, BitwiseAnd, BitwiseOr and BitwiseXor.
    """

    title = "Gather constants"

    rules = (
        Rule(
            "constant last",
            _COMMUTATIVE,
            match_constant_last,
            Example(
                before="g (float[N,3] x) => (float[N,3] y) <float[3] a = {1, 2, 3}> { y = Add(a, x) }",
                after="g (float[N,3] x) => (float[N,3] y) <float[3] a = {1, 2, 3}> { y = Add(x, a) }",
                sentences=("constant 'a' of Add 'Add_y' goes behind 'x', where rules look for it",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,3] y) <float a = {1}> { y = Mul(x, a) }",
                    "the constant of Mul 'Mul_y' is its second operand already",
                ),
                Refusal(
                    "g (float[N,3] x, float[N,3] z) => (float[N,3] y) { y = Mul(x, z) }",
                    "Mul 'Mul_y' does not join one constant and one value that is computed",
                ),
            ),
            exactness=Exactness.BITS,
            law="a + x == x + a; a * x == x * a; p and q == q and p; p or q == q or p; xor(p, q) == xor(q, p); "
            "a & x == x & a; a | x == x | a; a ^ x == x ^ a",
        ),
        Rule(
            "sum of integers",
            ("Add", "Sub"),
            match_integer_sum,
            Example(
                before="""g (int64[N,3] x) => (int64[N,3] y) <int64[3] a = {1, 2, 9223372036854775807}, int64 b = {5}> {
                    s = Sub(a, x)
                    y = Add(s, b)
                }""",
                after="""g (int64[N,3] x) => (int64[N,3] y) <int64[3] b_gathered = {6, 7, -9223372036854775804}> {
                    y = Sub(b_gathered, x)
                }""",
                sentences=("the constants of Sub 'Sub_s' and Add 'Add_y' become one, of shape [3]; 1 node less",),
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
                    "the constants of Add 'Add_s' and Add 'Add_y' together are larger than each",
                ),
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {1}> { s = Add(x, a)  y = Add(s, a) }",
                    "Add 'Add_y' computes with float32, not with integers",
                ),
            ),
            exactness=Exactness.BITS,
            law=f"for integers: {_SUMS}",
        ),
        Rule(
            "sum",
            ("Add", "Sub"),
            match_sum,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y) <float[3] a = {1, 0, 3}, float b = {2.5}> {
                    s = Add(x, a)
                    y = Add(s, b)
                }""",
                after="""g (float[N,3] x) => (float[N,3] y) <float[3] b_gathered = {3.5, 2.5, 5.5}> {
                    y = Add(x, b_gathered)
                }""",
                sentences=("the constants of Add 'Add_s' and Add 'Add_y' become one, of shape [3]; 1 node less",),
            ),
            refusals=(
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {12582912}> { s = Add(x, a)  y = Sub(s, a) }",
                    "the constants of Add 'Add_s' and Sub 'Sub_y' cancel, and what they round away would stay",
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
                    "a constant of Add 'Add_s' or Add 'Add_y' is -0.0, which keeps the sign of a zero",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law=_SUMS,
        ),
        Rule(
            "product of integers",
            ("Mul",),
            match_integer_product,
            Example(
                before="""g (int32[N,3] x) => (int32[N,3] y) <int32[3] a = {1, -2, 2147483647}, int32 b = {3}> {
                    s = Mul(a, x)
                    y = Mul(s, b)
                }""",
                after="""g (int32[N,3] x) => (int32[N,3] y) <int32[3] b_gathered = {3, -6, 2147483645}> {
                    y = Mul(x, b_gathered)
                }""",
                sentences=(
                    "constant 'a' of Mul 'Mul_s' goes behind 'x', where rules look for it",
                    "the constants of Mul 'Mul_s' and Mul 'Mul_y' become one, of shape [3]; 1 node less",
                ),
            ),
            refusals=(
                Refusal(
                    "g (int32[3] x) => (int32[3] y) <int32 a = {3}> { s = Div(x, a)  y = Mul(s, a) }",
                    "Mul 'Mul_y' does not follow a Mul",
                ),
            ),
            exactness=Exactness.BITS,
            law="for integers: (x * a) * b == x * (a * b)",
        ),
        Rule(
            "product",
            ("Mul", "Div"),
            match_product,
            Example(
                before="""g (float[N,2] x) => (float[N,2] y) <float[2] a = {3, -0.5}, float b = {4}> {
                    s = Mul(x, a)
                    y = Div(s, b)
                }""",
                after="""g (float[N,2] x) => (float[N,2] y) <float[2] b_gathered = {0.75, -0.125}> {
                    y = Mul(x, b_gathered)
                }""",
                sentences=("the constants of Mul 'Mul_s' and Div 'Div_y' become one, of shape [2]; 1 node less",),
            ),
            refusals=(
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {1e19}, float b = {2}> { s = Mul(x, a)  y = Mul(s, b) }",
                    "a constant of Mul 'Mul_s' or Mul 'Mul_y', or both together, is not between "
                    "2**-64 and 2**64: a product may overflow or vanish",
                ),
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {3}> { s = Mul(x, a)  t = Div(s, a)  y = Floor(t) }",
                    "Floor 'Floor_y' reads 't', and makes a step of a rounding",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law=_PRODUCTS,
        ),
        Rule(
            "bounds",
            ("Min", "Max"),
            match_bounds,
            Example(
                before="""g (float[N,2] x) => (float[N,2] y) <float[2] a = {3, -0.5}, float b = {2}> {
                    s = Min(x, a)
                    y = Min(s, b)
                }""",
                after="""g (float[N,2] x) => (float[N,2] y) <float[2] b_gathered = {2, -0.5}> {
                    y = Min(x, b_gathered)
                }""",
                sentences=("the constants of Min 'Min_s' and Min 'Min_y' become one, of shape [2]; 1 node less",),
            ),
            refusals=(
                Refusal(
                    "g (float[3] x) => (float[3] y) <float a = {0}, float b = {2}> { s = Max(x, a)  y = Max(s, b) }",
                    "a constant of Max 'Max_s' or Max 'Max_y' is NaN or zero, of which signs are not fixed",
                ),
            ),
            exactness=Exactness.BITS,
            law="min(min(x, a), b) == min(x, min(a, b)); max(max(x, a), b) == max(x, max(a, b))",
        ),
        Rule(
            "logic",
            tuple(_LOGIC),
            match_logic,
            Example(
                before="""g (bool[N,2] x) => (bool[N,2] y) <bool[2] a = {1, 0}, bool b = {1}> {
                    s = Xor(x, a)
                    y = Xor(s, b)
                }""",
                after="""g (bool[N,2] x) => (bool[N,2] y) <bool[2] b_gathered = {0, 1}> { y = Xor(x, b_gathered) }""",
                sentences=("the constants of Xor 'Xor_s' and Xor 'Xor_y' become one, of shape [2]; 1 node less",),
            ),
            exactness=Exactness.BITS,
            law="(p and q) and r == p and (q and r); (p or q) or r == p or (q or r); "
            "xor(xor(p, q), r) == xor(p, xor(q, r)); (x & a) & b == x & (a & b); (x | a) | b == x | (a | b); "
            "(x ^ a) ^ b == x ^ (a ^ b)",
        ),
    )
