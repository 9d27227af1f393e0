"""Laws of rules with numbers in them. It refutes, and proves nothing; z3 proves, where it is installed.

The special values of a kind are tried in all combinations, if a law has at most three variables. ONNX leaves open
which of two zeros Max, Min and Relu give, and ONNX Runtime gives now this one, now that. So a law of floats must hold
for every choice.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from workbench.rewrite import Exactness
from workbench.rewrite.patterns.laws import Law, read_laws

_SAMPLES = 4000  # drawn, beside the combinations
_COMBINED = 3  # variables at most of which all combinations are tried
_TRUTHS = frozenset("pqr")
_RELATIVE = 1e-6  # of numbers that stand for reals
_NOISE, _AMPLIFIED = 1e-13, 100  # a difference of reals counts if it is larger than what this noise does, so many times
_POSITIVE = (0.0, 1.0, 0.5, 3.25, 7.0, 88.0, 89.0, 104.0, 1e3)  # exp overflows above 88.7, and is 0 below -104
_FLOATS = (  # smallest and largest of those below the normal numbers, then of these
    *_POSITIVE,
    *(1e-45, 1.1754942e-38, 1.1754944e-38, 3.4028235e38, np.inf),
)
_EITHER = ((True, True), (True, False), (False, True), (False, False))
_TAKES_FIRST: Mapping[
    str, tuple[tuple[bool, bool], ...]
] = {  # of two zeros, if the first is the negative one, and if the second is; Relu compares with 0.0
    "max": _EITHER,
    "min": _EITHER,
    "relu": ((True, True), (False, True)),
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "exp": np.exp,
    "floor": np.floor,
    "log": np.log,
    "minus_zero": lambda *values: np.logical_or.reduce([(x == 0) & np.signbit(x) for x in values]),
    "neg": np.negative,
    "pow": np.power,
    "reciprocal": np.reciprocal,
    "round": np.round,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "where": np.where,
    "xor": np.logical_xor,
}
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Pow: np.power,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: np.logical_not,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class _NotSampledError(Exception):
    """The law has an operation that is not computed here."""


@dataclass(frozen=True)
class Sampled:
    """wrong: a sentence with the numbers that refute the law, or "". kinds: of the numbers with which it held."""

    wrong: str = ""
    kinds: tuple[str, ...] = ()


def kinds_asked(law: Law, exactness: Exactness) -> tuple[str, ...]:
    """The kinds of numbers for which a law must hold: its own, or those that its rule's exactness asks for."""
    return law.kinds or (("integers", "booleans", "floats") if exactness is Exactness.BIT_EXACT else ("reals",))


def sample_law(text: str, exactness: Exactness) -> Sampled:
    """The law with some thousand numbers of each kind. Raises ValueError if it is not valid."""
    held: list[str] = []
    for law in read_laws(text):
        for kind in kinds_asked(law, exactness):
            for dtype, pool in _numbers(kind):
                try:
                    wrong = _refuted(law, kind, dtype, pool)
                except _NotSampledError:
                    continue
                if wrong:
                    return Sampled(f"{text} is wrong for {kind}: {wrong}")
                held.append(kind)
    return Sampled(kinds=tuple(dict.fromkeys(held)))


def differs_with(law: Law, values: Mapping[str, float]) -> bool:
    """Whether the sides of a law of reals differ with these numbers by more than rounding, or only one is defined.

    False too where a side overflows, where the condition does not hold, or if it is not computed here.
    """
    trees = [ast.parse(side, mode="eval").body for side in (*law.sides, law.condition or "True")]
    names = {part.id for tree in trees for part in ast.walk(tree) if isinstance(part, ast.Name)} - {*_FUNCTIONS}
    wide = np.dtype(np.longdouble)  # in which exp overflows later
    samples = _Samples({name: np.array([values.get(name, 0.0)], wide) for name in names}, wide)
    try:
        with np.errstate(all="ignore"):
            left, *others, condition = samples.values(trees)
            for side, right in enumerate(others, 1):
                differs = ~_is_same(left, right, "reals") & ~samples.is_noise(trees[0], trees[side])
                one_defined = (np.isnan(left) & np.isfinite(right)) | (np.isfinite(left) & np.isnan(right))
                if bool((condition & (differs | one_defined)).all()):
                    return True
            return False
    except _NotSampledError:
        return False


def _refuted(law: Law, kind: str, dtype: np.dtype[Any], pool: np.ndarray) -> str:
    """Numbers for which the sides differ, as the end of a sentence; "" if none was met. Raises _NotSampledError."""
    trees = [ast.parse(side, mode="eval").body for side in (*law.sides, law.condition or "True")]
    words = {part.id for tree in trees for part in ast.walk(tree) if isinstance(part, ast.Name)}
    names = sorted(words - {*_FUNCTIONS, *_TAKES_FIRST})
    if set(names) <= _TRUTHS and dtype != np.bool_:
        raise _NotSampledError
    given = _given(names, pool)
    choosing = [name for name in _TAKES_FIRST if name in words and dtype.kind == "f"]
    for chosen in product(*(_TAKES_FIRST[name] for name in choosing)):
        samples = _Samples(given, dtype, dict(zip(choosing, chosen, strict=True)))
        with np.errstate(all="ignore"):
            left, *others, condition = samples.values(trees)
            for side, right in enumerate(others, 1):
                differs = condition & ~_is_same(left, right, kind)
                if kind == "reals" and differs.any():
                    differs &= ~samples.is_noise(trees[0], trees[side])
                if differs.any():
                    at = int(np.argmax(differs))
                    values = ", ".join(f"{name} = {given[name][at]}" for name in names)
                    free = f", for {' and '.join(choosing)} may give either zero" if left[at] == right[at] else ""
                    return f"with {values} it says {left[at]} == {right[at]}{free if choosing else ''}"
    return ""


def _given(names: list[str], pool: np.ndarray) -> dict[str, np.ndarray]:
    """Numbers for each variable: all combinations of few, then some that are drawn."""
    random = np.random.default_rng(0)
    pools = [np.array([True, False]) if name in _TRUTHS else pool for name in names]
    drawn = [random.choice(numbers, _SAMPLES) for numbers in pools]
    if len(names) <= _COMBINED:
        combined = [axis.ravel() for axis in np.meshgrid(*pools, indexing="ij")]
        drawn = [np.concatenate(parts) for parts in zip(combined, drawn, strict=True)]
    return dict(zip(names, drawn, strict=True))


def _numbers(kind: str) -> Iterator[tuple[np.dtype[Any], np.ndarray]]:
    """Element types that stand for a kind of numbers, with the numbers from which is drawn."""
    random = np.random.default_rng(1)
    if kind in ("integers", "signed integers"):
        for dtype in (np.int8, np.int64) if kind == "signed integers" else (np.int8, np.uint8, np.int64):
            info = np.iinfo(dtype)
            numbers = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1, 100]
            yield np.dtype(dtype), np.array([*numbers, *([-1, -2, -7] if info.min else [])], dtype)
    elif kind == "booleans":
        yield np.dtype(np.bool_), np.array([True, False])
    elif kind == "sizes":
        yield np.dtype(np.int64), np.arange(13)
    elif kind == "floats":
        specials = [np.nan, *_FLOATS, *(-number for number in _FLOATS)]
        yield np.dtype(np.float32), np.array([*specials, *random.standard_normal(4)], np.float32)
    else:
        specials = [2.0, *_POSITIVE, *(-number for number in _POSITIVE)]
        yield np.dtype(np.float64), np.array([*specials, *random.standard_normal(8)])


def _is_same(left: np.ndarray, right: np.ndarray, kind: str) -> np.ndarray:
    """Where two sides are equal; for reals, up to rounding, and where both are numbers."""
    if kind == "reals" and np.asarray(left).dtype.kind == "f":
        return np.asarray(np.isclose(left, right, rtol=_RELATIVE) | ~np.isfinite(left) | ~np.isfinite(right))
    same = np.asarray(left == right)
    if np.asarray(left).dtype.kind == "f":
        same = (same & (np.signbit(left) == np.signbit(right))) | (np.isnan(left) & np.isnan(right))
    return same


@dataclass(frozen=True)
class _Samples:
    """given: numbers of each variable. takes_first: which of two zeros an operation gives, as in _TAKES_FIRST."""

    given: Mapping[str, np.ndarray]
    dtype: np.dtype[Any]
    takes_first: Mapping[str, tuple[bool, bool]] = field(default_factory=dict)
    noise: np.random.Generator | None = None

    def values(self, trees: list[ast.expr]) -> list[np.ndarray]:
        """The value of each expression, one for each sample. Raises _NotSampledError."""
        size = max((len(numbers) for numbers in self.given.values()), default=1)
        return [np.broadcast_to(self._value(tree), size) for tree in trees]

    def is_noise(self, left: ast.expr, right: ast.expr) -> np.ndarray:
        """Where the sides differ by no more than what rounding in each operation may do, as where digits cancel."""
        was, moved = self.values([left, right]), np.zeros(1)
        for seed in range(3):
            noisy = _Samples(self.given, self.dtype, self.takes_first, np.random.default_rng(seed))
            for side, other in zip(was, noisy.values([left, right]), strict=True):
                moved = np.fmax(moved, np.abs(side - other))
        return np.asarray(np.abs(was[0] - was[1]) <= _AMPLIFIED * moved)

    def _value(self, tree: ast.AST) -> Any:
        found = self._computed(tree)
        if self.noise is None or isinstance(tree, ast.Name | ast.Constant) or np.asarray(found).dtype.kind != "f":
            return found
        return found * (1 + _NOISE * self.noise.uniform(-1, 1, np.shape(found)))

    def _computed(self, tree: ast.AST) -> Any:
        value, dtype = self._value, self.dtype
        match tree:
            case ast.Name(name):
                return self.given[name]
            case ast.Constant(bool() as truth):
                return np.bool_(truth)
            case ast.Constant(int() as number) if dtype.kind != "b":
                return dtype.type(number)
            case ast.Constant(float() as number) if dtype.kind == "f":
                return dtype.type(number)
            case ast.UnaryOp(ast.USub() | ast.Invert(), _) if dtype.kind == "b":
                raise _NotSampledError
            case ast.UnaryOp(ast.USub(), operand) if dtype.kind == "u" and not isinstance(operand, ast.Constant):
                raise _NotSampledError
            case ast.UnaryOp(ast.Invert(), _) if dtype.kind == "f":
                raise _NotSampledError
            case ast.UnaryOp(kind, operand) if type(kind) in _OPERATORS:
                return _OPERATORS[type(kind)](value(operand))
            case ast.BoolOp(joined, parts):
                joins = np.logical_and if isinstance(joined, ast.And) else np.logical_or
                return joins.reduce(np.broadcast_arrays(*map(value, parts)))
            case ast.BinOp(_, ast.Div() | ast.Pow(), _) if dtype.kind != "f":
                raise _NotSampledError
            case ast.BinOp(_, ast.BitAnd() | ast.BitOr() | ast.BitXor(), _) if dtype.kind == "f":
                raise _NotSampledError
            case ast.BinOp(left, kind, right) if type(kind) in _OPERATORS and dtype.kind != "b":
                return _OPERATORS[type(kind)](value(left), value(right))
            case ast.Compare(left, [kind], [right]) if type(kind) in _OPERATORS:
                return _OPERATORS[type(kind)](value(left), value(right))
            case ast.Call(ast.Name("where" | "xor" as name), operands):
                return _FUNCTIONS[name](*map(value, operands))
            case ast.Call(ast.Name("max" | "min" | "relu" as name), operands) if dtype.kind in "fi":
                return self._extreme(name, *map(value, operands))
            case ast.Call(ast.Name(name), operands) if name in _FUNCTIONS and dtype.kind == "f":
                return _FUNCTIONS[name](*map(value, operands))
            case ast.Call(ast.Name("abs" | "sign" as name), operands) if dtype.kind == "i":
                return _FUNCTIONS[name](*map(value, operands))
        raise _NotSampledError

    def _extreme(self, name: str, x: Any, y: Any = 0) -> Any:
        """Max, Min or Relu, with the zero that is chosen where both operands are zeros."""
        y = self.dtype.type(y) if name == "relu" else y
        found = np.minimum(x, y) if name == "min" else np.maximum(x, y)
        if name not in self.takes_first:
            return found
        if_first, if_second = self.takes_first[name]
        first = np.where(np.signbit(x), if_first, if_second)
        return np.where((x == 0) & (y == 0), np.where(first, x, y), found)
