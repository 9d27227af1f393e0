"""Convert graphs to ONNX protobuf messages, for files, text and shape inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import onnx_ir
from google.protobuf.message import Message
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorAnnotation,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)

from workbench.ir.format_version import lowest_ir
from workbench.ir.graph import Graph
from workbench.ir.node import AttrRef, Function, Node, without_trailing
from workbench.ir.preserved_metadata import annotated, write_metadata_of
from workbench.ir.types import Constant, MissingConstant, OpaqueType, Shape, TensorType, ValueType

_PART = 256  # values in one message: a message takes ten times the memory of its bytes
THIS_FILE = "<this file>"  # the location of a tensor whose data is in the model file itself
LARGE = 1024  # bytes; smaller tensors (shapes, axes, scales) stay in the message

# (constant, name; "" for an attribute's) -> the `external_data` entries that locate its elements, the sparse tensor to
# write instead, or None.
TensorPlace = Callable[[Constant, str], Mapping[str, str] | SparseTensorProto | None]


def inside(tensor: Constant, name: str) -> None:
    """The `TensorPlace` of constants whose elements are in the message itself."""


def to_proto(graph: Graph, place: TensorPlace = inside, *, metadata: bool = True) -> ModelProto:
    """The graph as a model with its functions; unused constants are omitted.

    place:    where the elements of each constant are.
    metadata: whether to write metadata of nodes, often nine tenths of the message.
    """
    model = model_without_graph(graph, place, metadata=metadata)
    write_graph(model.graph, graph, place)
    for node in graph.nodes:
        write_node(model.graph.node.add(), node, (graph,), place, metadata=metadata)
    return model


def function_proto(function: Function) -> FunctionProto:
    """The function as a message, with the elements of its constants."""
    proto = FunctionProto()
    _write_function(proto, function, inside, metadata=False)
    return proto


def structure(graph: Graph, location: str = THIS_FILE, ir: int | None = None) -> ModelProto:
    """The graph as a model without node metadata, with large and missing constants external at `location`.

    ir: the version of the format; None for the lowest possible.
    """

    def excluded(tensor: Constant, name: str) -> Mapping[str, str] | None:
        if not is_large(tensor) and not isinstance(tensor, MissingConstant):
            return None
        return {"location": location, "length": str(tensor.nbytes)}

    model = to_proto(graph, excluded, metadata=False)
    model.ir_version = ir or model.ir_version
    return model


def is_large(tensor: Constant) -> bool:
    return tensor.dtype != onnx_ir.DataType.STRING and tensor.nbytes > LARGE


def model_without_graph(
    graph: Graph, place: TensorPlace, *, metadata: bool = True, ir: int | None = None
) -> ModelProto:
    """The model without its main graph: versions, imports, metadata, functions. ir: None for the lowest possible."""
    model = ModelProto(producer_name="graph-workbench", ir_version=ir or lowest_ir(graph))
    kept = graph.kept.model
    _write_texts(model, domain=kept.domain, doc_string=kept.doc_string)
    if kept.model_version:
        model.model_version = kept.model_version
    model.configuration.extend(kept.configuration)
    _write_opsets(model, graph)
    _write_entries(model, {key: value for key, value in graph.metadata.items() if key != "producer"})
    for function in graph.functions.values():
        _write_function(model.functions.add(), function, place, metadata)
    return model


def write_graph(proto: GraphProto, graph: Graph, place: TensorPlace, outside: tuple[Graph, ...] = ()) -> None:
    """Write everything of the graph except its nodes. outside: for a body, the enclosing graphs, the innermost
    first."""
    for part in graph_parts(graph, place, outside):
        proto.MergeFrom(part)


def graph_parts(graph: Graph, place: TensorPlace, outside: tuple[Graph, ...] = ()) -> Iterator[GraphProto]:
    """Everything of the graph except its nodes, in small messages, whose concatenated bytes are one message."""
    part = GraphProto(name=graph.name)
    for value in graph.inputs:
        write_value(part.input.add(), value, graph.types.get(value))
    annotated(part.input, graph.kept.model)
    for value, tensor in graph.kept.defaults.items():
        if graph.is_input(value):
            _write_tensor(part.initializer.add(), tensor, value, place)
    for name, tensor in _used_constants(graph):
        write_value(part.value_info.add(), name, graph.type(name))
        _write_weight(part, tensor, name, place)
        if len(part.value_info) == _PART:
            yield part
            part = GraphProto()
    outputs = set(graph.outputs)
    for value in (v for node in graph.nodes for v in node.outputs if v):
        if value in outputs or value not in graph.types:
            continue
        write_value(part.value_info.add(), value, graph.types[value])
        if len(part.value_info) == _PART:
            yield part
            part = GraphProto()
    for value in graph.outputs:
        owner = next((g for g in (graph, *outside) if g.has_value(value)), graph)
        write_value(part.output.add(), value, owner.type(value))
    annotated(part.output, graph.kept.model)
    _write_texts(part, doc_string=graph.kept.model.graph.doc_string)
    part.metadata_props.extend(graph.kept.model.graph.metadata_props)
    part.quantization_annotation.extend(_quantization(graph))
    yield part


def _quantization(graph: Graph) -> list[TensorAnnotation]:
    """The annotations whose values all still exist."""
    return [
        annotation
        for annotation in graph.kept.model.graph.quantization_annotation
        if all(
            map(graph.has_value, (annotation.tensor_name, *(e.value for e in annotation.quant_parameter_tensor_names)))
        )
    ]


def write_node(
    proto: NodeProto, node: Node, within: tuple[Graph, ...], place: TensorPlace, *, metadata: bool = True
) -> None:
    """Write the node with its bodies. within: the enclosing graphs, the innermost first."""
    proto.op_type = node.op_type
    _write_texts(proto, domain=node.domain, name=node.name, overload=node.overload)
    proto.input.extend(node.inputs)
    proto.output.extend(without_trailing(node.outputs) if any(node.outputs) else ())
    for name, value in node.attributes.items():
        _write_attribute(proto.attribute.add(), name, value, within, place, metadata)
    if metadata:
        _write_entries(proto, write_metadata_of(proto, node.metadata))


def _used_constants(graph: Graph) -> Iterator[tuple[str, Constant]]:
    """Names and constants in order of use, so that the text does not depend on the order of edits."""
    used = dict.fromkeys(v for node in graph.nodes for v in node.operands) | dict.fromkeys(graph.outputs)
    used |= dict.fromkeys(entry.value for a in _quantization(graph) for entry in a.quant_parameter_tensor_names)
    return ((name, graph.constants[name]) for name in used if name in graph.constants)


def _write_texts(message: Message, **texts: str) -> None:
    """Set text fields of the message; empty ones are omitted."""
    for field, text in texts.items():
        if text:
            setattr(message, field, text)


def _write_opsets(message: ModelProto | FunctionProto, graph: Graph) -> None:
    for domain, version in graph.opset_imports.items():
        message.opset_import.add(domain=domain, version=version)


def _write_entries(message: ModelProto | NodeProto, entries: Mapping[str, str]) -> None:
    for key in sorted(entries):
        message.metadata_props.add(key=key, value=entries[key])


def write_value(proto: ValueInfoProto, name: str, type_: ValueType | None) -> None:
    proto.name = name
    if isinstance(type_, OpaqueType) and isinstance(type_.type, TypeProto):
        proto.type.CopyFrom(type_.type)
    elif isinstance(type_, OpaqueType):
        onnx_ir.serde.serialize_type_into(proto.type, type_.type)
        if type_.shape is not None:
            onnx_ir.serde.serialize_shape_into(proto.type, type_.shape)
    elif isinstance(type_, TensorType):
        proto.type.CopyFrom(_tensor_type(type_.dtype.value, type_.shape))


@lru_cache
def _tensor_type(element: int, shape: Shape) -> TypeProto:
    """The message of a type; cached, since a graph has few types and many values."""
    proto = TypeProto()
    tensor = proto.tensor_type
    tensor.elem_type = element
    if shape is None:
        return proto
    tensor.shape.SetInParent()  # a scalar has a shape with no dims
    for dim in shape:
        written = tensor.shape.dim.add()
        if isinstance(dim, int):
            written.dim_value = dim
        elif dim is not None:
            written.dim_param = dim
    return proto


def _write_weight(part: GraphProto, tensor: Constant, name: str, place: TensorPlace) -> None:
    entries = place(tensor, name)
    if not isinstance(entries, SparseTensorProto):
        _write_tensor(part.initializer.add(), tensor, name, lambda *_: entries)
        return
    part.sparse_initializer.add().CopyFrom(entries)
    part.sparse_initializer[-1].values.name = name


def _write_tensor(proto: TensorProto, tensor: Constant, name: str, place: TensorPlace) -> None:
    entries = place(tensor, name)
    if entries is None or isinstance(entries, SparseTensorProto):
        if isinstance(tensor, MissingConstant):
            tensor.numpy()  # raises what says which file is missing; serializing would hide it
        onnx_ir.serde.serialize_tensor_into(proto, tensor)
        _write_texts(proto, name=name)
        return
    _write_texts(proto, name=name, doc_string=tensor.doc_string or "")
    proto.data_type, proto.data_location = tensor.dtype.value, TensorProto.EXTERNAL
    proto.dims.extend(int(d) for d in tensor.shape)  # type: ignore[arg-type]  # a constant's dims are numbers
    for key, text in entries.items():
        proto.external_data.add(key=key, value=text)


def _write_attribute(
    proto: AttributeProto, name: str, value: Any, within: tuple[Graph, ...], place: TensorPlace, metadata: bool
) -> None:
    proto.name = name
    if isinstance(value, AttrRef):
        proto.ref_attr_name, proto.type = value.name, value.type  # type: ignore[assignment]
    elif isinstance(value, onnx_ir.Attr):
        onnx_ir.serde.serialize_attribute_into(proto, value)
    elif isinstance(value, bool | int):
        proto.i, proto.type = int(value), AttributeProto.INT
    elif isinstance(value, float):
        proto.f, proto.type = value, AttributeProto.FLOAT
    elif isinstance(value, str | bytes):
        proto.s, proto.type = _bytes(value), AttributeProto.STRING
    elif isinstance(value, Graph):
        proto.type = AttributeProto.GRAPH
        _write_body(proto.g, value, within, place, metadata)
    elif isinstance(value, tuple):
        _write_list(proto, value, within, place, metadata)
    else:
        proto.type = AttributeProto.TENSOR
        _write_tensor(proto.t, value, value.name or "", lambda tensor, _: place(tensor, ""))


def _write_list(
    proto: AttributeProto, values: tuple[Any, ...], within: tuple[Graph, ...], place: TensorPlace, metadata: bool
) -> None:
    if values and isinstance(values[0], Graph):
        proto.type = AttributeProto.GRAPHS
        for body in values:
            _write_body(proto.graphs.add(), body, within, place, metadata)
    elif values and isinstance(values[0], str | bytes):
        proto.type = AttributeProto.STRINGS
        proto.strings.extend(_bytes(text) for text in values)
    elif any(isinstance(item, float) for item in values):
        proto.type = AttributeProto.FLOATS
        proto.floats.extend(values)
    else:
        proto.type = AttributeProto.INTS
        proto.ints.extend(values)


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _write_body(proto: GraphProto, body: Graph, within: tuple[Graph, ...], place: TensorPlace, metadata: bool) -> None:
    write_graph(proto, body, place, within)
    for node in body.nodes:
        write_node(proto.node.add(), node, (body, *within), place, metadata=metadata)


def _write_function(proto: FunctionProto, function: Function, place: TensorPlace, metadata: bool) -> None:
    graph = function.graph
    _write_texts(proto, domain=function.domain, name=function.name, overload=function.overload)
    _write_opsets(proto, graph)
    proto.input.extend(graph.inputs)
    proto.output.extend(graph.outputs)
    for name, default in function.attributes.items():
        if default is None:
            proto.attribute.append(name)
        else:
            _write_attribute(proto.attribute_proto.add(), name, default, (graph,), place, metadata)
    for name, tensor in _used_constants(graph):  # a function has no initializers
        node = proto.node.add(op_type="Constant", name=f"Constant_{name}", output=[name])
        _write_attribute(node.attribute.add(), "value", tensor, (graph,), place, metadata)
    for node in graph.nodes:
        write_node(proto.node.add(), node, (graph,), place, metadata=metadata)
    for value in (*graph.inputs, *(v for node in graph.nodes for v in node.outputs if v)):
        if value in graph.types:
            write_value(proto.value_info.add(), value, graph.types[value])
