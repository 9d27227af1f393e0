"""Reads and writes model files without keeping weights in memory.

Reading: the file is memory-mapped. A tensor with large data is returned as an
external tensor that refers to its bytes in this file. Thus checks, opset
conversion and shape inference handle kilobytes, and weights are read when they
are used. Writing: the bytes of each weight are requested when their place in
the file is reached. Format: onnx.proto3 and
https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

import onnx
from google.protobuf.message import DecodeError, Message
from onnx import TensorProto

from workbench.ir.from_proto import NodeMetadata, bodies
from workbench.ir.graph import Graph
from workbench.ir.to_proto import LARGE, THIS_FILE, TensorPlace, graph_parts, is_large, model_without_graph, write_node
from workbench.ir.types import Constant, SparseConstant

MAX_DEPTH = 100  # protobuf's own limit of nesting

# Fields of each message whose submessages may hold tensors.
_NESTED = {
    "Model": {7: "Graph", 25: "Function"},
    "Graph": {1: "Node", 5: "Tensor"},
    "Function": {7: "Node", 11: "Attribute"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 11: "Graph"},  # lists of tensors, which no operator uses, are left unchanged
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_NODE, _GRAPH, _RAW_DATA = 1, 7, 9  # fields of a graph, of a model, of a tensor
_IR_VERSION = 1  # a field of a model
_NODE_METADATA = 9
_METADATA_KEY = bytes([_NODE_METADATA << 3 | _BYTES])
_PACKED = {4: TensorProto.FLOAT, 10: TensorProto.DOUBLE}  # typed data with the same bytes as raw data


class MalformedProtoError(ValueError):
    """The bytes are not protobuf."""


class TooDeepError(MalformedProtoError):
    """Messages are nested deeper than protobuf reads."""


def read_model(data: memoryview) -> tuple[onnx.ModelProto, NodeMetadata]:
    """The model in `data`, large tensors external at THIS_FILE, and the metadata of its nodes.

    torch writes a stack trace for each node, often nine tenths of a model without its weights, which
    each check would copy. Nodes of functions keep theirs. Raises MalformedProtoError.
    """
    model = onnx.ModelProto()
    metadata: NodeMetadata = {}
    try:
        model.ParseFromString(bytes(_stripped(data, 0, len(data), "Model", 0, metadata)))
    except DecodeError as error:
        raise (TooDeepError if "MaxDepth" in str(error) else MalformedProtoError)(str(error)) from error
    return model, metadata


def format_version(data: memoryview) -> tuple[int, int]:
    """The version of the format (IR) in a model's bytes and the index of its byte; (0, 0) if there is none.

    Raises MalformedProtoError.
    """
    for field, wire_type, _, value, _ in _fields(data, 0, len(data)):
        if (field, wire_type) == (_IR_VERSION, _VARINT):
            return data[value], value  # a version below 128 is one byte
    return 0, 0


def _stripped(
    data: memoryview, start: int, end: int, message: str, depth: int, metadata: NodeMetadata | None
) -> bytearray:
    """The message without large tensors. metadata: receives the metadata of nodes; None: nodes keep it."""
    if depth > MAX_DEPTH:
        raise TooDeepError("messages are nested too deep")
    out = bytearray()
    entries = []
    for field, wire_type, key_start, value, after in _fields(data, start, end):
        inner = _NESTED[message].get(field)
        if (message, field, wire_type) == ("Node", _NODE_METADATA, _BYTES) and metadata is not None:
            entries.append(bytes(data[value:after]))
        elif inner is None or wire_type != _BYTES or _is_unchanged(data, value, after, inner, metadata):
            out += data[key_start:after]
        else:
            inner_metadata = None if inner == "Function" else metadata
            is_tensor = inner == "Tensor"
            body = (
                _tensor(data, value, after)
                if is_tensor
                else _stripped(data, value, after, inner, depth + 1, inner_metadata)
            )
            out += _varint(field << 3 | _BYTES) + _varint(len(body)) + body
    if entries and metadata is not None:
        _keep_metadata(out, entries, metadata)
    return out


def _is_unchanged(data: memoryview, start: int, end: int, message: str, metadata: NodeMetadata | None) -> bool:
    """Whether the message is small and without node metadata."""
    if end - start > LARGE:
        return False
    if message == "Tensor" or metadata is None:
        return True
    inside = bytes(data[start:end])
    return _METADATA_KEY not in inside or (message == "Node" and _is_bare(inside))


def _is_bare(node: bytes) -> bool:
    """Whether the node has neither metadata nor bodies, so that the byte of the metadata key is other data."""
    try:
        proto = onnx.NodeProto.FromString(node)
    except DecodeError:
        return False  # reading the fields one by one then says what is wrong
    return not (proto.metadata_props or any(map(bodies, proto.attribute)))


def _keep_metadata(node: bytearray, entries: list[bytes], metadata: NodeMetadata) -> None:
    """Store the entries under the node's outputs. Invalid text stays in the node, for the checks to report."""
    proto = onnx.NodeProto.FromString(bytes(node))
    pairs = [onnx.StringStringEntryProto.FromString(entry) for entry in entries]
    try:
        texts = {sys.intern(pair.key): sys.intern(pair.value) for pair in pairs}
        metadata.setdefault(tuple(proto.output), []).append((proto.name, proto.op_type, texts))
    except TypeError:  # protobuf returns bytes for text that is not UTF-8
        for entry in entries:
            node += _METADATA_KEY + _varint(len(entry)) + entry


def _tensor(data: memoryview, start: int, end: int) -> bytes:
    """The tensor message, its data replaced by a place in this file if possible."""
    large = []
    rest = bytearray()
    for field, wire_type, key_start, value, after in _fields(data, start, end):
        if wire_type == _BYTES and after - value > LARGE and (field == _RAW_DATA or field in _PACKED):
            large.append((field, value, after))
        else:
            rest += data[key_start:after]
    if len(large) != 1:
        return bytes(data[start:end])
    field, value, after = large[0]
    tensor = TensorProto.FromString(bytes(rest))
    if field in _PACKED and tensor.data_type != _PACKED[field]:
        return bytes(data[start:end])
    entries = {"location": THIS_FILE, "offset": str(value), "length": str(after - value)}
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)
    tensor.data_location = TensorProto.EXTERNAL
    return bytes(tensor.SerializeToString())


def _fields(data: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(field, wire type, start of the key, start of the value, end) of each field."""
    key_start = start
    while key_start < end:
        key, value = _read_varint(data, key_start, end)
        field, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            _, after = _read_varint(data, value, end)
        elif wire_type == _BYTES:
            length, value = _read_varint(data, value, end)
            after = value + length
        elif wire_type in (_FIXED32, _FIXED64):
            after = value + (4 if wire_type == _FIXED32 else 8)
        else:
            raise MalformedProtoError(f"wire type {wire_type} at byte {key_start}")
        if field == 0 or after > end:
            raise MalformedProtoError(f"field {field} at byte {key_start} ends beyond its message")
        yield field, wire_type, key_start, value, after
        key_start = after


def _read_varint(data: memoryview, index: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while index < end and shift < 70:
        byte = data[index]
        index += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, index
        shift += 7
    raise MalformedProtoError(f"a number at byte {index} has no end")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# ---- writing ------------------------------------------------------------------------


def write_model(file: BinaryIO, graph: Graph, place_dense: TensorPlace | None = None, ir: int | None = None) -> None:
    """Write the graph as a model. Only one node is in memory at a time, and no weight but those that are sparse, and
    stay so.

    place_dense: as for `to_proto`. ir: the version of the format; None for the lowest that suffices.
    """
    weights: list[Constant] = []

    def numbered(tensor: Constant, name: str) -> Mapping[str, str] | None:
        if not is_large(tensor):
            return None
        weights.append(tensor)
        return {"location": THIS_FILE, "offset": str(len(weights) - 1)}

    def filled(message: Message, kind: str, known: int = 0) -> _Filled:
        """known: how many weights were numbered before this message."""
        data = memoryview(message.SerializeToString())
        parts = _filled(data, 0, len(data), kind, weights) if len(weights) > known else None
        return parts or (len(data), [data])

    dense = place_dense or numbered

    def place(tensor: Constant, name: str) -> Mapping[str, str] | onnx.SparseTensorProto | None:
        return tensor.message if name and isinstance(tensor, SparseConstant) else dense(tensor, name)

    pieces: list[_Piece] = []
    length = 0
    for node in graph.nodes:
        proto, known = onnx.NodeProto(), len(weights)
        write_node(proto, node, (graph,), place)
        size, parts = filled(proto, "Node", known)
        head = _varint(_NODE << 3 | _BYTES) + _varint(size)
        pieces += [head, *parts]
        length += len(head) + size
    for part in graph_parts(graph, place):
        size, parts = filled(part, "Graph")
        pieces += parts
        length += size
    _, model_pieces = filled(model_without_graph(graph, place, ir=ir), "Model")
    for piece in (*model_pieces, _varint(_GRAPH << 3 | _BYTES), _varint(length), *pieces):
        if isinstance(piece, bytes | memoryview):
            file.write(piece)
        else:
            write_weight(file, piece)


def write_message(file: BinaryIO, model: onnx.ModelProto, weights: Sequence[Constant]) -> None:
    """Write a model as it is; a tensor external at THIS_FILE with the offset i gets the elements of `weights[i]`."""
    data = memoryview(model.SerializeToString())
    filled = _filled(data, 0, len(data), "Model", weights)
    for piece in [data] if filled is None else filled[1]:
        if isinstance(piece, bytes | memoryview):
            file.write(piece)
        else:
            write_weight(file, piece)


def write_weight(file: BinaryIO, weight: Constant) -> None:
    """Write a weight's elements as ONNX stores them, little-endian; a mapped weight passes through memory in chunks."""
    weight.tofile(file)  # type: ignore[attr-defined]  # the protocol lacks it, every tensor of onnx_ir has it


_Piece = bytes | memoryview | Constant
_Filled = tuple[int, list[_Piece]]  # a message's length in bytes, and its pieces in order


def _filled(data: memoryview, start: int, end: int, message: str, weights: Sequence[Constant]) -> _Filled | None:
    """The message with its weights filled in; None if it has none."""
    size, pieces, plain = 0, [], start
    for field, wire_type, key_start, value, after in _fields(data, start, end):
        inner = _NESTED[message].get(field)
        if inner is None or wire_type != _BYTES:
            continue
        if inner == "Tensor":
            filled = _filled_tensor(data[value:after], weights)
        else:
            filled = _filled(data, value, after, inner, weights)
        if filled is None:
            continue
        length, parts = filled
        head = _varint(field << 3 | _BYTES) + _varint(length)
        size += key_start - plain + len(head) + length
        pieces += [data[plain:key_start], head, *parts]
        plain = after
    if not pieces:
        return None
    return size + end - plain, [*pieces, data[plain:end]]


def _filled_tensor(data: memoryview, weights: Sequence[Constant]) -> _Filled | None:
    tensor = TensorProto.FromString(bytes(data))
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if tensor.data_location != TensorProto.EXTERNAL or entries.get("location") != THIS_FILE:
        return None
    weight = weights[int(entries["offset"])]
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    head = tensor.SerializeToString() + _varint(_RAW_DATA << 3 | _BYTES) + _varint(weight.nbytes)
    return len(head) + weight.nbytes, [head, weight]
