"""ONNX Runtime's own operators on quantized operands, which its quantizer and its optimizer write.

Source: ONNX Runtime's contrib operators, https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from onnx import NodeProto, helper

from workbench.ir.permutation import channels_first, channels_last
from workbench.ops.contract import Call, FlopCount, OperatorFunctionT, StandIn, operator, per_output
from workbench.ops.dtypes import UnsupportedByTorch
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import F, torch
from workbench.ops.matmul import matmul_flops, matmul_with_zero_points
from workbench.ops.permutation.kinds import LAYOUT_BARRIER
from workbench.ops.pooling import average_pool
from workbench.ops.quantization import dynamic_quantize_linear, saturated
from workbench.ops.stand_ins import Nodes, attributes_of, call_of, like_operands, operand


def quantized(
    op: str, *, stand_in: StandIn, flops: FlopCount | None = None
) -> Callable[[OperatorFunctionT], OperatorFunctionT]:
    return operator(
        f"com.microsoft.{op}",
        category="quantization",
        layout=LAYOUT_BARRIER,
        fusion=OPAQUE,
        flops=flops,
        stand_in=stand_in,
    )


def _dequantize(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None) -> torch.Tensor:
    integers = x.to(torch.int32) if zero is None else x.to(torch.int32) - zero.to(torch.int32)
    return integers.to(torch.float32) * scale


def _quantize(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    """Quantize; without a zero point, to `dtype` with a zero point of 0."""
    if zero is None:
        return saturated(x / scale, dtype)
    return saturated((x / scale).round() + zero.float(), zero.dtype)


def _broadcast_types(node: NodeProto) -> list[NodeProto]:
    """The type of A in the broadcast shape of A and B. They are compared as floats, which opset 7 can."""
    nodes = Nodes(node)
    equal = nodes.add("Equal", [nodes.as_float(node.input[0]), nodes.as_float(node.input[3])])
    nodes.add("Where", [equal, node.input[0], node.input[3]], node.output[0])
    return nodes.nodes


@quantized("QLinearAdd", flops=per_output(5), stand_in=_broadcast_types)
def qlinear_add(
    call: Call,
    a: torch.Tensor,
    a_scale: torch.Tensor,
    a_zero: torch.Tensor | None,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    b_zero: torch.Tensor | None,
    y_scale: torch.Tensor,
    y_zero: torch.Tensor | None = None,
) -> torch.Tensor:
    return _quantize(_dequantize(a, a_scale, a_zero) + _dequantize(b, b_scale, b_zero), y_scale, y_zero, a.dtype)


@quantized("QLinearMul", flops=per_output(5), stand_in=_broadcast_types)
def qlinear_mul(
    call: Call,
    a: torch.Tensor,
    a_scale: torch.Tensor,
    a_zero: torch.Tensor | None,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    b_zero: torch.Tensor | None,
    y_scale: torch.Tensor,
    y_zero: torch.Tensor | None = None,
) -> torch.Tensor:
    return _quantize(_dequantize(a, a_scale, a_zero) * _dequantize(b, b_scale, b_zero), y_scale, y_zero, a.dtype)


@quantized("QLinearSigmoid", flops=per_output(8), stand_in=like_operands(0))
def qlinear_sigmoid(
    call: Call,
    x: torch.Tensor,
    x_scale: torch.Tensor,
    x_zero: torch.Tensor | None,
    y_scale: torch.Tensor,
    y_zero: torch.Tensor | None = None,
) -> torch.Tensor:
    return _quantize(torch.sigmoid(_dequantize(x, x_scale, x_zero)), y_scale, y_zero, x.dtype)


@quantized("QLinearLeakyRelu", flops=per_output(5), stand_in=like_operands(0))
def qlinear_leaky_relu(
    call: Call,
    x: torch.Tensor,
    x_scale: torch.Tensor,
    x_zero: torch.Tensor | None,
    y_scale: torch.Tensor,
    y_zero: torch.Tensor | None = None,
) -> torch.Tensor:
    return _quantize(F.leaky_relu(_dequantize(x, x_scale, x_zero), call.attr("alpha", 0.01)), y_scale, y_zero, x.dtype)


def _concat_types(node: NodeProto) -> list[NodeProto]:
    parts = list(node.input[2::3])
    return [helper.make_node("Concat", parts, node.output[:1], **attributes_of(node, "axis"))]


@quantized("QLinearConcat", flops=per_output(4), stand_in=_concat_types)
def qlinear_concat(call: Call, y_scale: torch.Tensor, y_zero: torch.Tensor, *parts: torch.Tensor) -> torch.Tensor:
    """parts: for each tensor itself, its scale and its zero point.

    [*A, M, *B], [], [], [*A, N, *B], [], [], ... -> [*A, M + N + ..., *B]
    """
    triples = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return torch.cat(
        [_quantize(_dequantize(*triple), y_scale, y_zero, y_zero.dtype) for triple in triples], call.attr("axis")
    )


def _where_types(node: NodeProto) -> list[NodeProto]:
    return [helper.make_node("Where", [node.input[i] for i in (0, 1, 4)], node.output[:1])]


@quantized("QLinearWhere", flops=per_output(4), stand_in=_where_types)
def qlinear_where(
    call: Call,
    condition: torch.Tensor,
    x: torch.Tensor,
    x_scale: torch.Tensor,
    x_zero: torch.Tensor,
    y: torch.Tensor,
    y_scale: torch.Tensor,
    y_zero: torch.Tensor,
    z_scale: torch.Tensor,
    z_zero: torch.Tensor,
) -> torch.Tensor:
    return torch.where(
        condition,
        _quantize(_dequantize(x, x_scale, x_zero), z_scale, z_zero, z_zero.dtype),
        _quantize(_dequantize(y, y_scale, y_zero), z_scale, z_zero, z_zero.dtype),
    )


def _pool_types(op_type: str, *names: str) -> StandIn:
    """A pooling of floats, quantized as the result is. With channels last the rank must follow from `kernel_shape`."""

    def types(node: NodeProto) -> list[NodeProto]:
        attributes = attributes_of(node, *names)
        is_channels_last = attributes_of(node, "channels_last").get("channels_last", 0)
        if is_channels_last and "kernel_shape" not in attributes:
            return []
        nodes = Nodes(node)
        rank = len(attributes.get("kernel_shape", ())) + 2
        x = nodes.as_float(node.input[0])
        if is_channels_last:
            x = nodes.add("Transpose", [x], perm=channels_first(rank))
        pooled = nodes.add(op_type, [x], **attributes)
        if is_channels_last:
            pooled = nodes.add("Transpose", [pooled], perm=channels_last(rank))
        zero = operand(node, 4) or operand(node, 2)
        nodes.add("QuantizeLinear", [v for v in (pooled, node.input[3], zero) if v], node.output[0])
        return nodes.nodes

    return types


_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def _refuse_channels_last(call: Call) -> None:
    if call.attr("channels_last", 0):
        raise UnsupportedByTorch("its operands are channels last, which is left to ONNX Runtime")


@quantized("QLinearAveragePool", stand_in=_pool_types("AveragePool", *_POOL))
def qlinear_average_pool(
    call: Call,
    x: torch.Tensor,
    x_scale: torch.Tensor,
    x_zero: torch.Tensor | None,
    y_scale: torch.Tensor,
    y_zero: torch.Tensor | None = None,
) -> torch.Tensor:
    """x: [N, C, *D] -> [N, C, *E]"""
    _refuse_channels_last(call)
    return _quantize(average_pool(call, _dequantize(x, x_scale, x_zero)), y_scale, y_zero, x.dtype)


@quantized("QLinearGlobalAveragePool", stand_in=_pool_types("GlobalAveragePool"))
def qlinear_global_average_pool(
    call: Call,
    x: torch.Tensor,
    x_scale: torch.Tensor,
    x_zero: torch.Tensor | None,
    y_scale: torch.Tensor,
    y_zero: torch.Tensor,
) -> torch.Tensor:
    """Each spatial axis becomes 1.

    x: [N, C, *D] -> [N, C, *E]
    """
    _refuse_channels_last(call)
    return _quantize(
        _dequantize(x, x_scale, x_zero).mean(tuple(range(2, x.dim())), keepdim=True), y_scale, y_zero, x.dtype
    )


def _gemm_types(node: NodeProto) -> list[NodeProto]:
    """A product of floats, quantized if the result has a scale."""
    nodes = Nodes(node)
    product = [nodes.as_float(node.input[0]), nodes.as_float(node.input[3])]
    attributes = attributes_of(node, "transA", "transB")
    scale, zero = operand(node, 7), operand(node, 8)
    if not scale:
        nodes.add("Gemm", product, node.output[0], **attributes)
    else:
        result = nodes.add("Gemm", product, **attributes)
        nodes.add("QuantizeLinear", [v for v in (result, scale, zero) if v], node.output[0])
    return nodes.nodes


@quantized("QGemm", stand_in=_gemm_types)
def qgemm(
    call: Call,
    a: torch.Tensor,
    a_scale: torch.Tensor,
    a_zero: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    b_zero: torch.Tensor,
    c: torch.Tensor | None = None,
    y_scale: torch.Tensor | None = None,
    y_zero: torch.Tensor | None = None,
) -> torch.Tensor:
    """alpha * A @ B + C, where C counts units of alpha * a_scale * b_scale; floats if the result has no scale.

    a: [M, K] or [K, M], b: [K, N] or [N, K], b_scale: [] or [N], b_zero: [] or [N],
        c: broadcast to [M, N] -> [M, N]
    """
    if a_zero.numel() > 1 or a_scale.numel() > 1:
        raise UnsupportedByTorch("a scale for each row of A is left to ONNX Runtime")
    wide_a, wide_b = a.double() - a_zero.reshape(()).double(), b.double()
    column_axis = 0 if call.attr("transB", 0) else 1
    zero = b_zero.reshape(()) if b_zero.numel() == 1 else b_zero.unsqueeze(1 - column_axis)
    wide_b = wide_b - zero.double()
    product = (wide_a.t() if call.attr("transA", 0) else wide_a) @ (wide_b.t() if call.attr("transB", 0) else wide_b)
    total = product if c is None else product + c.double()
    alpha: float = call.attr("alpha", 1.0)
    scale = alpha * a_scale.reshape(()) * (b_scale.reshape(()) if b_scale.numel() == 1 else b_scale)
    if y_scale is None:
        return (total.float() * scale).float()
    if y_zero is None:
        raise UnsupportedByTorch("a result without a zero point is left to ONNX Runtime")
    return saturated((total.float() * (scale / y_scale)).round() + y_zero.float(), y_zero.dtype)


def _float_product(node: NodeProto) -> list[NodeProto]:
    nodes = Nodes(node)
    nodes.add("MatMul", [nodes.as_float(node.input[0]), nodes.as_float(node.input[1])], node.output[0])
    return nodes.nodes


@quantized("MatMulIntegerToFloat", flops=matmul_flops, stand_in=_float_product)
def matmul_integer_to_float(
    call: Call,
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor,
    b_scale: torch.Tensor,
    a_zero: torch.Tensor | None = None,
    b_zero: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """The product of the dequantized operands, and the bias.

    a: [*A, M, K], b: [*A, K, N], b_scale: [] or [N], b_zero: [] or [N], bias: [N] -> [*A, M, N]
    """
    result = matmul_with_zero_points(a, b, a_zero, b_zero).float() * (a_scale * b_scale)
    return result if bias is None else result + bias


@quantized("DynamicQuantizeMatMul", flops=matmul_flops, stand_in=_float_product)
def dynamic_quantize_matmul(
    call: Call,
    a: torch.Tensor,
    b: torch.Tensor,
    b_scale: torch.Tensor,
    b_zero: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """A is quantized by its least and greatest element, multiplied, and made float again.

    a: [*A, M, K], b: [*A, K, N], b_scale: [] or [N], b_zero: [] or [N], bias: [N] -> [*A, M, N]
    """
    quantized_a, scale, zero = dynamic_quantize_linear(call, a)
    return matmul_integer_to_float(call, quantized_a, b, scale, b_scale, zero, b_zero, bias)


def _nbits_types(node: NodeProto) -> list[NodeProto]:
    """A product with a matrix of K by N."""
    sizes = attributes_of(node, "K", "N")
    nodes = Nodes(node)
    shape = nodes.add("Constant", [], value_ints=[sizes["K"], sizes["N"]])
    weights = nodes.add("CastLike", [nodes.add("ConstantOfShape", [shape]), node.input[0]])
    nodes.add("MatMul", [node.input[0], weights], node.output[0])
    return nodes.nodes


def _conv_types(node: NodeProto) -> list[NodeProto]:
    """ONNX's QLinearConv, between Transposes if the image is channels last."""
    attributes = attributes_of(node, "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    if not attributes_of(node, "channels_last").get("channels_last", 0):
        return [helper.make_node("QLinearConv", node.input, node.output, **attributes)]
    if "kernel_shape" not in attributes:
        return []
    nodes, rank = Nodes(node), len(attributes["kernel_shape"]) + 2
    x = nodes.add("Transpose", [node.input[0]], perm=channels_first(rank))
    result = nodes.add("QLinearConv", [x, *node.input[1:]], **attributes)
    nodes.add("Transpose", [result], node.output[0], perm=channels_last(rank))
    return nodes.nodes


def _max_pool_types(node: NodeProto) -> list[NodeProto]:
    names = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
    attributes, nodes = attributes_of(node, *names), Nodes(node)
    rank = len(attributes["kernel_shape"]) + 2
    x = nodes.add("Transpose", [node.input[0]], perm=channels_first(rank))
    nodes.add("Transpose", [nodes.add("MaxPool", [x], **attributes)], node.output[0], perm=channels_last(rank))
    return nodes.nodes


def _qattention_types(node: NodeProto) -> list[NodeProto]:
    """A third of the columns of input @ weights, as `_attention_types` in ort_fused.py, in floats.

    AveragePool only gives the shape [.., columns / 3].
    """
    nodes = Nodes(node)
    product = nodes.add("MatMul", [nodes.as_float(node.input[0]), nodes.as_float(node.input[1])])
    nodes.add("AveragePool", [product], node.output[0], kernel_shape=[3], strides=[3])
    return nodes.nodes


def _lstm_types(node: NodeProto) -> list[NodeProto]:
    nodes = [
        helper.make_node(
            "LSTM",
            [node.input[0], *(f"{node.output[0]}/stand_in/{i}" for i in (1, 2))],
            node.output,
            **attributes_of(node, "direction", "hidden_size"),
        )
    ]
    casts = [helper.make_node("Cast", [node.input[i]], [nodes[0].input[i]], to=1) for i in (1, 2)]
    return [*casts, *nodes]


def _by_ort(call: Call, *operands: torch.Tensor | None) -> NoReturn:
    raise UnsupportedByTorch("this quantized operator is left to ONNX Runtime")


for _op, _types in (
    ("MatMulNBits", _nbits_types),
    ("QLinearConv", _conv_types),
    ("QLinearSoftmax", like_operands(0)),
    ("NhwcMaxPool", _max_pool_types),
    ("QAttention", _qattention_types),
    ("DynamicQuantizeLSTM", _lstm_types),
    ("QuantizeLinear", call_of("QuantizeLinear", 3, "axis")),
    ("DequantizeLinear", call_of("DequantizeLinear", 3, "axis")),
):
    quantized(_op, stand_in=_types)(_by_ort)
