"""ONNX Runtime's own operators that its optimizer writes: fused activations, products and normalizations.

Source: ONNX Runtime's contrib operators, https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from typing import NoReturn

from onnx import NodeProto, TensorProto

from workbench.ir import Node
from workbench.ops.activation import gelu
from workbench.ops.contract import Call, Types, known_elements, known_shape, operator, per_output
from workbench.ops.convolution import conv_flops, convolved
from workbench.ops.dtypes import UnsupportedByTorch
from workbench.ops.fusion_kinds import BROADCAST, ELEMENTWISE, FUSABLE, OPAQUE
from workbench.ops.lazy import F, torch
from workbench.ops.matmul import gemm, gemm_flops
from workbench.ops.permutation.kinds import AGNOSTIC, LAYOUT_BARRIER
from workbench.ops.stand_ins import Nodes, attributes_of, call_of, like_operands, operand

WINDOW = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


@operator(
    "com.microsoft.Gelu",
    category="activation",
    layout=AGNOSTIC,
    fusion=ELEMENTWISE,
    flops=per_output(8),
    stand_in=like_operands(0),
)
def ort_gelu(call: Call, x: torch.Tensor) -> torch.Tensor:
    return gelu(call, x)


@operator(
    "com.microsoft.QuickGelu",
    category="activation",
    layout=AGNOSTIC,
    fusion=ELEMENTWISE,
    flops=per_output(6),
    stand_in=like_operands(0),
)
def quick_gelu(call: Call, x: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(alpha * x)."""
    alpha: float = call.attr("alpha", 1.702)
    return x * torch.sigmoid(alpha * x)


@operator(
    "com.microsoft.BiasGelu",
    category="activation",
    layout=LAYOUT_BARRIER,
    fusion=BROADCAST,
    flops=per_output(9),
    stand_in=like_operands(0),
)
def bias_gelu(call: Call, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return gelu(call, x + bias)


@operator(
    "com.microsoft.FastGelu",
    category="activation",
    layout=LAYOUT_BARRIER,
    fusion=BROADCAST,
    flops=per_output(9),
    stand_in=like_operands(0),
)
def fast_gelu(call: Call, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The tanh form of Gelu, of x + bias."""
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


def _activated(x: torch.Tensor, name: str | bytes, parameters: tuple[float, ...]) -> torch.Tensor:
    """x after the activation of FusedConv or FusedGemm. parameters: of the activation, in ONNX's order."""
    name = name.decode() if isinstance(name, bytes) else name
    if name == "":
        return x
    if name == "Relu":
        return torch.relu(x)
    if name == "Tanh":
        return torch.tanh(x)
    if name == "Sigmoid":
        return torch.sigmoid(x)
    if name == "LeakyRelu" and parameters:
        return F.leaky_relu(x, parameters[0])
    if name == "Clip" and len(parameters) == 2:
        return x.clamp(*parameters)
    if name == "HardSigmoid" and len(parameters) == 2:
        return (x * parameters[0] + parameters[1]).clamp(0, 1)
    raise UnsupportedByTorch(f"its activation {name} with parameters {parameters} is left to ONNX Runtime")


@operator(
    "com.microsoft.FusedConv",
    category="convolution",
    layout=LAYOUT_BARRIER,
    fusion=FUSABLE,
    flops=conv_flops,
    stand_in=call_of("Conv", 3, *WINDOW),
)
def fused_conv(
    call: Call,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    addend: torch.Tensor | None = None,
) -> torch.Tensor:
    """activation(Conv(x, weight, bias) + addend).

    x: [N, C, *D], weight: [M, C / group, *K], bias: [M], addend: [N, M, *E] -> [N, M, *E]
    """
    result = convolved(call, x, weight, bias)
    if addend is not None:
        result = result + addend
    return _activated(result, call.attr("activation", ""), tuple(call.attr("activation_params", ())))


@operator(
    "com.microsoft.FusedGemm",
    category="matmul",
    layout=LAYOUT_BARRIER,
    fusion=FUSABLE,
    flops=gemm_flops,
    stand_in=call_of("Gemm", 3, "alpha", "beta", "transA", "transB"),
)
def fused_gemm(call: Call, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
    """activation(Gemm(a, b, c)).

    a: [M, K] or [K, M], b: [K, N] or [N, K], c: broadcast to [M, N] -> [M, N]
    """
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    parameters = tuple(call.attr(name) for name in names if call.attr(name) is not None)
    return _activated(gemm(call, a, b, c), call.attr("activation", ""), parameters)


def _matmul_types(node: NodeProto) -> list[NodeProto]:
    """A product, of transposed operands by an Einsum, which works at any rank."""
    flags = attributes_of(node, "transA", "transB", "transBatchA", "transBatchB")
    if flags.get("transBatchA") or flags.get("transBatchB"):
        return []
    nodes = Nodes(node)
    operands = [
        nodes.add("Einsum", [value], equation="...ij->...ji") if flags.get(name) else value
        for value, name in zip(node.input[:2], ("transA", "transB"), strict=True)
    ]
    nodes.add("MatMul", operands, node.output[0])
    return nodes.nodes


def _fused_matmul_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
    shape, elements = known_shape(inputs, 0), known_elements(outputs, 0)
    if not shape or elements is None or node.attr("transBatchA", 0) or len(shape) < 2:
        return None
    contracted = shape[-2] if node.attr("transA", 0) else shape[-1]
    return 2 * elements * contracted


def _transposed(x: torch.Tensor, last: int, batch: int) -> torch.Tensor:
    """x with the last two axes swapped if `last`, after moving the first axis to before the last if `batch`."""
    if x.dim() < 2:
        return x
    if batch:
        x = x.movedim(0, -2)
    return x.transpose(-1, -2) if last else x


@operator(
    "com.microsoft.FusedMatMul",
    category="matmul",
    layout=LAYOUT_BARRIER,
    fusion=FUSABLE,
    flops=_fused_matmul_flops,
    stand_in=_matmul_types,
)
def fused_matmul(call: Call, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """alpha * A @ B, with transposed operands, as the attributes say.

    a: [*A, M, K] or [*A, K, M], b: [*A, K, N] or [*A, N, K] -> [*A, M, N]
    """
    a = _transposed(a, call.attr("transA", 0), call.attr("transBatchA", 0))
    b = _transposed(b, call.attr("transB", 0), call.attr("transBatchB", 0))
    alpha: float = call.attr("alpha", 1.0)
    product = torch.matmul(a, b)
    return product if alpha == 1.0 else product * alpha


@operator(
    "com.microsoft.TransposeMatMul",
    category="matmul",
    layout=LAYOUT_BARRIER,
    fusion=FUSABLE,
    flops=_fused_matmul_flops,
    stand_in=_matmul_types,
)
def transpose_matmul(call: Call, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The older name of FusedMatMul.

    a: [*A, M, K] or [*A, K, M], b: [*A, K, N] or [*A, N, K] -> [*A, M, N]
    """
    return fused_matmul(call, a, b)


_SKIP_TYPES = like_operands(0, None, None, 0)  # ONNX Runtime's CPU kernel does not compute means and deviations


def _refuse_statistics(call: Call) -> None:
    if any(call.node.outputs[1:3]):
        raise UnsupportedByTorch("its second and third result are left to ONNX Runtime")


def _sum(x: torch.Tensor, skip: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return x + skip if bias is None else x + skip + bias


@operator(
    "com.microsoft.SkipLayerNormalization",
    category="normalization",
    layout=LAYOUT_BARRIER,
    fusion=OPAQUE,
    flops=per_output(8),
    stand_in=_SKIP_TYPES,
)
def skip_layer_normalization(
    call: Call,
    x: torch.Tensor,
    skip: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, None, None, torch.Tensor]:
    """LayerNormalization of x + skip + bias over the last axis, and that sum.

    x: [*A, D], skip: broadcast to [*A, D], gamma: [D], beta: [D], bias: [D] ->
        y: [*A, D], mean: None, deviation: None, total: [*A, D]
    """
    _refuse_statistics(call)
    total = _sum(x, skip, bias)
    return F.layer_norm(total, total.shape[-1:], gamma, beta, call.attr("epsilon", 1e-12)), None, None, total


@operator(
    "com.microsoft.SkipSimplifiedLayerNormalization",
    category="normalization",
    layout=LAYOUT_BARRIER,
    fusion=OPAQUE,
    flops=per_output(5),
    stand_in=_SKIP_TYPES,
)
def skip_simplified_layer_normalization(
    call: Call, x: torch.Tensor, skip: torch.Tensor, gamma: torch.Tensor, bias: torch.Tensor | None = None
) -> tuple[torch.Tensor, None, None, torch.Tensor]:
    """RMSNormalization of x + skip + bias over the last axis, and that sum.

    x: [*A, D], skip: broadcast to [*A, D], gamma: [D], bias: [D] ->
        y: [*A, D], mean: None, deviation: None, total: [*A, D]
    """
    epsilon: float = call.attr("epsilon", 1e-12)
    _refuse_statistics(call)
    total = _sum(x, skip, bias)
    square = (total * total).mean(-1, keepdim=True)
    return total * (square + epsilon).rsqrt() * gamma, None, None, total


def _embedding_types(node: NodeProto) -> list[NodeProto]:
    """Results like: word vectors by token, a number for each batch entry, word vectors by token."""
    nodes = Nodes(node)
    if node.output[1:2] and node.output[1]:
        nodes.add(
            "Cast", [nodes.add("ArgMax", [node.input[0]], axis=1, keepdims=0)], node.output[1], to=TensorProto.INT32
        )
    for value in (node.output[0], *node.output[2:3]):
        if value:
            nodes.add("Gather", [node.input[2], node.input[0]], value)
    return nodes.nodes


@operator(
    "com.microsoft.EmbedLayerNormalization",
    category="normalization",
    layout=LAYOUT_BARRIER,
    fusion=OPAQUE,
    flops=per_output(9),
    stand_in=_embedding_types,
)
def embed_layer_normalization(
    call: Call,
    tokens: torch.Tensor,
    segments: torch.Tensor | None,
    words: torch.Tensor,
    positions: torch.Tensor,
    segment_rows: torch.Tensor | None,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    mask: torch.Tensor | None = None,
    position_ids: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """LayerNormalization of the sum of word, position and segment vectors; the mask's lengths; the sum.

    tokens: [N, L], segments: [N, L], words: [V, D], positions: [P, D], segment_rows: [S, D], gamma: [D], beta: [D],
        mask: [N, L], position_ids: [N, L] or [1, L] -> y: [N, L, D], lengths: [N], total: [N, L, D]
    """
    if call.attr("mask_index_type", 1) != 1:
        raise UnsupportedByTorch("another mask than the texts' lengths is left to ONNX Runtime")
    if mask is None:
        lengths = torch.zeros(tokens.shape[0], dtype=torch.int32, device=tokens.device)
    else:
        lengths = mask.sum(1).to(torch.int32)
    position_rows = positions[: tokens.shape[1]] if position_ids is None else positions[position_ids.long()]
    total = words[tokens.long()] + position_rows
    if segment_rows is not None:
        if segments is None:
            raise UnsupportedByTorch("segment vectors without segments are left to ONNX Runtime")
        total = total + segment_rows[segments.long()]
    return F.layer_norm(total, total.shape[-1:], gamma, beta, call.attr("epsilon", 1e-12)), lengths, total


def _attention_types(node: NodeProto) -> list[NodeProto]:
    """A third of the columns of input @ weights. A pooling counts them, since its form is the same at all opsets."""
    if attributes_of(node, "qkv_hidden_sizes"):
        return []
    nodes = Nodes(node)
    product = nodes.add("MatMul", list(node.input[:2]))
    nodes.add("AveragePool", [product], node.output[0], kernel_shape=[3], strides=[3])
    return nodes.nodes


def _attention_by_ort(call: Call, *operands: torch.Tensor | None) -> NoReturn:
    raise UnsupportedByTorch("attention on ONNX Runtime's packed operands is left to it")


def _multi_head_types(node: NodeProto) -> list[NodeProto]:
    """The rows of the query and the columns of the value; none if keys or values are packed into another operand."""
    if not operand(node, 1) or not operand(node, 2):
        return []
    nodes = Nodes(node)
    nodes.add("Einsum", [node.input[0], node.input[2]], node.output[0], equation="bsd,blv->bsv")
    return nodes.nodes


def _like_query(node: NodeProto) -> list[NodeProto]:
    """The type of the query, unless keys and values are packed into it."""
    return like_operands(0)(node) if operand(node, 1) else []


for _op, _types in (
    ("Attention", _attention_types),
    ("MultiHeadAttention", _multi_head_types),
    ("GroupQueryAttention", _like_query),
    ("RotaryEmbedding", like_operands(0)),
):
    operator(f"com.microsoft.{_op}", category="matmul", layout=LAYOUT_BARRIER, fusion=OPAQUE, stand_in=_types)(
        _attention_by_ort
    )
