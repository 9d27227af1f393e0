"""Random nodes of the operators that work element by element, or on whole tensors."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.carrying import Case, Draw, Fixed, row

RANK = ("raises the rank", "has another rank than the permutation", "no operand of")


# exact=False: ONNX Runtime computes such functions by vectors, and the last few elements in another way.
@row("Abs Ceil Floor Identity LeakyRelu Neg Relu Round Sign Shrink ThresholdedRelu HardSigmoid HardSwish Reciprocal")
@row("Atan Asinh Cos Sin Sinh Cosh Softsign", exact=False)
@row("Celu Elu Erf Exp Gelu Mish Selu Sigmoid Softplus Tan Tanh workbench.Silu", exact=False)
def _unary(draw: Draw, op: str) -> Case:
    attributes = {"LeakyRelu": {"alpha": 0.3}, "Gelu": {"approximate": "tanh"}, "Shrink": {"bias": 0.1, "lambd": 0.3}}
    return Case([draw.normal(*draw.dims())], attributes.get(op, {}))


@row("Acos Asin Atanh", exact=False)
def _of_small_numbers(draw: Draw, op: str) -> Case:
    return Case([draw.between(-0.9, 0.9, *draw.dims())])


@row("Sqrt", exact=True)
@row("Acosh Log", exact=False)
def _of_large_numbers(draw: Draw, op: str) -> Case:
    return Case([draw.between(1, 5, *draw.dims())])


@row("com.microsoft.Gelu com.microsoft.QuickGelu")
def _of_onnx_runtime(draw: Draw, op: str) -> Case:
    return Case([draw.normal(*draw.dims())])


@row("IsInf IsNaN")
def _of_odd_numbers(draw: Draw, op: str) -> Case:
    x = draw.normal(*draw.dims())
    x[draw.flags(*x.shape)] = draw.one_of(np.inf, -np.inf, np.nan)
    return Case([x], {"detect_negative": draw.one_of(0, 1)} if op == "IsInf" else {})


@row("Not")
def _of_flags(draw: Draw, op: str) -> Case:
    return Case([draw.flags(*draw.dims())])


@row("BitwiseNot")
def _of_bits(draw: Draw, op: str) -> Case:
    return Case([draw.integers(0, 255, *draw.dims(), dtype=np.uint8)])


@row("Cast")
def _cast(draw: Draw, op: str) -> Case:
    return Case([draw.normal(*draw.dims())], {"to": draw.one_of(TensorProto.INT32, TensorProto.BOOL)})


@row("CastLike", "has another rank than the permutation")
def _cast_like(draw: Draw, op: str) -> Case:
    return Case([draw.normal(*draw.dims()), draw.integers(0, 2, *draw.dims(0, 4))])


@row("Clip")
def _clip(draw: Draw, op: str) -> Case:
    low, high = np.array(-0.5, np.float32), np.array(0.5, np.float32)
    bounds = draw.one_of([Fixed(low), Fixed(high)], [low], [None, high], [])
    return Case([draw.normal(*draw.dims()), *bounds])


@row("Dropout", "drops elements at random")
def _dropout(draw: Draw, op: str) -> Case:
    rest = draw.one_of([], [Fixed(np.float32(0.3))], [None, Fixed(np.array(draw.one_of(True, False)))])
    return Case([draw.normal(*draw.dims()), *rest], outputs=draw.one_of(1, 2))


@row("DynamicQuantizeLinear")
def _dynamic_quantize(draw: Draw, op: str) -> Case:
    return Case([draw.normal(*draw.dims())], outputs=3)


@row("Size")
def _size(draw: Draw, op: str) -> Case:
    return Case([draw.normal(*draw.dims())])


# ---- several operands, of several ranks ------------------------------------------------


def _partner(draw: Draw, dims: list[int]) -> list[int]:
    """Dims that broadcast with `dims`, and raise no rank."""
    dims = [draw.one_of(d, d, 1) for d in dims]
    return dims[draw.one_of(0, 0, 0, *range(len(dims) + 1)) :]


def _several(draw: Draw, count: int, make) -> Case:
    """One has all dims; the others broadcast, some are constants."""
    dims = draw.dims()
    arrays = [make(*(dims if i == 0 else _partner(draw, dims))) for i in range(count)]
    operands = [a if i == 0 else draw.one_of(a, Fixed(a)) for i, a in enumerate(arrays)]
    swap = int(draw.random.integers(count))
    operands[0], operands[swap] = operands[swap], operands[0]
    return Case(operands, rank=len(dims))


@row("Add Sub Mul Div Less Greater LessOrEqual GreaterOrEqual Equal", *RANK)
def _arithmetic(draw: Draw, op: str) -> Case:
    return _several(draw, 2, draw.normal)


@row("Mod", *RANK)
def _mod(draw: Draw, op: str) -> Case:
    return _several(draw, 2, lambda *shape: draw.integers(1, 9, *shape))


@row("Pow", *RANK, exact=False)
def _pow(draw: Draw, op: str) -> Case:
    return _several(draw, 2, lambda *shape: draw.between(0.5, 2, *shape))


@row("And Or Xor", *RANK)
def _logic(draw: Draw, op: str) -> Case:
    return _several(draw, 2, draw.flags)


@row("BitShift BitwiseAnd BitwiseOr BitwiseXor", *RANK)
def _bits(draw: Draw, op: str) -> Case:
    case = _several(draw, 2, lambda *shape: draw.integers(0, 7, *shape, dtype=np.uint8))
    return Case(case.operands, {"direction": draw.one_of("LEFT", "RIGHT")} if op == "BitShift" else {}, rank=case.rank)


@row("Max Min Sum Mean", *RANK)
def _any_number(draw: Draw, op: str) -> Case:
    return _several(draw, draw.one_of(1, 2, 3), draw.normal)


@row("PRelu", *RANK)
def _prelu(draw: Draw, op: str) -> Case:
    dims = draw.dims()
    slope = draw.normal(*_partner(draw, dims))
    return Case([draw.normal(*dims), draw.one_of(slope, Fixed(slope), Fixed(slope))])


@row("Where", *RANK)
def _where(draw: Draw, op: str) -> Case:
    dims = draw.dims()
    a, b = draw.normal(*_partner(draw, dims)), draw.normal(*_partner(draw, dims))
    condition = draw.flags(*_partner(draw, dims))
    operands = [draw.one_of(v, Fixed(v)) for v in (condition, a, b)]
    full = draw.one_of(0, 1, 2)
    operands[full] = draw.flags(*dims) if full == 0 else draw.normal(*dims)
    return Case(operands, rank=len(dims))
