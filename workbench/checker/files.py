"""Reads a model's file with the onnx package into plain values; weights are read one by one and hashed."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from onnx.external_data_helper import load_external_data_for_tensor

from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.plain import (
    FunctionKey,
    PlainConstant,
    PlainFunction,
    PlainGraph,
    PlainModel,
    PlainNode,
    graph_from,
)

LARGEST_MODEL = 2**31 - 1  # bytes of a message of protobuf
_TEXT_SUFFIXES = (".onnxtxt", ".txt")
_PIECE = 2**20
# Element types whose numbers stand in `int32_data`, with their bytes in memory; those of four bits lie two in a byte.
_IN_INT32: dict[int, type[np.generic]] = {
    TensorProto.INT32: np.int32,
    **dict.fromkeys((TensorProto.INT16, TensorProto.UINT16, TensorProto.FLOAT16, TensorProto.BFLOAT16), np.uint16),
}
_PLAIN_DATA: dict[int, tuple[str, str]] = {
    TensorProto.FLOAT: ("float_data", "<f4"),
    TensorProto.COMPLEX64: ("float_data", "<f4"),
    TensorProto.DOUBLE: ("double_data", "<f8"),
    TensorProto.COMPLEX128: ("double_data", "<f8"),
    TensorProto.INT64: ("int64_data", "<i8"),
    TensorProto.UINT64: ("uint64_data", "<u8"),
    TensorProto.UINT32: ("uint64_data", "<u4"),
}


def sha256_of(path: str | os.PathLike[str]) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def read_proto(path: str | os.PathLike[str]) -> ModelProto:
    """The message in a file, ONNX or its textual syntax; external weights stay outside. Raises Unreadable."""
    name = os.path.basename(path)
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable(f"'{name}' is no plain file")
        if found.st_size > LARGEST_MODEL:
            raise Unreadable(f"'{name}' has {found.st_size:,} bytes, and the onnx package reads up to 2 GB")
        data = Path(path).read_bytes()
        if name.lower().endswith(_TEXT_SUFFIXES):
            return onnx.parser.parse_model(data.decode())
        model = ModelProto()
        model.ParseFromString(data)
    except OSError as error:
        raise Unreadable(f"'{name}' cannot be read ({error.strerror or error})") from None
    except (DecodeError, UnicodeDecodeError, onnx.parser.ParseError):
        raise Unreadable(f"'{name}' is not ONNX, or it was cut off") from None
    if not model.HasField("graph"):
        raise Unreadable(f"'{name}' is not ONNX, or it was cut off")
    return model


def _external_files(model: ModelProto, folder: Path, name: str) -> dict[str, Path]:
    """By location, the files that hold weights of the model, all in its folder. Raises Unreadable."""
    found = {}
    for tensor in _every_tensor(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        if location in found:
            continue
        place = folder / location
        inside = location and "\0" not in location and place.resolve().is_relative_to(folder.resolve())
        if not inside or not place.is_file():
            raise Unreadable(f"the weights of '{name}' in '{location}' are not a file beside it")
        found[location] = place
    return found


def plain_model(model: ModelProto, folder: Path, name: str) -> PlainModel:
    """The model as plain values. Raises Unreadable, or DoesNotHold where a value has two producers."""
    reader = _Reader(str(folder), name)
    graph = model.graph
    if graph.sparse_initializer:
        raise Unreadable(f"'{name}' has sparse weights, which are not read")
    beside = _external_files(model, folder, name)
    defaults = {tensor.name for tensor in graph.initializer}
    plain = reader.graph(graph, name, keep=True)
    inputs = [value for value in graph.input if value.name not in defaults]
    return PlainModel(
        graph=plain,
        types={value.name: declared_type(value) for value in (*inputs, *graph.output)},
        functions={_key(function): reader.function(function) for function in model.functions},
        opsets={_domain(entry.domain): entry.version for entry in model.opset_import},
        order=tuple(filter(None, (next(filter(None, n.output), "") for n in graph.node if not _holds_constant(n)))),
        inner_types={value.name: declared_type(value) for value in (*graph.value_info, *graph.input, *graph.output)},
        defaults=tuple(value.name for value in graph.input if value.name in defaults),
        beside=beside,
    )


def declared_type(value: ValueInfoProto) -> Any:
    """Of a tensor the number of its element type and its dims (numbers, names or None; None without a rank), else
    the kind of type."""
    kind = value.type.WhichOneof("value")
    if kind is None:
        return None
    if kind != "tensor_type":
        return (kind,)
    tensor = value.type.tensor_type
    if not tensor.elem_type:
        return None
    if not tensor.HasField("shape"):
        return (tensor.elem_type, None)
    dims = ((d.WhichOneof("value"), d) for d in tensor.shape.dim)
    return (tensor.elem_type, tuple(None if which is None else getattr(d, which) for which, d in dims))


def float_bits(value: float) -> bytes:
    """The bytes of a float32, in which attributes are stored; too large a number is an infinity."""
    with np.errstate(over="ignore"):
        return np.array(value, "<f4").tobytes()


class _Reader:
    """Reads parts of one model; `folder` has its external weights."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder = folder
        self.name = name

    def graph(self, proto: GraphProto, where: str, keep: bool = False) -> PlainGraph:
        constants = {tensor.name: self.contents(tensor) for tensor in proto.initializer if tensor.name}
        inputs = [value.name for value in proto.input if value.name not in constants]
        outputs = [value.name for value in proto.output]
        return graph_from(
            inputs, outputs, self.calls(proto), constants | self._constant_nodes(proto, constants), where, keep
        )

    def function(self, proto: FunctionProto) -> PlainFunction:
        constants = self._constant_nodes(proto, {})
        where = f"function {proto.name} of {self.name}"
        return PlainFunction(
            graph_from(proto.input, proto.output, self.calls(proto), constants, where),
            {_domain(entry.domain): entry.version for entry in proto.opset_import},
            frozenset(proto.attribute),
            {attribute.name: self._attribute(attribute) for attribute in proto.attribute_proto},
        )

    def calls(self, proto: GraphProto | FunctionProto) -> Iterator[PlainNode]:
        """The nodes, without those that hold a constant."""
        for node in proto.node:
            if not _holds_constant(node):
                yield PlainNode(
                    _domain(node.domain),
                    node.op_type,
                    node.overload,
                    trimmed(tuple(node.input)),
                    trimmed(tuple(node.output)),
                    {attribute.name: self._attribute(attribute) for attribute in node.attribute},
                )

    def _constant_nodes(
        self, proto: GraphProto | FunctionProto, known: dict[str, PlainConstant]
    ) -> dict[str, PlainConstant]:
        found: dict[str, PlainConstant] = {}
        for node in proto.node:
            if not _holds_constant(node):
                continue
            name = node.output[0]
            if name in known or name in found:
                raise DoesNotHold(f"in {self.name}, '{name}' has two producers")
            found[name] = self.contents(_as_tensor(node.attribute[0]))
        return found

    def contents(self, tensor: TensorProto) -> PlainConstant:
        if tensor.data_location == TensorProto.EXTERNAL:
            alone = TensorProto()
            alone.CopyFrom(tensor)
            try:
                load_external_data_for_tensor(alone, self.folder)
            except (ValueError, OSError, onnx.checker.ValidationError) as error:
                words = " ".join(str(error).split())[:160]
                raise Unreadable(f"weight '{tensor.name}' of '{self.name}' cannot be read ({words})") from None
            tensor = alone
        return PlainConstant(tensor.data_type, tuple(tensor.dims), hashlib.sha256(_elements(tensor)).hexdigest())

    def _attribute(self, proto: AttributeProto) -> tuple[str, Any]:
        if proto.ref_attr_name:
            return ("reference", (proto.ref_attr_name, proto.type))
        kind = proto.type
        if kind in _LISTS and not getattr(proto, _LISTS[kind]):
            return ("ints", ())  # in memory an empty list is one of nothing
        if kind == AttributeProto.INT:
            return ("int", proto.i)
        if kind == AttributeProto.FLOAT:
            return ("float", float_bits(proto.f))
        if kind == AttributeProto.STRING:
            return ("text", proto.s)
        if kind == AttributeProto.INTS:
            return ("ints", tuple(proto.ints))
        if kind == AttributeProto.FLOATS:
            return ("floats", tuple(map(float_bits, proto.floats)))
        if kind == AttributeProto.STRINGS:
            return ("texts", tuple(proto.strings))
        if kind == AttributeProto.TENSOR:
            return ("tensor", self.contents(proto.t))
        if kind == AttributeProto.GRAPH:
            return ("graph", self.graph(proto.g, self.name))
        if kind == AttributeProto.GRAPHS:
            return ("graphs", tuple(self.graph(body, self.name) for body in proto.graphs))
        if kind == AttributeProto.TYPE_PROTO:
            return ("type", proto.tp.SerializeToString(deterministic=True))
        raise Unreadable(f"attribute '{proto.name}' in '{self.name}' is of a kind that is not read")


def trimmed(names: tuple[str, ...]) -> tuple[str, ...]:
    """Without the omitted names at the end."""
    while names and not names[-1]:
        names = names[:-1]
    return names


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _key(function: FunctionProto) -> FunctionKey:
    return (_domain(function.domain), function.name, function.overload)


_LISTS = {
    AttributeProto.INTS: "ints",
    AttributeProto.FLOATS: "floats",
    AttributeProto.STRINGS: "strings",
    AttributeProto.GRAPHS: "graphs",
}
_CONSTANTS = frozenset(
    (
        AttributeProto.TENSOR,
        AttributeProto.INT,
        AttributeProto.INTS,
        AttributeProto.FLOAT,
        AttributeProto.FLOATS,
        AttributeProto.STRING,
        AttributeProto.STRINGS,
    )
)


def _holds_constant(node: NodeProto) -> bool:
    if node.op_type != "Constant" or _domain(node.domain) or len(node.attribute) != 1 or not any(node.output):
        return False
    return not node.attribute[0].ref_attr_name and node.attribute[0].type in _CONSTANTS


def _as_tensor(attribute: AttributeProto) -> TensorProto:
    """The tensor that a Constant node with this attribute is."""
    kind = attribute.type
    if kind == AttributeProto.TENSOR:
        return attribute.t
    if kind in (AttributeProto.STRING, AttributeProto.STRINGS):
        texts = [attribute.s] if kind == AttributeProto.STRING else list(attribute.strings)
        dims = [] if kind == AttributeProto.STRING else [len(texts)]
        return TensorProto(data_type=TensorProto.STRING, dims=dims, string_data=texts)
    if kind in (AttributeProto.INT, AttributeProto.INTS):
        numbers = [attribute.i] if kind == AttributeProto.INT else list(attribute.ints)
        dims = [] if kind == AttributeProto.INT else [len(numbers)]
        return TensorProto(data_type=TensorProto.INT64, dims=dims, int64_data=numbers)
    reals = [attribute.f] if kind == AttributeProto.FLOAT else list(attribute.floats)
    dims = [] if kind == AttributeProto.FLOAT else [len(reals)]
    return TensorProto(data_type=TensorProto.FLOAT, dims=dims, float_data=reals)


def _elements(tensor: TensorProto) -> bytes:
    if tensor.data_type == TensorProto.STRING:
        return b"".join(struct.pack("<q", len(text)) + text for text in tensor.string_data)
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    if tensor.data_type in _PLAIN_DATA:
        name, kind = _PLAIN_DATA[tensor.data_type]
        return np.array(getattr(tensor, name), dtype=kind).tobytes()
    numbers = np.array(tensor.int32_data, dtype=np.int32)
    return numbers.astype(_IN_INT32.get(tensor.data_type, np.uint8)).tobytes()


def _every_tensor(message: Message) -> Iterator[TensorProto]:
    """The tensors of a model: weights, and those in attributes, at any depth."""
    waiting: list[Any] = [message]
    while waiting:
        part = waiting.pop()
        if isinstance(part, TensorProto):
            yield part
        elif isinstance(part, ModelProto):
            waiting += [part.graph, *part.functions]
        elif isinstance(part, GraphProto):
            waiting += [*part.initializer, *part.node]
        elif isinstance(part, FunctionProto):
            waiting += [*part.node, *part.attribute_proto]
        elif isinstance(part, NodeProto):
            waiting += part.attribute
        elif isinstance(part, AttributeProto):
            own = ([part.t] if part.HasField("t") else []) + ([part.g] if part.HasField("g") else [])
            waiting += [*own, *part.tensors, *part.graphs]
