"""The laws of rules, and their proofs by z3.

A law is an equation in Python's syntax, or several with a semicolon between them, perhaps for some
kinds of numbers, perhaps under a condition:

    -(-x) == x
    for integers: (x * a) * b == x * (a * b)
    for reals: (x * a) / b == x * (a / b) if b != 0
    x + a == a + x; x * a == a * x

The kinds are integers, booleans, floats and reals. Where a law names none, it holds for integers,
booleans and floats where its rule is exact to the last bit, and else for reals; each as far as there
are its operators. Integers wrap around, of 8 and of 64 bits, with and without a sign. Floats are
those of 16 bits, rounded to nearest even; NaN equals NaN, and 0.0 does not equal -0.0. Which of two
zeros min and max give is not known, only that it is the same one every time. Variables named p, q
and r are booleans in any kind. `minus_zero(a, b)` says that one of them is -0.0.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import z3

from workbench.rewrite import Exactness

KINDS = ("integers", "booleans", "floats", "reals")
SECONDS = 120  # of one proof; most take less than one
_PREFIX = re.compile(r"for ([a-z, ]+): (.*)")
_TRUTHS = frozenset("pqr")
_NEAREST = z3.RNE()
_ARITHMETIC = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Pow: "**",
}


class NoProof(Exception):
    """The law cannot be written for these numbers: it has an operator that they have not."""


@dataclass(frozen=True)
class Law:
    """One equation. sides: what is equal. kinds: of numbers, empty where it names none. condition: "" for none."""

    kinds: tuple[str, ...]
    sides: tuple[str, ...]
    condition: str = ""


def read(text: str) -> tuple[Law, ...]:
    """The equations of a law. Raises ValueError for what is no law."""
    prefix = _PREFIX.fullmatch(text)
    kinds = tuple(re.split(r", | and ", prefix[1])) if prefix else ()
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise ValueError(f"'{unknown[0]}' is no kind of numbers, in the law '{text}'")
    return tuple(_equation(kinds, part) for part in (prefix[2] if prefix else text).split("; "))


def _equation(kinds: tuple[str, ...], text: str) -> Law:
    equation, _, condition = text.partition(" if ")
    sides = tuple(_split_outside_parentheses(equation))
    if len(sides) < 2:
        raise ValueError(f"a law is an equation with '==', and '{text}' is none")
    return Law(kinds, sides, condition)


def _split_outside_parentheses(equation: str) -> list[str]:
    """Split at each "==" that is in no parentheses: `not` binds less than `==` in Python, and would take it along."""
    sides, depth = [""], 0
    for part in re.split(r"(==|[()])", equation):
        depth += (part == "(") - (part == ")")
        if part == "==" and not depth:
            sides.append("")
        else:
            sides[-1] += part
    return [side.strip() for side in sides]


# ---- numbers ---------------------------------------------------------------------


class _Numbers:
    """How one kind of numbers computes; `facts` is what is known of values that came up."""

    def __init__(self) -> None:
        self.operations: dict[str, Callable] = {"minus_zero": lambda *values: z3.BoolVal(False)}
        self.facts: list[z3.BoolRef] = []

    def variable(self, name: str) -> z3.ExprRef:
        raise NotImplementedError

    def literal(self, number: float) -> z3.ExprRef:
        raise NotImplementedError


class _Integers(_Numbers):
    def __init__(self, bits: int, signed: bool) -> None:
        super().__init__()
        self.bits, self.signed = bits, signed
        less = operator.lt if signed else z3.ULT
        zero = z3.BitVecVal(0, bits)
        self.operations |= {
            "+": operator.add,
            "-": operator.sub,
            "*": operator.mul,
            "/": operator.truediv if signed else z3.UDiv,
            "&": operator.and_,
            "|": operator.or_,
            "^": operator.xor,
            "neg": operator.neg,
            "~": operator.invert,
            "**": _power,
            "<": less,
            "<=": operator.le if signed else z3.ULE,
            "min": lambda x, y: z3.If(less(y, x), y, x),
            "max": lambda x, y: z3.If(less(x, y), y, x),
            "abs": lambda x: z3.If(less(x, zero), -x, x),
            "sign": lambda x: z3.If(x == 0, zero, z3.If(less(x, zero), zero - 1, zero + 1)),
            "relu": lambda x: z3.If(less(x, zero), zero, x),
        }

    def variable(self, name: str) -> z3.ExprRef:
        return z3.BitVec(name, self.bits)

    def literal(self, number: float) -> z3.ExprRef:
        if not isinstance(number, int):
            raise NoProof(f"{number} is no integer")
        return z3.BitVecVal(number, self.bits)


class _Booleans(_Numbers):
    def variable(self, name: str) -> z3.ExprRef:
        return z3.Bool(name)

    def literal(self, number: float) -> z3.ExprRef:
        raise NoProof(f"{number} is no truth value")


class _Reals(_Numbers):
    def __init__(self) -> None:
        super().__init__()
        self.operations |= {
            "+": operator.add,
            "-": operator.sub,
            "*": operator.mul,
            "/": operator.truediv,
            "**": self._power,
            "neg": operator.neg,
            "<": operator.lt,
            "<=": operator.le,
            "min": lambda x, y: z3.If(y < x, y, x),
            "max": lambda x, y: z3.If(x < y, y, x),
            "abs": lambda x: z3.If(x < 0, -x, x),
            "sign": lambda x: z3.If(x == 0, z3.RealVal(0), z3.If(x < 0, z3.RealVal(-1), z3.RealVal(1))),
            "relu": lambda x: z3.If(x < 0, z3.RealVal(0), x),
            "floor": lambda x: z3.ToReal(z3.ToInt(x)),
            "ceil": lambda x: -z3.ToReal(z3.ToInt(-x)),
            "reciprocal": lambda x: 1 / x,
            "sqrt": self._root,
            "hard_swish": lambda x: z3.If(x < -3, 0, z3.If(x > 3, x, x * (x + 3) / 6)),
        }

    def variable(self, name: str) -> z3.ExprRef:
        return z3.Real(name)

    def literal(self, number: float) -> z3.ExprRef:
        return z3.RealVal(number)

    def _power(self, x: z3.ExprRef, exponent: z3.ExprRef) -> z3.ExprRef:
        words = str(z3.simplify(exponent))
        return {"-1": 1 / x, "1/2": self._root(x)}[words] if words in ("-1", "1/2") else _power(x, exponent)

    def _root(self, x: z3.ExprRef) -> z3.ExprRef:
        root = z3.Function("sqrt", z3.RealSort(), z3.RealSort())(x)
        self.facts.append(z3.Implies(x >= 0, z3.And(root >= 0, root * root == x)))
        return root


class _Floats(_Numbers):
    sort = z3.Float16()

    def __init__(self) -> None:
        super().__init__()
        zero, one = z3.FPVal(0.0, self.sort), z3.FPVal(1.0, self.sort)
        self.operations |= {
            "+": lambda x, y: z3.fpAdd(_NEAREST, x, y),
            "-": lambda x, y: z3.fpSub(_NEAREST, x, y),
            "*": lambda x, y: z3.fpMul(_NEAREST, x, y),
            "/": lambda x, y: z3.fpDiv(_NEAREST, x, y),
            "neg": z3.fpNeg,
            "<": z3.fpLT,
            "<=": z3.fpLEQ,
            "min": lambda x, y: self._extreme("min", z3.fpLT, x, y),
            "max": lambda x, y: self._extreme("max", z3.fpGT, x, y),
            "relu": lambda x: self._extreme("relu", z3.fpGT, x, zero),
            "abs": z3.fpAbs,
            "sign": lambda x: z3.If(z3.fpIsZero(x), zero, z3.If(x > 0, one, z3.If(x < 0, -one, x))),
            "floor": lambda x: z3.fpRoundToIntegral(z3.RTN(), x),
            "ceil": lambda x: z3.fpRoundToIntegral(z3.RTP(), x),
            "round": lambda x: z3.fpRoundToIntegral(_NEAREST, x),
            "reciprocal": lambda x: z3.fpDiv(_NEAREST, one, x),
            "sqrt": lambda x: z3.fpSqrt(_NEAREST, x),
            "minus_zero": lambda *values: z3.Or(*[z3.And(z3.fpIsZero(x), z3.fpIsNegative(x)) for x in values]),
        }

    def variable(self, name: str) -> z3.ExprRef:
        return z3.FP(name, self.sort)

    def literal(self, number: float) -> z3.ExprRef:
        return z3.FPVal(float(number), self.sort)

    def _extreme(self, name: str, beats: Callable, x: z3.ExprRef, y: z3.ExprRef) -> z3.ExprRef:
        first_zero = z3.Function(f"{name}_takes_the_first", self.sort, self.sort, z3.BoolSort())(x, y)
        nan = z3.fpNaN(self.sort)
        takes_first = z3.Or(beats(x, y), z3.And(z3.fpEQ(x, y), first_zero))
        return z3.If(z3.Or(z3.fpIsNaN(x), z3.fpIsNaN(y)), nan, z3.If(takes_first, x, y))


def _power(base: z3.ExprRef, exponent: z3.ExprRef) -> z3.ExprRef:
    times = z3.simplify(exponent)
    if str(times) not in "12345":
        raise NoProof(f"power of {exponent}")
    return math.prod([base] * (int(str(times)) - 1), start=base)


_NUMBERS: dict[str, tuple[Callable[[], _Numbers], ...]] = {
    "integers": tuple(lambda b=b, s=s: _Integers(b, s) for b in (8, 64) for s in (True, False)),
    "booleans": (_Booleans,),
    "floats": (_Floats,),
    "reals": (_Reals,),
}


# ---- text to values ----------------------------------------------------------------


def _value(tree: ast.AST, numbers: _Numbers) -> z3.ExprRef:
    match tree:
        case ast.Expression(body):
            return _value(body, numbers)
        case ast.Name(name):
            return z3.Bool(name) if name in _TRUTHS else numbers.variable(name)
        case ast.Constant(bool() as truth):
            return z3.BoolVal(truth)
        case ast.Constant(int() | float() as number):
            return numbers.literal(number)
        case ast.UnaryOp(ast.Not(), inner):
            return z3.Not(_truth(inner, numbers))
        case ast.UnaryOp(ast.USub(), inner):
            return _computed("neg", [_value(inner, numbers)], numbers)
        case ast.UnaryOp(ast.Invert(), inner):
            return _computed("~", [_value(inner, numbers)], numbers)
        case ast.BoolOp(joined, parts):
            return (z3.And if isinstance(joined, ast.And) else z3.Or)(*[_truth(part, numbers) for part in parts])
        case ast.BinOp(left, op, right):
            name = _ARITHMETIC.get(type(op), type(op).__name__)
            return _computed(name, [_value(left, numbers), _value(right, numbers)], numbers)
        case ast.Compare(left, [op], [right]):
            return _compared(op, *_alike([_value(left, numbers), _value(right, numbers)]), numbers)
        case ast.Call(ast.Name("where"), [chosen, left, right]):
            return z3.If(_truth(chosen, numbers), *_alike([_value(left, numbers), _value(right, numbers)]))
        case ast.Call(ast.Name("xor"), [left, right]):
            return z3.Xor(_truth(left, numbers), _truth(right, numbers))
        case ast.Call(ast.Name(name), arguments):
            return _computed(name, [_value(argument, numbers) for argument in arguments], numbers)
    raise NoProof(ast.unparse(tree))


def _computed(name: str, operands: list[z3.ExprRef], numbers: _Numbers) -> z3.ExprRef:
    if name not in numbers.operations:
        raise NoProof(name)
    if any(z3.is_bool(operand) for operand in operands):
        raise NoProof(f"{name} of truth values")
    return numbers.operations[name](*operands)


def _truth(tree: ast.AST, numbers: _Numbers) -> z3.BoolRef:
    value = _value(tree, numbers)
    if not z3.is_bool(value):
        raise NoProof(f"{ast.unparse(tree)} is no truth value")
    return value


def _alike(values: list[z3.ExprRef]) -> list[z3.ExprRef]:
    if len({value.sort() for value in values}) > 1:
        raise NoProof("numbers and truth values together")
    return values


def _compared(op: ast.cmpop, left: z3.ExprRef, right: z3.ExprRef, numbers: _Numbers) -> z3.BoolRef:
    if isinstance(op, ast.Eq | ast.NotEq):
        equal = z3.fpEQ(left, right) if z3.is_fp(left) else left == right
        return equal if isinstance(op, ast.Eq) else z3.Not(equal)
    smaller, larger = (left, right) if isinstance(op, ast.Lt | ast.LtE) else (right, left)
    return _computed("<" if isinstance(op, ast.Lt | ast.Gt) else "<=", [smaller, larger], numbers)


# ---- proofs ------------------------------------------------------------------------


@dataclass(frozen=True)
class Proof:
    """proved: the kinds of numbers for which it holds. wrong: a sentence, "" for none. missing: why there is no proof."""

    proved: tuple[str, ...] = ()
    wrong: str = ""
    missing: str = ""


@cache
def prove(text: str, exactness: Exactness) -> Proof:
    """The law for every kind of numbers that it speaks of, or that its rule's exactness asks for."""
    proofs = [_proof(law, exactness) for law in read(text)]
    wrong = next((f"{text} {proof.wrong}" for proof in proofs if proof.wrong), "")
    if wrong:
        return Proof(wrong=wrong)
    missing = next((proof.missing for proof in proofs if proof.missing), "")
    proved = {kind for proof in proofs for kind in proof.proved}
    return Proof(() if missing else tuple(kind for kind in KINDS if kind in proved), missing=missing)


def _proof(law: Law, exactness: Exactness) -> Proof:
    asked = law.kinds or (("integers", "booleans", "floats") if exactness is Exactness.BITS else ("reals",))
    proved, missing = [], ""
    for kind in asked:
        try:
            wrong = next(filter(None, (_counterexample(law, make()) for make in _NUMBERS[kind])), "")
        except NoProof as unknown:
            missing = f"z3 has no {unknown} for {kind}"
            continue
        if wrong:
            return Proof(wrong=f"is wrong for {kind}: {wrong}")
        proved.append(kind)
    enough = proved and (not law.kinds or len(proved) == len(law.kinds))
    return Proof(tuple(proved), missing="" if enough else missing)


def _counterexample(law: Law, numbers: _Numbers) -> str:
    """Values for which the law is wrong, or that this was not decided; "" where it is proved."""
    trees = [ast.parse(side, mode="eval") for side in (*law.sides, law.condition or "True")]
    named = {part.id for tree in trees for part in ast.walk(tree) if isinstance(part, ast.Name)}
    if named <= _TRUTHS and not isinstance(numbers, _Booleans):
        raise NoProof("number in it")
    *sides, condition = [_value(tree, numbers) for tree in trees]
    _alike(sides)
    solver = z3.Solver()
    solver.set("timeout", SECONDS * 1000)
    solver.add(condition, *numbers.facts)
    solver.add(z3.Or(*[sides[0] != other for other in sides[1:]]))  # of floats too: NaN is NaN, 0.0 is not -0.0
    answer = solver.check()
    if answer == z3.unsat:
        return ""
    return f"{solver.model()}" if answer == z3.sat else f"z3 did not decide it in {SECONDS} seconds"
