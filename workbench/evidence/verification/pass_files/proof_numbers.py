"""How each kind of numbers computes, said to z3; proofs.py says what the kinds are."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial

import z3

_NEAREST = z3.RNE()
_FLOATS = (z3.Float16(), z3.Float32(), z3.Float64())


class NoProof(Exception):
    """The law cannot be written for these numbers: it has an operator that is not defined for them."""


class NumberKind:
    """How one kind of numbers computes. facts: axioms, added whenever a term needs them."""

    def __init__(self) -> None:
        self.name = ""  # of the element type, where the kind has several
        self.is_signed = True
        self.not_taken: frozenset[str] = frozenset()  # operations that no graph has for them
        self.operations: dict[str, Callable[..., z3.ExprRef]] = {"minus_zero": lambda *values: z3.BoolVal(False)}
        self.facts: list[z3.BoolRef] = []

    def variable(self, name: str) -> z3.ExprRef:
        raise NotImplementedError

    def literal(self, number: float) -> z3.ExprRef:
        raise NotImplementedError


class _Integers(NumberKind):
    def __init__(self, bits: int, signed: bool) -> None:
        super().__init__()
        self.bits, self.is_signed = bits, signed
        self.name = f"{'' if signed else 'u'}int{bits}"
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
            "<<": operator.lshift,
            ">>": operator.rshift if signed else z3.LShR,
            "**": _power,
            "<": less,
            "<=": operator.le if signed else z3.ULE,
            "min": lambda x, y: z3.If(less(y, x), y, x),
            "max": lambda x, y: z3.If(less(x, y), y, x),
            "abs": lambda x: z3.If(less(x, zero), -x, x),
            "sign": lambda x: z3.If(x == 0, zero, z3.If(less(x, zero), zero - 1, zero + 1)),
            "relu": lambda x: z3.If(less(x, zero), zero, x),
            "widen": lambda x: (z3.SignExt if signed else z3.ZeroExt)(x.size(), x),
            "narrow": lambda x: z3.Extract(x.size() // 2 - 1, 0, x),
        }
        self.not_taken = frozenset() if signed else frozenset({"neg", "relu"})  # by ONNX's operators

    def variable(self, name: str) -> z3.ExprRef:
        return z3.BitVec(name, self.bits)

    def literal(self, number: float) -> z3.ExprRef:
        if not isinstance(number, int):
            raise NoProof(f"{number} is no integer")
        return z3.BitVecVal(number, self.bits)


class Booleans(NumberKind):
    def variable(self, name: str) -> z3.ExprRef:
        return z3.Bool(name)

    def literal(self, number: float) -> z3.ExprRef:
        raise NoProof(f"{number} is no truth value")


class _Sizes(NumberKind):
    def __init__(self) -> None:
        super().__init__()
        self.operations |= {
            "+": operator.add,
            "-": operator.sub,
            "*": operator.mul,
            "/": operator.truediv,  # z3's, of whole numbers: what is left over is dropped
            "<": operator.lt,
            "<=": operator.le,
            "min": lambda x, y: z3.If(y < x, y, x),
            "max": lambda x, y: z3.If(x < y, y, x),
        }

    def variable(self, name: str) -> z3.ExprRef:
        self.facts.append(z3.Int(name) >= 0)
        return z3.Int(name)

    def literal(self, number: float) -> z3.ExprRef:
        return z3.IntVal(number)


class _Reals(NumberKind):
    def __init__(self) -> None:
        super().__init__()
        self.exponents: list[z3.ExprRef] = []
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
            "exp": self._exponential,
            "log": self._logarithm,
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

    def _exponential(self, x: z3.ExprRef) -> z3.ExprRef:
        exp = z3.Function("exp", z3.RealSort(), z3.RealSort())
        self.facts.append(exp(x) > 0)
        self.facts += [z3.Implies(exp(x) == exp(other), x == other) for other in self.exponents]
        self.facts.append(z3.Implies(x == 0, exp(x) == 1))
        self.exponents.append(x)
        if z3.is_sub(x):
            left, right = x.children()
            self.facts.append(exp(x) * self._exponential(right) == self._exponential(left))
        if z3.is_app_of(x, z3.Z3_OP_UMINUS):
            self.facts.append(exp(x) * self._exponential(x.arg(0)) == 1)
        if z3.is_add(x):
            self.facts.append(exp(x) == math.prod(self._exponential(part) for part in x.children()))
        return exp(x)

    def _logarithm(self, x: z3.ExprRef) -> z3.ExprRef:
        log = z3.Function("log", z3.RealSort(), z3.RealSort())
        self.facts.append(z3.Implies(x > 0, self._exponential(log(x)) == x))
        if z3.is_mul(x):
            self._exponential(z3.Sum([log(part) for part in x.children()]))
        if z3.is_div(x):
            left, right = x.children()
            self._exponential(log(left) - log(right))
        return log(x)


class _Floats(NumberKind):
    sort = _FLOATS[0]  # laws of floats are proved for float16 only

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
            "widen": lambda x: _cast(x, _FLOATS.index(x.sort()) + 1),
            "narrow": lambda x: _cast(x, _FLOATS.index(x.sort()) - 1),
        }

    def variable(self, name: str) -> z3.ExprRef:
        return z3.FP(name, self.sort)

    def literal(self, number: float) -> z3.ExprRef:
        return z3.FPVal(float(number), self.sort)

    def _extreme(self, name: str, beats: Callable[..., z3.BoolRef], x: z3.ExprRef, y: z3.ExprRef) -> z3.ExprRef:
        first_zero = z3.Function(f"{name}_takes_the_first", self.sort, self.sort, z3.BoolSort())(x, y)
        nan = z3.fpNaN(self.sort)
        takes_first = z3.Or(beats(x, y), z3.And(z3.fpEQ(x, y), first_zero))
        return z3.If(z3.Or(z3.fpIsNaN(x), z3.fpIsNaN(y)), nan, z3.If(takes_first, x, y))


def _cast(x: z3.FPRef, place: int) -> z3.FPRef:
    if place not in range(len(_FLOATS)):
        raise NoProof("narrower or wider type")
    return z3.fpToFP(_NEAREST, x, _FLOATS[place])


def _power(base: z3.ExprRef, exponent: z3.ExprRef) -> z3.ExprRef:
    times = z3.simplify(exponent)
    if str(times) not in {"1", "2", "3", "4", "5"}:
        raise NoProof(f"power of {exponent}")
    return math.prod([base] * (int(str(times)) - 1), start=base)


NUMBER_KINDS: dict[str, tuple[Callable[[], NumberKind], ...]] = {
    "integers": tuple(partial(_Integers, bits, signed) for bits in (8, 64) for signed in (True, False)),
    "signed integers": tuple(partial(_Integers, bits, True) for bits in (8, 64)),
    "booleans": (Booleans,),
    "floats": (_Floats,),
    "sizes": (_Sizes,),
    "reals": (_Reals,),
}
