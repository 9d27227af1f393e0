"""Laws of rules with numbers in them: what is shown where z3 is not installed. It refutes, and proves nothing."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.rewrite import Exactness
from workbench.rewrite.patterns.laws import Law, read_laws

_SAMPLES = 4000
_TRUTHS = frozenset("pqr")
_RELATIVE = 1e-6  # of numbers that stand for reals
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -3.25, 7.0, np.nan, np.inf, -np.inf, 1e-45, 3.4e38, -3.4e38)
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "exp": np.exp,
    "floor": np.floor,
    "log": np.log,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "pow": np.power,
    "reciprocal": np.reciprocal,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
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


def _refuted(law: Law, kind: str, dtype: np.dtype[Any], pool: np.ndarray) -> str:
    """Numbers for which the sides differ, as the end of a sentence; "" if none was met. Raises _NotSampledError."""
    trees = [ast.parse(side, mode="eval").body for side in (*law.sides, law.condition or "True")]
    names = sorted({part.id for tree in trees for part in ast.walk(tree) if isinstance(part, ast.Name)} - {*_FUNCTIONS})
    if set(names) <= _TRUTHS and dtype != np.bool_:
        raise _NotSampledError
    random = np.random.default_rng(0)
    given = {
        name: random.integers(0, 2, _SAMPLES).astype(bool) if name in _TRUTHS else random.choice(pool, _SAMPLES)
        for name in names
    }
    with np.errstate(all="ignore"):
        left, *others, condition = [_computed(tree, given, dtype) for tree in trees]
        for right in others:
            differs = np.broadcast_to(condition & ~_is_same(left, right, kind), _SAMPLES)
            if differs.any():
                at = int(np.argmax(differs))
                values = ", ".join(f"{name} = {given[name][at]}" for name in names)
                first, second = (np.broadcast_to(side, _SAMPLES)[at] for side in (left, right))
                return f"with {values} it says {first} == {second}"
    return ""


def _numbers(kind: str) -> Iterator[tuple[np.dtype[Any], np.ndarray]]:
    """Element types that stand for a kind of numbers, with the numbers from which is drawn."""
    random = np.random.default_rng(1)
    if kind in ("integers", "signed integers"):
        for dtype in (np.int8, np.int64) if kind == "signed integers" else (np.int8, np.uint8, np.int64):
            info = np.iinfo(dtype)
            yield np.dtype(dtype), np.array([0, 1, 2, 3, 7, info.max, info.min, info.min + 1, 100], dtype)
    elif kind == "booleans":
        yield np.dtype(np.bool_), np.array([True, False])
    elif kind == "sizes":
        yield np.dtype(np.int64), np.arange(13)
    elif kind == "floats":
        yield np.dtype(np.float32), np.array([*_FLOATS, *random.standard_normal(8)], np.float32)
    else:
        yield np.dtype(np.float64), np.array([0.0, 1.0, -1.0, 2.0, 0.5, *random.standard_normal(20)])


def _is_same(left: np.ndarray, right: np.ndarray, kind: str) -> np.ndarray:
    """Where two sides are equal; for reals, up to rounding, and where both are numbers."""
    if kind == "reals" and np.asarray(left).dtype.kind == "f":
        return np.asarray(np.isclose(left, right, rtol=_RELATIVE) | ~np.isfinite(left) | ~np.isfinite(right))
    same = np.asarray(left == right)
    if np.asarray(left).dtype.kind == "f":
        same = (same & (np.signbit(left) == np.signbit(right))) | (np.isnan(left) & np.isnan(right))
    return same


def _computed(tree: ast.AST, given: Mapping[str, np.ndarray], dtype: np.dtype[Any]) -> Any:
    """The value of an expression for all samples. Raises _NotSampledError."""

    def value(part: ast.AST) -> Any:
        return _computed(part, given, dtype)

    match tree:
        case ast.Name(name):
            return given[name]
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
        case ast.UnaryOp(kind, operand) if type(kind) in _OPERATORS:
            return _OPERATORS[type(kind)](value(operand))
        case ast.BoolOp(joined, parts):
            joins = np.logical_and if isinstance(joined, ast.And) else np.logical_or
            return joins.reduce(np.broadcast_arrays(*map(value, parts)))
        case ast.BinOp(_, ast.Div() | ast.Pow(), _) if dtype.kind != "f":
            raise _NotSampledError
        case ast.BinOp(left, kind, right) if type(kind) in _OPERATORS and dtype.kind != "b":
            return _OPERATORS[type(kind)](value(left), value(right))
        case ast.Compare(left, [kind], [right]) if type(kind) in _OPERATORS:
            return _OPERATORS[type(kind)](value(left), value(right))
        case ast.Call(ast.Name("where" | "xor" as name), operands):
            return _FUNCTIONS[name](*map(value, operands))
        case ast.Call(ast.Name(name), operands) if name in _FUNCTIONS and dtype.kind == "f":
            return _FUNCTIONS[name](*map(value, operands))
        case ast.Call(ast.Name("relu" | "abs" | "min" | "max" | "sign" as name), operands) if dtype.kind == "i":
            return _FUNCTIONS[name](*map(value, operands))
    raise _NotSampledError
