"""Model files without their weights in memory: protobuf read and written in place.

Reading: the file is mapped, not read. Every tensor whose data is large comes
back as an external tensor that points at the bytes of this very file, so that
everything which looks at a model's structure (checks, opset conversion, shape
inference) handles kilobytes, and the weights are touched when they are used.
Writing is the same the other way round: each weight's bytes are asked for when
their place in the file has come. Format: onnx.proto3 and
https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import onnx
import onnx_ir
from google.protobuf.message import DecodeError
from onnx import TensorProto

from workbench.ir.graph import Graph
from workbench.ir.proto import to_model
from workbench.ir.types import Constant

THIS_FILE = "<this file>"  # the location of a tensor whose data is in the model file itself
LARGE = 1024  # bytes; smaller tensors stay where they are: shapes, axes, scales
MAX_DEPTH = 100  # protobuf's own limit of nesting

# Which fields of a message hold messages that may hold tensors.
_NESTED = {
    "Model": {7: "Graph", 25: "Function"},
    "Graph": {1: "Node", 5: "Tensor"},
    "Function": {7: "Node"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph"},
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_RAW_DATA = 9
_PACKED = {4: TensorProto.FLOAT, 10: TensorProto.DOUBLE}  # typed data that lies in the file as raw data would


class WireError(ValueError):
    """The bytes are not protobuf."""


class TooDeepError(WireError):
    """Messages are nested deeper than protobuf reads."""


def read_model(data: memoryview) -> onnx.ModelProto:
    """The model in `data`, its large tensors external at THIS_FILE. Raises WireError."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(bytes(_stripped(data, 0, len(data), "Model", 0)))
    except DecodeError as error:
        raise (TooDeepError if "MaxDepth" in str(error) else WireError)(str(error)) from error
    return model


def _stripped(data: memoryview, start: int, end: int, message: str, depth: int) -> bytearray:
    if depth > MAX_DEPTH:
        raise TooDeepError("messages are nested too deep")
    out = bytearray()
    for field, wire_type, at, value, after in _fields(data, start, end):
        inner = _NESTED[message].get(field)
        if inner is None or wire_type != _BYTES or after - value <= LARGE:
            out += data[at:after]
            continue
        body = _tensor(data, value, after) if inner == "Tensor" else _stripped(data, value, after, inner, depth + 1)
        out += _varint(field << 3 | _BYTES) + _varint(len(body)) + body
    return out


def _tensor(data: memoryview, start: int, end: int) -> bytes:
    """The tensor message, its data replaced by a place in this file where that is possible."""
    large = []
    rest = bytearray()
    for field, wire_type, at, value, after in _fields(data, start, end):
        if wire_type == _BYTES and after - value > LARGE and (field == _RAW_DATA or field in _PACKED):
            large.append((field, value, after))
        else:
            rest += data[at:after]
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
    return tensor.SerializeToString()


def _fields(data: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(field, wire type, start of the key, start of the value, end) of each field."""
    at = start
    while at < end:
        key, value = _read_varint(data, at, end)
        field, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            _, after = _read_varint(data, value, end)
        elif wire_type == _BYTES:
            length, value = _read_varint(data, value, end)
            after = value + length
        elif wire_type in (_FIXED32, _FIXED64):
            after = value + (4 if wire_type == _FIXED32 else 8)
        else:
            raise WireError(f"wire type {wire_type} at byte {at}")
        if field == 0 or after > end:
            raise WireError(f"field {field} at byte {at} ends beyond its message")
        yield field, wire_type, at, value, after
        at = after


def _read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    result = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
    raise WireError(f"a number at byte {at} has no end")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# ---- writing ------------------------------------------------------------------------


def without_weights(graph: Graph) -> tuple[onnx.ModelProto, list[Constant]]:
    """The graph's model, and its large constants; in the model each is external at THIS_FILE, its offset its number."""
    model = to_model(graph)
    weights: list[Constant] = []

    def left_out(tensor: Constant, name: str) -> onnx_ir.ExternalTensor:
        weights.append(tensor)
        shape = onnx_ir.Shape(tensor.shape.numpy())
        return onnx_ir.ExternalTensor(THIS_FILE, len(weights) - 1, tensor.nbytes, tensor.dtype, shape=shape, name=name)

    for inner in model.graphs():
        for name, value in inner.initializers.items():
            tensor = value.const_value
            if tensor is not None and _is_large(tensor):
                value.const_value = left_out(tensor, name)
    owners: tuple[onnx_ir.Graph | onnx_ir.Function, ...] = (model.graph, *model.functions.values())
    for owner in owners:
        for node in onnx_ir.traversal.RecursiveGraphIterator(owner):
            for name, attribute in node.attributes.items():
                tensor = attribute.value
                if attribute.type == onnx_ir.AttributeType.TENSOR and _is_large(tensor):
                    node.attributes[name] = onnx_ir.AttrTensor(name, left_out(tensor, tensor.name or ""))
    return onnx_ir.to_proto(model), weights


def _is_large(tensor: Constant) -> bool:
    return tensor.dtype != onnx_ir.DataType.STRING and tensor.nbytes > LARGE


def write_model(file: BinaryIO, model: onnx.ModelProto, weights: Sequence[Constant]) -> None:
    """Write `model` with the bytes of `weights` in the places that `without_weights` left."""
    data = model.SerializeToString()
    filled = _filled(memoryview(data), 0, len(data), "Model", weights)
    for piece in [data] if filled is None else filled[1]:
        if isinstance(piece, bytes):
            file.write(piece)
        else:
            write_weight(file, piece)


def write_weight(file: BinaryIO, weight: Constant) -> None:
    """Its bytes as ONNX stores them, little-endian; one that is mapped from a file goes through memory in pieces."""
    weight.tofile(file)  # type: ignore[attr-defined]  # the protocol lacks it, every tensor of onnx_ir has it


_Piece = bytes | Constant
_Filled = tuple[int, list[_Piece]]  # a message's length in bytes, and its pieces in order


def _filled(data: memoryview, start: int, end: int, message: str, weights: Sequence[Constant]) -> _Filled | None:
    """The message with its weights in place; None where it has none."""
    size, pieces, plain = 0, [], start
    for field, wire_type, at, value, after in _fields(data, start, end):
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
        head = bytes(data[plain:at]) + _varint(field << 3 | _BYTES) + _varint(length)
        size += len(head) + length
        pieces += [head, *parts]
        plain = after
    if not pieces:
        return None
    return size + end - plain, [*pieces, bytes(data[plain:end])]


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
