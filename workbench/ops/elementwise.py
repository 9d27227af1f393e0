"""Elementwise operators, whose operands are broadcast: arithmetic, comparisons, logic, casts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce, wraps
from typing import TypeAlias

import numpy as np

from workbench.ir.types import DataType
from workbench.ops.contract import Call, operator, per_output
from workbench.ops.dtypes import UnsupportedByTorch, torch_dtype
from workbench.ops.fusion_kinds import BROADCAST, ELEMENTWISE, FusionKind
from workbench.ops.lazy import torch
from workbench.ops.narrow_floats import to_float4, to_float8
from workbench.ops.permutation.kinds import AGNOSTIC, AGNOSTIC_FIRST, Layout

_Run: TypeAlias = Callable[..., "torch.Tensor"]


@cache
def _unsigned() -> frozenset[torch.dtype]:
    """Element types that torch stores, but for which it lacks most arithmetic."""
    return frozenset({torch.uint16, torch.uint32, torch.uint64})


def _low_bits(x: torch.Tensor) -> torch.Tensor:
    """Convert to int64, in which sums, products and bitwise results have the right low bits."""
    return x.to(torch.int64)


def _numbers(x: torch.Tensor) -> torch.Tensor:
    """Convert to int64, for results that depend on all bits of a number."""
    wide = x.to(torch.int64)
    if x.dtype == torch.uint64 and bool((wide < 0).any()):
        raise UnsupportedByTorch("torch cannot compute with uint64 numbers of 2^63 or more")
    return wide


def _elementwise(
    op: str,
    layout: Layout = AGNOSTIC,
    fusion: FusionKind = BROADCAST,
    compares: bool = False,
    widen: Callable[[torch.Tensor], torch.Tensor] = _numbers,
) -> Callable[[_Run], _Run]:
    """Register a function; `widen` converts operands of wide unsigned integers to int64.

    compares: whether the result keeps its type (bool); else it is converted back.
    """

    def register(run: _Run) -> _Run:
        @wraps(run)
        def safe(call: Call, first: torch.Tensor, *others: torch.Tensor | None) -> torch.Tensor:
            if first.dtype not in _unsigned():
                return run(call, first, *others)
            result = run(call, widen(first), *(None if x is None else widen(x) for x in others))
            return result if compares else result.to(first.dtype)

        return operator(op, category="elementwise", layout=layout, fusion=fusion, flops=per_output(1))(safe)

    return register


# ---- one operand -----------------------------------------------------------------

UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "isnan",
    "Log": "log",
    "Neg": "neg",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Round": "round",  # halves to even, as in ONNX
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
}


def _torch_unary(name: str) -> _Run:
    """The tensor's method of that name, which Python finds sooner than torch's function."""
    return lambda call, x: getattr(x, name)()


for _op, _name in UNARY.items():
    _elementwise(_op, fusion=ELEMENTWISE)(_torch_unary(_name))


@_elementwise("Sign", fusion=ELEMENTWISE)
def sign(call: Call, x: torch.Tensor) -> torch.Tensor:
    """The sign of NaN is NaN; in torch it is 0."""
    return torch.where(x.isnan(), x, x.sign())


@_elementwise("BitwiseNot", fusion=ELEMENTWISE, widen=_low_bits)
def bitwise_not(call: Call, x: torch.Tensor) -> torch.Tensor:
    return torch.bitwise_not(x)


@operator("Identity", category="elementwise", layout=AGNOSTIC, fusion=ELEMENTWISE)
def identity(call: Call, x: torch.Tensor) -> torch.Tensor:
    return x


@_elementwise("IsInf", fusion=ELEMENTWISE)
def is_inf(call: Call, x: torch.Tensor) -> torch.Tensor:
    negative, positive = call.attr("detect_negative"), call.attr("detect_positive")
    if negative and positive:
        return torch.isinf(x)
    if positive:
        return torch.isposinf(x)
    return torch.isneginf(x) if negative else torch.zeros_like(x, dtype=torch.bool)


# ---- two operands ------------------------------------------------------------------

BINARY = {
    "Add": "add",
    "And": "logical_and",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Mul": "mul",
    "Or": "logical_or",
    "Sub": "sub",
    "Xor": "logical_xor",
}
_COMPARISONS = {"Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le"}


def _torch_binary(name: str) -> _Run:
    return lambda call, a, b: getattr(a, name)(b)


for _op, _name in BINARY.items():
    _elementwise(_op, widen=_low_bits)(_torch_binary(_name))
for _op, _name in _COMPARISONS.items():
    _elementwise(_op, compares=True, widen=_low_bits if _op == "Equal" else _numbers)(_torch_binary(_name))


@_elementwise("Div")
def div(call: Call, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Quotients of integers are truncated towards zero, as in C."""
    if a.dtype.is_floating_point:
        return a.div(b)
    return torch.div(a, b, rounding_mode="trunc")


@_elementwise("Mod")
def mod(call: Call, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Floats are computed in float64, in which torch's intermediate quotient does not overflow."""
    if not call.attr("fmod"):
        return torch.remainder(a, b)
    if not a.dtype.is_floating_point:
        return torch.fmod(a, b)
    return torch.fmod(a.double(), b.double()).to(a.dtype)


@_elementwise("Pow")
def power(call: Call, base: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """The result has the type of the base."""
    if base.dtype == exponent.dtype:
        return torch.pow(base, exponent)
    if base.dtype.is_floating_point:
        return torch.pow(base, exponent.to(base.dtype))
    return torch.pow(base.double(), exponent.double()).to(base.dtype)


@_elementwise("BitShift")
def bit_shift(call: Call, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    if call.attr("direction") == "LEFT":
        return torch.bitwise_left_shift(x, count)
    return torch.bitwise_right_shift(x, count)


# ---- any number of operands -----------------------------------------------------------


@_elementwise("Max")
def maximum(call: Call, *operands: torch.Tensor) -> torch.Tensor:
    return reduce(torch.maximum, operands)


@_elementwise("Min")
def minimum(call: Call, *operands: torch.Tensor) -> torch.Tensor:
    return reduce(torch.minimum, operands)


@_elementwise("Sum")
def add_all(call: Call, *operands: torch.Tensor) -> torch.Tensor:
    return reduce(torch.add, operands)


@_elementwise("Mean")
def mean(call: Call, *operands: torch.Tensor) -> torch.Tensor:
    return reduce(torch.add, operands) / len(operands)


@operator("Where", category="elementwise", layout=AGNOSTIC, fusion=BROADCAST, flops=per_output(1))
def where(call: Call, condition: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where(condition, a, b)


@_elementwise("Clip", layout=AGNOSTIC_FIRST)
def clip(
    call: Call, x: torch.Tensor, low: torch.Tensor | None = None, high: torch.Tensor | None = None
) -> torch.Tensor:
    if low is None and high is None:
        return x
    return torch.clamp(x, low, high)


# ---- types -------------------------------------------------------------------------------


@operator("Cast", category="elementwise", layout=AGNOSTIC, fusion=ELEMENTWISE)
def cast(call: Call, x: torch.Tensor | np.ndarray) -> torch.Tensor:
    return _converted(x, call.attr("to"), call.attr("saturate"), call.attr("round_mode"))


@operator("BitCast", category="elementwise", layout=AGNOSTIC, fusion=ELEMENTWISE)
def bit_cast(call: Call, x: torch.Tensor) -> torch.Tensor:
    """In a run with narrower floats the operand is first converted back to float32."""
    dtype, bits = torch_dtype(call.attr("to")), DataType(call.attr("to")).bitwidth
    if bits == 32 and x.dtype in (torch.float16, torch.bfloat16):  # BitCast keeps the width, so it was float32
        x = x.float()
    if bits < 8:
        raise UnsupportedByTorch("torch stores elements of 2 and 4 bits in wider ones")
    if bits != 8 * x.dtype.itemsize:
        raise UnsupportedByTorch(
            f"BitCast needs elements of equal width, not of {8 * x.dtype.itemsize} and {bits} bits"
        )
    return x.view(dtype)


@operator("CastLike", category="elementwise", layout=AGNOSTIC_FIRST, fusion=ELEMENTWISE)
def cast_like(call: Call, x: torch.Tensor | np.ndarray, like: torch.Tensor | np.ndarray) -> torch.Tensor:
    """x in the element type of `like`, whose shape does not matter.

    x: [*D], like: [*E] -> [*D]
    """
    if isinstance(x, np.ndarray) or isinstance(like, np.ndarray):
        raise UnsupportedByTorch("torch has no strings")
    if call.attr("to"):  # a 2- or 4-bit type, which the tensor's dtype does not show
        return _converted(x, call.attr("to"), 1, "up")
    if like.dtype.itemsize == 1 and like.dtype.is_floating_point:
        return to_float8(x, like.dtype, call.attr("saturate"), call.attr("round_mode"))
    return x.to(like.dtype)


def _converted(x: torch.Tensor | np.ndarray, element_type: int, saturate: int, round_mode: str) -> torch.Tensor:
    """x in the element type: floats are truncated towards zero to integers, nonzero numbers are true."""
    if isinstance(x, np.ndarray):
        raise UnsupportedByTorch("torch has no strings")
    if element_type == DataType.FLOAT4E2M1:
        return to_float4(x)
    dtype = torch_dtype(element_type)
    if dtype.is_floating_point and dtype.itemsize == 1:
        return to_float8(x, dtype, saturate, round_mode)
    if element_type in (DataType.INT4, DataType.UINT4, DataType.INT2, DataType.UINT2):
        return _wrapped(x.to(torch.int32), DataType(element_type)).to(dtype)
    return x.to(dtype)


def _wrapped(x: torch.Tensor, element_type: DataType) -> torch.Tensor:
    """The low bits of `x`, as the number that a 2- or 4-bit integer makes of them."""
    bits = element_type.bitwidth
    low = x & ((1 << bits) - 1)
    if element_type in (DataType.UINT4, DataType.UINT2):
        return low
    half = 1 << (bits - 1)
    return (low ^ half) - half
