"""Nodes, constants, bodies and functions as a certificate's JSON."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir
from onnx import AttributeProto, TypeProto, ValueInfoProto

from workbench.ir import AttrRef, Constant, DataType, Function, Graph, Node, ValueType, constant_shape
from workbench.ir.to_proto import write_value

_IN_FULL = (DataType.INT32, DataType.INT64)
_MAX_IN_FULL = 16  # elements
Json = dict[str, Any]


def node_key(node: Node) -> str:
    """The node's first result, which identifies it in the certificate; "" if it has none."""
    return next(filter(None, node.outputs), "")


def flat_node(node: Node) -> Json:
    """The node without its name and metadata, which compute nothing."""
    optional = {"domain": node.domain, "overload": node.overload}
    return {
        "op": node.op_type,
        **{name: text for name, text in optional.items() if text},
        "inputs": list(node.inputs),
        "outputs": list(node.outputs),
        "attributes": {name: _attribute(value) for name, value in node.attributes.items()},
    }


def flat_nodes(nodes: Iterable[Node]) -> list[Json]:
    """The nodes that have a result."""
    return [flat_node(node) for node in nodes if node_key(node)]


def flat_constant(tensor: Constant) -> Json:
    """Element type, shape and the SHA-256 of the elements; a few integers in full."""
    if tensor.dtype == DataType.STRING:
        texts = tensor.string_data() if isinstance(tensor, onnx_ir.StringTensor) else tensor.numpy().ravel().tolist()
        encoded = [text if isinstance(text, bytes) else str(text).encode() for text in texts]
        data = b"".join(struct.pack("<q", len(text)) + text for text in encoded)
    else:
        data = tensor.tobytes()
    shape = constant_shape(tensor)
    result: Json = {"type": int(tensor.dtype), "shape": list(shape), "sha256": hashlib.sha256(data).hexdigest()}
    if tensor.dtype in _IN_FULL and math.prod(shape) <= _MAX_IN_FULL:
        result["values"] = tensor.numpy().ravel().tolist()
    return result


def flat_function(function: Function) -> Json:
    graph: Graph = function.graph
    return {
        "graph": _flat_graph(graph),
        "opsets": dict(graph.opset_imports),
        "parameters": sorted(name for name, default in function.attributes.items() if default is None),
        "defaults": {name: _attribute(value) for name, value in function.attributes.items() if value is not None},
    }


def flat_type(type_: ValueType | None) -> list[Any] | None:
    """For a tensor, the number of its element type and its dims; else its kind and its element type; None if
    unknown."""
    written = ValueInfoProto()
    write_value(written, "", type_)
    return _flat_type(written.type)


def _flat_type(proto: TypeProto) -> list[Any] | None:
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    type_ = getattr(proto, kind)
    if kind == "map_type":
        return [kind, [type_.key_type, _flat_type(type_.value_type)]]
    if kind != "tensor_type":
        return [kind, _flat_type(type_.elem_type)]
    if not type_.elem_type:
        return None
    if not type_.HasField("shape"):
        return [type_.elem_type, None]
    return [type_.elem_type, [getattr(dim, dim.WhichOneof("value") or "", None) for dim in type_.shape.dim]]


def _flat_graph(graph: Graph) -> Json:
    return {
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "nodes": flat_nodes(graph.nodes),
        "constants": {name: flat_constant(tensor) for name, tensor in graph.constants.items()},
    }


def _attribute(value: Any) -> Mapping[str, Any]:
    if isinstance(value, AttrRef):
        return {"reference": {"name": value.name, "type": value.type}}
    if isinstance(value, onnx_ir.Attr):
        proto = AttributeProto()
        onnx_ir.serde.serialize_attribute_into(proto, value)
        return {"type": {"bytes": proto.tp.SerializeToString(deterministic=True).hex()}}
    if isinstance(value, bool | int):
        return {"int": int(value)}
    if isinstance(value, float):
        return {"float": _float(value)}
    if isinstance(value, str | bytes):
        return {"text": _text(value)}
    if isinstance(value, Graph):
        return {"graph": _flat_graph(value)}
    if isinstance(value, tuple):
        return _list(value)
    return {"tensor": flat_constant(value)}


def _list(values: tuple[Any, ...]) -> Mapping[str, Any]:
    if values and isinstance(values[0], Graph):
        return {"graphs": [_flat_graph(graph) for graph in values]}
    if values and isinstance(values[0], str | bytes):
        return {"texts": [_text(text) for text in values]}
    if any(isinstance(item, float) for item in values):
        return {"floats": [_float(item) for item in values]}
    return {"ints": [int(item) for item in values]}


def _float(value: float) -> float | str:
    """The number as files store it, in float32; infinities and NaN, which JSON does not have, as text."""
    with np.errstate(over="ignore"):
        single = float(np.float32(value))
    return single if math.isfinite(single) else str(single)


def _text(value: str | bytes) -> str | Json:
    return value if isinstance(value, str) else {"bytes": value.hex()}
