"""Reads a model's file with the onnx package into plain values; weights are read one by one and hashed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto

from workbench.checker.inference import bodies_of, expanded_nodes, nodes_within
from workbench.checker.messages import check_fields, filled
from workbench.checker.outcome import DoesNotHold, Unreadable, in_quotes
from workbench.checker.plain import (
    FunctionKey,
    PlainConstant,
    PlainFunction,
    PlainGraph,
    PlainModel,
    PlainNode,
    graph_from,
)
from workbench.checker.tensors import as_tensor, external_file, plain_constant
from workbench.checker.types import declared_type, plain_type

LARGEST_MODEL = 2**31 - 1  # bytes of a message of protobuf
_TEXT_SUFFIXES = (".onnxtxt", ".txt")
_CHUNK = 2**20
_FIRST_WITH_DEFAULTS = 4  # version of the IR; before it, every initializer is an input that callers cannot set


def sha256_of(path: str | os.PathLike[str]) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def read_proto(path: str | os.PathLike[str]) -> ModelProto:
    """The message in a file, ONNX or its textual syntax; external weights stay outside. Raises Unreadable."""
    name = os.path.basename(path)
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"{in_quotes(name)} is not a regular file")
        if status.st_size > LARGEST_MODEL:
            raise Unreadable(f"{in_quotes(name)} has {status.st_size:,} bytes, and the onnx package reads at most 2 GB")
        data = Path(path).read_bytes()
        if name.lower().endswith(_TEXT_SUFFIXES):
            return onnx.parser.parse_model(data.decode())
        model = ModelProto()
        model.ParseFromString(data)
    except OSError as error:
        raise Unreadable(f"{in_quotes(name)} cannot be read ({error.strerror or error})") from None
    except (DecodeError, UnicodeDecodeError, onnx.parser.ParseError):
        raise Unreadable(f"{in_quotes(name)} is not ONNX, or it was cut off") from None
    if not model.HasField("graph"):
        raise Unreadable(f"{in_quotes(name)} is not ONNX, or it was cut off")
    return model


def plain_model(model: ModelProto, folder: Path, name: str) -> PlainModel:
    """The model as plain values. Raises Unreadable, or DoesNotHold where a value has two producers."""
    check_fields(model, name)
    expanded_nodes(model)
    reader = _Reader(str(folder), name)
    graph = model.graph
    weight_files = _external_files(model, folder, name)
    initialized = {tensor.name for tensor in graph.initializer}
    inputs = {value.name: plain_type(value.type, name) for value in graph.input}
    if len(inputs) < len(graph.input):
        raise DoesNotHold(f"in {in_quotes(name)}, two inputs have one name")
    keys = [_key(function) for function in model.functions]
    _check_unique(keys, f"{in_quotes(name)} has two functions of one name")
    refused = next((key[1] for key in keys if not key[0] or key[0].startswith("ai.onnx.")), None)
    if refused is not None:
        raise Unreadable(f"{in_quotes(name)} has a function {in_quotes(refused)} in a domain of ONNX's own operators")
    return PlainModel(
        graph=reader.graph(graph, in_quotes(name), keep=True),
        types={
            **{value: type_ for value, type_ in inputs.items() if value not in initialized},
            **{value.name: plain_type(value.type, name) for value in graph.output},
        },
        functions={key: reader.function(proto) for key, proto in zip(keys, model.functions, strict=True)},
        opsets=_opsets(model.opset_import, in_quotes(name)),
        steps=tuple(reader.calls(graph)),
        feed_inputs={value: type_ for value, type_ in inputs.items() if _is_given(value, initialized, model)},
        defaults=frozenset(initialized.intersection(inputs)),
        declared=tuple(_declared(model, name)),
        weight_files=weight_files,
        proto=model,
        folder=folder,
    )


def _is_given(value: str, initialized: set[str], model: ModelProto) -> bool:
    """Whether a caller may give the input, which may have a default."""
    return value not in initialized or model.ir_version >= _FIRST_WITH_DEFAULTS


def _external_files(model: ModelProto, folder: Path, name: str) -> dict[str, Path]:
    """For each location, the files that hold weights of the model, all in its folder. Raises Unreadable."""
    results: dict[str, Path] = {}
    for tensor in _every_tensor(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        results[location] = results.get(location) or external_file(location, folder, name)
    return results


def _declared(model: ModelProto, name: str) -> Iterator[tuple[str, str, Any]]:
    """Where, value and type of each declaration of an inner value."""
    yield from (("", value.name, declared_type(value, name)) for value in model.graph.value_info)
    for function in model.functions:
        where = f"function {'.'.join(filter(None, _key(function)))}"
        yield from ((where, value.name, declared_type(value, name)) for value in function.value_info)
    for graph in (model.graph, *model.functions):
        for node in nodes_within(graph):
            for attribute, body in bodies_of(node):
                where = f"{next(filter(None, node.output), '')}.{attribute}"
                values = (*body.value_info, *body.input, *body.output)
                yield from ((where, value.name, declared_type(value, name)) for value in values)


def read_constants(model: PlainModel) -> dict[PlainConstant, TensorProto]:
    """The messages of the main graph's constants, by their plain form; those of external files are left out."""
    tensors = {tensor.name: tensor for tensor in model.proto.graph.initializer}
    for node in model.proto.graph.node:
        if _holds_constant(node):
            tensors[node.output[0]] = as_tensor(node.attribute[0])
    pairs = ((constant, tensors[name]) for name, constant in model.graph.constants.items() if name in tensors)
    return {constant: tensor for constant, tensor in pairs if tensor.data_location != TensorProto.EXTERNAL}


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
        names = [tensor.name for tensor in proto.initializer]
        if "" in names:
            raise Unreadable(f"in {where}, a constant has no name")
        _check_unique(names, f"in {where}, two constants have one name")
        constants = {tensor.name: self.contents(tensor) for tensor in proto.initializer}
        inputs = [value.name for value in proto.input]
        if keep:
            inputs = [value for value in inputs if value not in constants]
        outputs = [value.name for value in proto.output]
        all_constants = constants | self._constant_nodes(proto, constants)
        return graph_from(inputs, outputs, self.calls(proto), all_constants, where, keep)

    def function(self, proto: FunctionProto) -> PlainFunction:
        constants = self._constant_nodes(proto, {})
        where = f"the function {in_quotes(proto.name)} of {in_quotes(self.name)}"
        with_default = [attribute.name for attribute in proto.attribute_proto]
        _check_unique([*proto.attribute, *with_default], f"{where} has two parameters of one name")
        return PlainFunction(
            graph_from(proto.input, proto.output, self.calls(proto), constants, where),
            _opsets(proto.opset_import, where),
            frozenset(proto.attribute),
            {attribute.name: self._attribute(attribute) for attribute in proto.attribute_proto},
        )

    def calls(self, proto: GraphProto | FunctionProto) -> Iterator[PlainNode]:
        """The nodes, without those that hold a constant."""
        return (self.call(node) for node in proto.node if not _holds_constant(node))

    def call(self, node: NodeProto) -> PlainNode:
        names = [attribute.name for attribute in node.attribute]
        _check_unique(names, f"a {in_quotes(node.op_type)} of {in_quotes(self.name)} has two attributes of one name")
        return PlainNode(
            _domain(node.domain),
            node.op_type,
            node.overload,
            trimmed(tuple(node.input), _domain(node.domain)),
            trimmed(tuple(node.output), _domain(node.domain), node.op_type),
            {attribute.name: self._attribute(attribute) for attribute in node.attribute},
        )

    def _constant_nodes(
        self, proto: GraphProto | FunctionProto, known: dict[str, PlainConstant]
    ) -> dict[str, PlainConstant]:
        results: dict[str, PlainConstant] = {}
        for node in proto.node:
            if not _holds_constant(node):
                continue
            name = node.output[0]
            if name in known or name in results:
                raise DoesNotHold(f"in {in_quotes(self.name)}, {in_quotes(name)} has two producers")
            self._attribute(node.attribute[0])
            results[name] = self.contents(as_tensor(node.attribute[0]))
        return results

    def contents(self, tensor: TensorProto) -> PlainConstant:
        return plain_constant(tensor, self.folder, self.name)

    def _attribute(self, proto: AttributeProto) -> tuple[str, Any]:
        kind, fields = proto.type, filled(proto) - {"name", "type"}
        if kind not in _FIELDS:
            raise Unreadable(f"attribute {in_quotes(proto.name)} in {in_quotes(self.name)} has a kind that is not read")
        if proto.ref_attr_name:
            fields -= {"ref_attr_name", _FIELDS[kind]} if not getattr(proto, _FIELDS[kind]) else {"ref_attr_name"}
            self._check_no_others(fields, proto)
            return ("reference", (proto.ref_attr_name, kind))
        self._check_no_others(fields - {_FIELDS[kind]}, proto)
        value = getattr(proto, _FIELDS[kind])
        if kind in _LISTS and not value:
            return ("ints", ())  # an empty list in memory has no element type
        if kind == AttributeProto.INT:
            return ("int", value)
        if kind == AttributeProto.FLOAT:
            return ("float", float_bits(value))
        if kind == AttributeProto.STRING:
            return ("text", value)
        if kind == AttributeProto.INTS:
            return ("ints", tuple(value))
        if kind == AttributeProto.FLOATS:
            return ("floats", tuple(map(float_bits, value)))
        if kind == AttributeProto.STRINGS:
            return ("texts", tuple(value))
        if kind == AttributeProto.TENSOR:
            return ("tensor", self.contents(value))
        if kind == AttributeProto.GRAPH:
            return ("graph", self.graph(value, in_quotes(self.name)))
        if kind == AttributeProto.GRAPHS:
            return ("graphs", tuple(self.graph(body, in_quotes(self.name)) for body in value))
        return ("type", value.SerializeToString(deterministic=True))

    def _check_no_others(self, others: set[str], proto: AttributeProto) -> None:
        if others:
            names = ", ".join(sorted(others))
            raise Unreadable(f"attribute {in_quotes(proto.name)} in {in_quotes(self.name)} also has {names}")


def trimmed(names: tuple[str, ...], domain: str, op_type: str = "") -> tuple[str, ...]:
    """The names without omitted ones at the end, which count only for a Split and for operators of unknown domains."""
    if (not domain and op_type == "Split") or domain not in _KNOWN_DOMAINS:
        return names
    while names and not names[-1]:
        names = names[:-1]
    return names


def _check_unique(names: Iterable[Any], sentence: str) -> None:
    entries = list(names)
    if len(set(entries)) < len(entries):
        raise Unreadable(sentence)


def _opsets(entries: Iterable[OperatorSetIdProto], where: str) -> dict[str, int]:
    results = [(_domain(entry.domain), entry.version) for entry in entries]
    _check_unique([domain for domain, _ in results], f"{where} has two opsets of one domain")
    return dict(results)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _key(function: FunctionProto) -> FunctionKey:
    return (_domain(function.domain), function.name, function.overload)


_KNOWN_DOMAINS = ("", "ai.onnx.ml", "com.microsoft", "workbench")
_FIELDS = {
    AttributeProto.INT: "i",
    AttributeProto.FLOAT: "f",
    AttributeProto.STRING: "s",
    AttributeProto.INTS: "ints",
    AttributeProto.FLOATS: "floats",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.TYPE_PROTO: "tp",
}
_LISTS = (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS, AttributeProto.GRAPHS)
_CONSTANTS = {
    "value": AttributeProto.TENSOR,
    "value_int": AttributeProto.INT,
    "value_ints": AttributeProto.INTS,
    "value_float": AttributeProto.FLOAT,
    "value_floats": AttributeProto.FLOATS,
    "value_string": AttributeProto.STRING,
    "value_strings": AttributeProto.STRINGS,
}


def _holds_constant(node: NodeProto) -> bool:
    if node.op_type != "Constant" or _domain(node.domain) or len(node.attribute) != 1:
        return False
    if node.overload or any(node.input) or len(node.output) != 1 or not node.output[0]:
        return False
    attribute = node.attribute[0]
    return not attribute.ref_attr_name and attribute.type == _CONSTANTS.get(attribute.name)


def _every_tensor(model: ModelProto) -> Iterator[TensorProto]:
    """The tensors of a model: weights, and those in attributes, at any depth."""
    for graph in (model.graph, *model.functions):
        yield from graph.initializer if isinstance(graph, GraphProto) else ()
        attributes = [a for node in nodes_within(graph) for a in node.attribute]
        for attribute in (*attributes, *(graph.attribute_proto if isinstance(graph, FunctionProto) else ())):
            if attribute.HasField("t"):
                yield attribute.t
            for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from body.initializer
