"""Standard operators whose results have the types of ONNX Runtime's own operators (com.microsoft).

ONNX's shape inference does not know that domain: in the model that it sees they are replaced. What stands in computes
something else, or nothing: its types are all that is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from onnx import NodeProto, TensorProto
from onnx.helper import make_node

ONNXRUNTIME = "com.microsoft"
_Nodes = Sequence[NodeProto]


def stand_ins(node: NodeProto, ranks: Mapping[str, int]) -> _Nodes | None:
    """Nodes that give results of the same types; None if the operator, or this form of it, is not known here.

    ranks: of constants and inputs.
    """
    if node.domain != ONNXRUNTIME or not node.input or not node.output:
        return None
    if node.op_type == "FusedMatMul":
        return _product(node, ranks)
    return _TABLE[node.op_type](node) if node.op_type in _TABLE else None


def _like(operand: int) -> Callable[[NodeProto], _Nodes]:
    """The first result has the type of this operand."""
    return lambda node: [make_node("Identity", [node.input[operand]], node.output[:1])]


def _as(op: str, operands: Sequence[int], *attributes: str) -> Callable[[NodeProto], _Nodes]:
    """ONNX's operator on these operands, if they are there, with these attributes."""

    def replaced(node: NodeProto) -> _Nodes:
        kept = [attribute for attribute in node.attribute if attribute.name in attributes]
        plain = make_node(op, [node.input[i] for i in operands if i < len(node.input)], node.output[:1])
        plain.attribute.extend(kept)
        return [plain]

    return replaced


def _sum_of_all(node: NodeProto) -> _Nodes:
    """Normalizations of a sum, which is the fourth result."""
    return [make_node("Identity", node.input[:1], [value]) for value in (node.output[0], *node.output[3:4]) if value]


def _product(node: NodeProto, ranks: Mapping[str, int]) -> _Nodes | None:
    flags = {attribute.name: attribute.i for attribute in node.attribute}
    if flags.get("transBatchA") or flags.get("transBatchB"):
        return None
    if not (flags.get("transA") or flags.get("transB")):
        return [make_node("MatMul", node.input[:2], node.output[:1])]
    first, second = ("ji" if flags.get("transA") else "ij"), ("kj" if flags.get("transB") else "jk")
    first, second = (
        axes if ranks.get(v) == 2 else f"...{axes}" for v, axes in zip(node.input, (first, second), strict=False)
    )
    return [make_node("Einsum", node.input[:2], node.output[:1], equation=f"{first},{second}->...ik")]


def _pool(op: str) -> Callable[[NodeProto], _Nodes | None]:
    plain = _as(op, (0,), "auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")

    def replaced(node: NodeProto) -> _Nodes | None:
        last = any(attribute.name == "channels_last" and attribute.i for attribute in node.attribute)
        return None if last else plain(node)

    return replaced


def _concat(node: NodeProto) -> _Nodes:
    """Operands are the scale and zero point of the result, then those of each operand behind it."""
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
    return [make_node("Concat", node.input[2::3], node.output[:1], axis=axis)]


def _float_product(node: NodeProto) -> _Nodes:
    """Of integers, returned as floats."""
    whole = f"{node.output[0]}/integers"
    return [
        make_node("MatMulInteger", node.input[:2], [whole]),
        make_node("Cast", [whole], node.output[:1], to=TensorProto.FLOAT),
    ]


def _projected(node: NodeProto) -> _Nodes | None:
    """Attention of queries, keys and values of one size: the result has a third of the product's last axis."""
    if any(attribute.name == "qkv_hidden_sizes" for attribute in node.attribute):
        return None
    whole, sizes, parts, first = (f"{node.output[0]}/{name}" for name in ("projected", "sizes", "parts", "first"))
    return [
        make_node("MatMul", node.input[:2], [whole]),
        make_node("Constant", [], [sizes], value_ints=[0, 0, 3, -1]),
        make_node("Reshape", [whole, sizes], [parts]),
        make_node("Constant", [], [first], value_int=0),
        make_node("Gather", [parts, first], node.output[:1], axis=2),
    ]


def _embedded(node: NodeProto) -> _Nodes:
    return [make_node("Gather", [node.input[2], node.input[0]], node.output[:1], axis=0)]


_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_TABLE: dict[str, Callable[[NodeProto], _Nodes | None]] = {
    "Attention": _projected,
    "BiasGelu": _as("Add", (0, 1)),
    "DequantizeLinear": _as("DequantizeLinear", (0, 1, 2), "axis"),
    "DynamicQuantizeMatMul": _as("MatMul", (0, 1)),
    "EmbedLayerNormalization": _embedded,
    "FastGelu": _like(0),
    "FusedConv": _as("Conv", (0, 1, 2), *_CONV),
    "FusedGemm": _as("Gemm", (0, 1, 2), "alpha", "beta", "transA", "transB"),
    "Gelu": _like(0),
    "MatMulIntegerToFloat": _float_product,
    "QLinearAdd": _as("Add", (0, 3)),
    "QLinearAveragePool": _pool("AveragePool"),
    "QLinearConcat": _concat,
    "QLinearGlobalAveragePool": _pool("GlobalAveragePool"),
    "QLinearLeakyRelu": _like(0),
    "QLinearMul": _as("Mul", (0, 3)),
    "QLinearSigmoid": _like(0),
    "QLinearSoftmax": _like(0),
    "QuantizeLinear": _as("QuantizeLinear", (0, 1, 2), "axis"),
    "QuickGelu": _like(0),
    "RotaryEmbedding": _like(0),
    "SkipLayerNormalization": _sum_of_all,
    "SkipSimplifiedLayerNormalization": _sum_of_all,
}
