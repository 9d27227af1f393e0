"""Quantized operators: integers with a scale and a zero point."""

from __future__ import annotations

from workbench.ir.types import DataType
from workbench.ops.contract import Call, operator, per_output
from workbench.ops.convolution import conv_flops, integer_convolution
from workbench.ops.dtypes import torch_dtype
from workbench.ops.fusion_kinds import BROADCAST, FUSABLE, OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.matmul import matmul_flops, matmul_with_zero_points
from workbench.ops.narrow_floats import to_float4, to_float8
from workbench.ops.permutation.kinds import AGNOSTIC_WITH_SCALARS
from workbench.ops.permutation.products import QLINEAR_MATMUL
from workbench.ops.permutation.remapped import QUANTIZE
from workbench.ops.sensitive import sensitive


def _spread(call: Call, parameter: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A scale or zero point broadcast to `x`: one for the tensor, one per entry of the axis, or one per block."""
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
    if element_type in (DataType.INT4, DataType.INT2):
        bits = element_type.bitwidth
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if element_type in (DataType.UINT4, DataType.UINT2):
        return 0, (1 << element_type.bitwidth) - 1
    limits = torch.iinfo(dtype)
    return limits.min, limits.max


def saturated(x: torch.Tensor, dtype: torch.dtype, element_type: DataType | None = None) -> torch.Tensor:
    """Round, halves to even, and saturate to the range of the type; NaN becomes its least number."""
    low, high = _bounds(element_type, dtype)
    rounded = x.round().nan_to_num(low).clamp(low, high)
    return rounded.to(torch.int32).to(dtype)


@operator("QuantizeLinear", category="quantization", layout=QUANTIZE, fusion=BROADCAST, flops=per_output(2))
def quantize_linear(call, x, scale, zero=None):
    element_type = DataType(call.attr("output_dtype")) if call.attr("output_dtype") else None
    if element_type is None and zero is None:
        element_type = DataType.UINT8
    dtype = zero.dtype if element_type is None else torch_dtype(element_type)
    precision = torch_dtype(call.attr("precision")) if call.attr("precision") else scale.dtype
    scaled = x.to(precision) / _spread(call, scale.to(precision), x)
    if element_type == DataType.FLOAT4E2M1:
        return to_float4(scaled)
    if dtype.is_floating_point:
        return to_float8(scaled, dtype, call.attr("saturate"))
    if zero is None:
        return saturated(scaled, dtype, element_type)
    whole = scaled.round().to(torch.promote_types(precision, torch.float32))  # float16 cannot hold every zero point
    return saturated(whole + _spread(call, zero, x).to(whole.dtype), dtype, element_type)


@operator("DequantizeLinear", category="quantization", layout=QUANTIZE, fusion=BROADCAST, flops=per_output(2))
def dequantize_linear(call, x, scale, zero=None):
    """Exact differences: integers are subtracted before they become floats."""
    if zero is not None and not x.dtype.is_floating_point:
        x = x.to(torch.int32) - _spread(call, zero, x).to(torch.int32)
    wanted = call.attr("output_dtype")
    return (x.to(scale.dtype) * _spread(call, scale, x)).to(torch_dtype(wanted) if wanted else scale.dtype)


@operator(
    "DynamicQuantizeLinear", category="quantization", layout=AGNOSTIC_WITH_SCALARS, fusion=OPAQUE, flops=per_output(4)
)
def dynamic_quantize_linear(call, x):
    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = (high - low) / 255
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    zero = (-low / scale).round().clamp(0, 255)
    return saturated((x / scale).round() + zero, torch.uint8), scale, zero.to(torch.uint8)


@operator("QLinearMatMul", category="quantization", layout=QLINEAR_MATMUL, fusion=FUSABLE, flops=matmul_flops)
def qlinear_matmul(call, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    product = matmul_with_zero_points(a, b, a_zero, b_zero).to(torch.float32)
    row_scale = a_scale.unsqueeze(-1) if a_scale.dim() == 1 and a.dim() > 1 else a_scale
    return saturated((product * (row_scale * b_scale / y_scale)).round() + y_zero.float(), y_zero.dtype)


def _qlinear_conv_flops(node, inputs, outputs):
    return conv_flops(node, [inputs[0], inputs[3], inputs[8] if len(inputs) > 8 else None], outputs)


@sensitive("QLinearConv", category="quantization", fusion=FUSABLE, flops=_qlinear_conv_flops)
def qlinear_conv(call, x, x_scale, x_zero, weight, weight_scale, weight_zero, y_scale, y_zero, bias=None):
    total = integer_convolution(call, x, weight, x_zero, weight_zero)
    view = (-1, *(1,) * (x.dim() - 2))
    if bias is not None:
        total = total + bias.reshape(view)
    factor = (x_scale * weight_scale / y_scale).reshape(view)
    return saturated((total.float() * factor).round() + y_zero.float(), y_zero.dtype)
