"""Convert ONNX protobuf messages to graphs: the last step of loading a file or parsing text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from workbench.ir.graph import Graph
from workbench.ir.node import ONNX_DOMAINS, AttrRef, Function, Node, without_trailing
from workbench.ir.preserved_metadata import metadata_of
from workbench.ir.types import Constant, DataType, Dim, OpaqueType, TensorType, ValueType

_CONSTANT_TYPES = {
    AttributeProto.INT: DataType.INT64,
    AttributeProto.INTS: DataType.INT64,
    AttributeProto.FLOAT: DataType.FLOAT,
    AttributeProto.FLOATS: DataType.FLOAT,
}

_BODY_TYPES = frozenset((AttributeProto.UNDEFINED, AttributeProto.GRAPH, AttributeProto.GRAPHS))
Read = Callable[[TensorProto], Any]  # converts a tensor message to a constant
# By the outputs of nodes (nodes in two branches may share them): name, operator and entries of each.
NodeMetadata = dict[tuple[str, ...], list[tuple[str, str, Mapping[str, str]]]]


def read_copy(tensor: TensorProto) -> Constant:
    """A copy of the tensor, since a reference to a submessage keeps the whole message in memory."""
    if tensor.HasField("raw_data") and tensor.data_type != TensorProto.STRING:
        dtype = DataType(tensor.data_type)
        if dtype.bitwidth >= 8:  # a tensor that wraps a message computes type and shape at each access
            array = np.frombuffer(tensor.raw_data, dtype.numpy()).reshape(tensor.dims)
            return onnx_ir.Tensor(array, dtype, name=tensor.name, doc_string=tensor.doc_string)
    copy = TensorProto()
    copy.CopyFrom(tensor)
    return onnx_ir.serde.deserialize_tensor(copy)


def from_proto(model: ModelProto, read: Read = read_copy, metadata: NodeMetadata | None = None) -> Graph:
    """The model's main graph with its functions. Constant nodes become constants.

    metadata: the metadata of nodes, if it was read separately; entries in a node of the model take precedence.
    """
    graph = _graph(model.graph, read, metadata or {})
    graph.opset_imports = _opsets(model)
    for proto in model.functions:
        function = _function(proto, read)
        graph.functions[function.key] = function
    graph.metadata = {
        **_entries(model),
        **({"producer": model.producer_name} if model.producer_name else {}),
    }
    return graph


def from_file(path: str) -> Graph:
    """The graph of a file that this program exported, with weights inside the file or in an external one."""
    model = onnx.load(path, load_external_data=False)
    folder = os.path.dirname(path)
    return from_proto(model, lambda tensor: onnx_ir.serde.deserialize_tensor(tensor, folder))


def bodies(attribute: AttributeProto) -> tuple[GraphProto, ...]:
    """The graphs in an attribute (of If, Loop or Scan)."""
    if attribute.type not in _BODY_TYPES:
        return ()
    return (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs)


def value_type(proto: TypeProto) -> ValueType | None:
    """The type; None if the message has none."""
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    if kind != "tensor_type":
        return _opaque_type(proto)
    tensor = proto.tensor_type
    if tensor.elem_type == TensorProto.UNDEFINED:  # also for a message without an element type
        return None
    shape = tuple(_dim(d) for d in tensor.shape.dim) if tensor.HasField("shape") else None
    return TensorType(DataType(tensor.elem_type), shape)


def _value_types(protos: Iterable[TypeProto]) -> Iterator[ValueType | None]:
    """The types of messages. Equal messages, which are frequent in a graph, are converted once."""
    read: dict[bytes, ValueType | None] = {}
    for proto in protos:
        message = proto.SerializeToString()
        if message not in read:
            read[message] = value_type(proto)
        yield read[message]


def _opaque_type(proto: TypeProto) -> OpaqueType | None:
    serde = onnx_ir.serde
    try:
        result = serde.deserialize_type_proto_for_type(proto)
        return None if result is None else OpaqueType(result, serde.deserialize_type_proto_for_shape(proto))
    except serde.SerdeError:  # onnx_ir has no map type, which classifiers of ai.onnx.ml return
        copy = TypeProto()
        copy.CopyFrom(proto)
        return OpaqueType(copy)


def _dim(dim: Any) -> Dim:
    kind = dim.WhichOneof("value")
    return None if kind is None else getattr(dim, kind)


def _opsets(message: ModelProto | FunctionProto) -> dict[str, int]:
    return {entry.domain: entry.version for entry in message.opset_import}


def _entries(message: ModelProto | NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in message.metadata_props}


def _graph(source: GraphProto, read: Read, metadata: NodeMetadata) -> Graph:
    infos = {info.name: info.type for info in (*source.value_info, *source.output, *source.input)}
    inputs = [info.name for info in source.input]
    constants = {t.name: read(t) for t in source.initializer if t.name}
    return _with_nodes(source, inputs, [info.name for info in source.output], constants, infos, read, metadata)


def _function(source: FunctionProto, read: Read) -> Function:
    infos = {info.name: info.type for info in source.value_info}
    graph = _with_nodes(source, list(source.input), list(source.output), {}, infos, read, {})
    graph.opset_imports = _opsets(source)
    defaults = {a.name: attribute_value(a, read) for a in source.attribute_proto}
    return Function(source.name, source.domain, graph, defaults | dict.fromkeys(source.attribute), source.overload)


def _with_nodes(
    source: GraphProto | FunctionProto,
    inputs: list[str],
    outputs: list[str],
    constants: dict[str, Constant],
    infos: Mapping[str, TypeProto],
    read: Read,
    metadata: NodeMetadata,
) -> Graph:
    values = dict.fromkeys(inputs)
    nodes: list[Node] = []
    taken: dict[str, int] = {}
    for proto in source.node:
        values.update(dict.fromkeys(proto.output))
        tensor = _constant_value(proto, read)
        if tensor is not None:
            constants[proto.output[0]] = tensor
        else:
            nodes.append(_node(proto, taken, read, metadata))
    typed_values = {v: infos[v] for v in values if v and v in infos and v not in constants}
    types = dict(zip(typed_values, _value_types(typed_values.values()), strict=True))
    return Graph(
        name=source.name if isinstance(source, GraphProto) and source.name else "graph",
        inputs=[v for v in inputs if v not in constants],
        outputs=outputs,
        nodes=nodes,
        constants=constants,
        types={v: result for v, result in types.items() if result is not None},
    )


def _constant_value(node: NodeProto, read: Read) -> Constant | None:
    """The tensor of a Constant node, from any of its attributes; None for another node."""
    if node.op_type != "Constant" or node.domain not in ONNX_DOMAINS or not node.attribute:
        return None
    attribute = node.attribute[0]
    if attribute.ref_attr_name:
        return None
    if attribute.type == AttributeProto.TENSOR:
        tensor: Constant = read(attribute.t)
        return tensor
    if attribute.type == AttributeProto.STRING:
        return onnx_ir.StringTensor([attribute.s], shape=onnx_ir.Shape([]))
    if attribute.type == AttributeProto.STRINGS:
        return onnx_ir.StringTensor(list(attribute.strings), shape=onnx_ir.Shape([len(attribute.strings)]))
    dtype = _CONSTANT_TYPES.get(attribute.type)
    return None if dtype is None else onnx_ir.tensor(attribute_value(attribute, read), dtype=dtype)


def _node(node: NodeProto, taken: dict[str, int], read: Read, metadata: NodeMetadata) -> Node:
    return Node(
        op_type=node.op_type,
        domain=node.domain,
        overload=node.overload,
        inputs=tuple(node.input),
        outputs=without_trailing(tuple(node.output)),
        attributes={a.name: attribute_value(a, read, metadata) for a in node.attribute},
        name=_unique(node.name or _name_from_output(node), taken),
        metadata={**_entries(node), **metadata_of(node), **(_separate_metadata(node, metadata) if metadata else {})},
    )


def _separate_metadata(node: NodeProto, metadata: NodeMetadata) -> Mapping[str, str]:
    """The node's metadata; empty if opset conversion changed its operator or two nodes cannot be distinguished."""
    matches = [
        (name, entries) for name, op_type, entries in metadata.get(tuple(node.output), ()) if op_type == node.op_type
    ]
    if len(matches) > 1:
        matches = [(name, entries) for name, entries in matches if name == node.name]
    return matches[0][1] if len(matches) == 1 else {}


def _name_from_output(node: NodeProto) -> str:
    return next((f"{node.op_type}_{v}" for v in node.output if v), node.op_type)


def _unique(name: str, taken: dict[str, int]) -> str:
    """The name, with a numeric suffix if it is taken. taken: by name, how often it was requested."""
    unique = name
    while unique in taken:
        taken[name] += 1
        unique = f"{name}#{taken[name]}"
    taken[unique] = 1
    return unique


def attribute_value(attribute: AttributeProto, read: Read, metadata: NodeMetadata | None = None) -> Any:
    """The attribute's value in the form of `Node.attributes`; `read` converts tensors."""
    kind = attribute.type
    if attribute.ref_attr_name:
        return AttrRef(attribute.ref_attr_name, kind)
    if kind == AttributeProto.INT:
        return attribute.i
    if kind == AttributeProto.FLOAT:
        return attribute.f
    if kind == AttributeProto.STRING:
        return _text(attribute.s)
    if kind == AttributeProto.INTS:
        return tuple(attribute.ints)
    if kind == AttributeProto.FLOATS:
        return tuple(attribute.floats)
    if kind == AttributeProto.STRINGS:
        return tuple(_text(data) for data in attribute.strings)
    if kind == AttributeProto.TENSOR:
        return read(attribute.t)
    if kind == AttributeProto.GRAPH:
        return _graph(attribute.g, read, metadata or {})
    if kind == AttributeProto.GRAPHS:
        return tuple(_graph(g, read, metadata or {}) for g in attribute.graphs)
    if kind in (AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS):
        raise ValueError(f"attribute '{attribute.name}' holds sparse tensors; only dense ones can be read")
    return onnx_ir.serde.deserialize_attribute(attribute)  # type protos: kept unchanged


def _text(data: bytes) -> str | bytes:
    """Decoded as UTF-8; unchanged if it is not, which operators of other domains may use."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
