"""Quantized operators: integers with a scale and a zero point."""

from __future__ import annotations

from workbench.ir import Node
from workbench.ir.types import DataType
from workbench.ops.contract import Call, Types, operator, per_output
from workbench.ops.convolution import conv_flops, integer_convolution
from workbench.ops.dtypes import torch_dtype
from workbench.ops.fusion_kinds import BROADCAST, FUSABLE, OPAQUE
from workbench.ops.layout_sensitive import layout_sensitive_operator
from workbench.ops.lazy import torch
from workbench.ops.matmul import matmul_flops, matmul_with_zero_points
from workbench.ops.narrow_floats import to_float4, to_float8
from workbench.ops.permutation.kinds import AGNOSTIC_WITH_SCALARS
from workbench.ops.permutation.permuted_attributes import QUANTIZE
from workbench.ops.permutation.products import QLINEAR_MATMUL


def _aligned(call: Call, parameter: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A scale or zero point that broadcasts to x: one for the tensor, one per index of the axis, or one per block."""
    if parameter.dim() == 0 or (parameter.numel() == 1 and x.dim() != parameter.dim()):
        return parameter.reshape(())
    axis = call.attr("axis") % x.dim()
    block = call.attr("block_size")
    if block:
        return parameter.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    view = [1] * x.dim()
    view[axis] = -1
    return parameter.reshape(view)


def _bounds(element_type: DataType | None, dtype: torch.dtype) -> tuple[int, int]:
    """The least and the greatest number of the element type; None: of the dtype."""
    if element_type in (DataType.INT4, DataType.INT2):
        bits = element_type.bitwidth
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if element_type in (DataType.UINT4, DataType.UINT2):
        return 0, (1 << element_type.bitwidth) - 1
    limits = torch.iinfo(dtype)
    return limits.min, limits.max


def saturated(x: torch.Tensor, dtype: torch.dtype, element_type: DataType | None = None) -> torch.Tensor:
    """Round, halves to even, and saturate to the range of the type; NaN becomes the least number of the type."""
    low, high = _bounds(element_type, dtype)
    rounded = x.round().nan_to_num(low).clamp(low, high)
    return rounded.to(torch.int32).to(dtype)


@operator("QuantizeLinear", category="quantization", layout=QUANTIZE, fusion=BROADCAST, flops=per_output(2))
def quantize_linear(call: Call, x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None = None) -> torch.Tensor:
    """round(x / scale) + zero, saturated; one scale for all, or one per index of the axis, or one per block.

    x: [*D], scale: [] or [S] or [*B], zero: [] or [S] or [*B] -> [*D]
    """
    element_type = DataType(call.attr("output_dtype")) if call.attr("output_dtype") else None
    if element_type is not None:
        dtype = torch_dtype(element_type)
    elif zero is not None:
        dtype = zero.dtype
    else:
        element_type, dtype = DataType.UINT8, torch.uint8
    precision = torch_dtype(call.attr("precision")) if call.attr("precision") else scale.dtype
    scaled = x.to(precision) / _aligned(call, scale.to(precision), x)
    if element_type == DataType.FLOAT4E2M1:
        return to_float4(scaled)
    if dtype.is_floating_point:
        return to_float8(scaled, dtype, call.attr("saturate"))
    if zero is None:
        return saturated(scaled, dtype, element_type)
    wide = scaled.round().to(torch.promote_types(precision, torch.float32))  # float16 cannot hold every zero point
    return saturated(wide + _aligned(call, zero, x).to(wide.dtype), dtype, element_type)


@operator("DequantizeLinear", category="quantization", layout=QUANTIZE, fusion=BROADCAST, flops=per_output(2))
def dequantize_linear(
    call: Call, x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None = None
) -> torch.Tensor:
    """(x - zero) * scale; the difference of integers is exact, and float16 holds only the product.

    x: [*D], scale: [] or [S] or [*B], zero: [] or [S] or [*B] -> [*D]
    """
    if zero is not None and not x.dtype.is_floating_point:
        x = x.to(torch.int32) - _aligned(call, zero, x).to(torch.int32)
    output_dtype = call.attr("output_dtype")
    dtype = torch_dtype(output_dtype) if output_dtype else scale.dtype
    wide = torch.promote_types(scale.dtype, torch.float32)
    return (x.to(wide) * _aligned(call, scale, x).to(wide)).to(dtype)


@operator(
    "DynamicQuantizeLinear", category="quantization", layout=AGNOSTIC_WITH_SCALARS, fusion=OPAQUE, flops=per_output(4)
)
def dynamic_quantize_linear(call: Call, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x: [*D] -> y: [*D], scale: [], zero: []"""
    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = (high - low) / 255
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    zero = (-low / scale).round().clamp(0, 255)
    return saturated((x / scale).round() + zero, torch.uint8), scale, zero.to(torch.uint8)


@operator("QLinearMatMul", category="quantization", layout=QLINEAR_MATMUL, fusion=FUSABLE, flops=matmul_flops)
def qlinear_matmul(
    call: Call,
    a: torch.Tensor,
    a_scale: torch.Tensor,
    a_zero: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    b_zero: torch.Tensor,
    y_scale: torch.Tensor,
    y_zero: torch.Tensor,
) -> torch.Tensor:
    """The product of the dequantized operands, quantized. Scales and zero points of a row or a column are vectors.

    a: [*B, M, K], a_scale: [] or [M] or [*B, M, 1], a_zero: [] or [M] or [*B, M, 1],
        b: [*B, K, N], b_scale: [] or [N] or [*B, 1, N], b_zero: [] or [N] or [*B, 1, N] -> [*B, M, N]
    """
    product = matmul_with_zero_points(a, b, a_zero, b_zero).to(torch.float32)
    row_scale = a_scale.unsqueeze(-1) if a_scale.dim() == 1 and a.dim() > 1 else a_scale
    return saturated((product * (row_scale * b_scale / y_scale)).round() + y_zero.float(), y_zero.dtype)


def _qlinear_conv_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
    return conv_flops(node, [inputs[0], inputs[3], inputs[8] if len(inputs) > 8 else None], outputs)


@layout_sensitive_operator("QLinearConv", category="quantization", fusion=FUSABLE, flops=_qlinear_conv_flops)
def qlinear_conv(
    call: Call,
    x: torch.Tensor,
    x_scale: torch.Tensor,
    x_zero: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    weight_zero: torch.Tensor,
    y_scale: torch.Tensor,
    y_zero: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """The convolution of the dequantized operands, quantized; the bias counts units of x_scale * weight_scale.

    x: [N, C, *D], weight: [M, C / group, *K], weight_scale: [] or [M], weight_zero: [] or [M], bias: [M] -> [N, M, *E]
    """
    total = integer_convolution(call, x, weight, x_zero, weight_zero)
    view = (-1, *(1,) * (x.dim() - 2))
    if bias is not None:
        total = total + bias.reshape(view)
    factor = (x_scale * weight_scale / y_scale).reshape(view)
    return saturated((total.float() * factor).round() + y_zero.float(), y_zero.dtype)
