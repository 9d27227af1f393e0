"""The newest opset at which ONNX Runtime runs a model with the kernels of the model's own opset.

Determined with ONNX Runtime 1.31 operator by operator; `tests/test_load_opsets.py` repeats that for element types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
from onnx import ModelProto, NodeProto, TensorProto

from workbench.formats.io.checks import every_graph
from workbench.formats.io.value_types import without_declared_types

_ANY: frozenset[int] = frozenset()
_DOUBLE = frozenset({TensorProto.DOUBLE})
_INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64, TensorProto.UINT32})
# operator -> the newest opset with a kernel, for operands of these element types (none: of any).
# Without a kernel for a newer form, the older one may run by the operator's function body.
NEWEST_KERNEL: Mapping[str, tuple[int, frozenset[int]]] = {
    **dict.fromkeys(("GlobalLpPool", "MaxRoiPool", "Multinomial", "RoiAlign", "Bernoulli"), (21, _ANY)),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), (21, _ANY)),
    **dict.fromkeys(("Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Selu"), (18, _DOUBLE)),
    **dict.fromkeys(("Softplus", "Softsign", "ThresholdedRelu"), (18, _DOUBLE)),
    "PRelu": (18, _DOUBLE | _INTEGERS),
    "Relu": (18, frozenset({TensorProto.INT64})),
}


def newest_opset(model: ModelProto, nodes: Iterable[NodeProto], version: int, newest: int) -> int:
    """The newest opset from `version` to `newest` at which ONNX Runtime runs a model of opset `version`.

    nodes: all nodes of the model.
    """
    result = newest
    nodes = [node for node in nodes if node.op_type in NEWEST_KERNEL and node.domain in ("", "ai.onnx")]
    types = _element_types(model) if any(NEWEST_KERNEL[node.op_type][1] for node in nodes) else {}
    for node in nodes:
        last, element_types = NEWEST_KERNEL[node.op_type]
        if not element_types or _operand_type(node, types) in element_types:
            result = min(result, last)
    return max(result, version)


def _operand_type(node: NodeProto, types: Mapping[str, int]) -> int:
    return types.get(node.input[0], TensorProto.UNDEFINED) if node.input else TensorProto.UNDEFINED


def _element_types(model: ModelProto) -> dict[str, int]:
    """The inferred element types, by value; 0 if one is unknown."""
    results: dict[str, int] = {}
    for graph in every_graph(onnx.shape_inference.infer_shapes(without_declared_types(model, nested=True))):
        results.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
        for info in (*graph.input, *graph.value_info, *graph.output):
            results[info.name] = info.type.tensor_type.elem_type
    return results
