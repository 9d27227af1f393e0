"""Nodes, constants, bodies and functions as a certificate writes them, read into plain values."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from workbench.checker.files import float_bits, trimmed
from workbench.checker.outcome import DoesNotHold, Unreadable, in_quotes
from workbench.checker.plain import FunctionKey, PlainConstant, PlainFunction, PlainGraph, PlainNode, graph_from
from workbench.checker.records import Fields, as_finite, as_int, as_list
from workbench.checker.types import PlainType

_SHA256 = re.compile(r"[0-9a-f]{64}")
_BYTES_IN_FULL = {6: 4, 7: 8}  # bytes of an element, by types whose small constants are written in full


def written_node(record: Fields) -> PlainNode:
    attributes = record.named("attributes")
    domain = record.text("domain") if record.has("domain") else ""
    return PlainNode(
        domain,
        record.text("op"),
        record.text("overload") if record.has("overload") else "",
        trimmed(record.texts("inputs"), domain),
        trimmed(record.texts("outputs"), domain, record.text("op")),
        {
            name: _attribute(Fields(attribute, f"{record.where}, attribute {in_quotes(name)}"))
            for name, attribute in attributes.items()
        },
    )


def written_contents(content: Any, where: str) -> PlainConstant:
    """The constant. Raises DoesNotHold if its numbers, where they are written in full, do not have its hash."""
    record = Fields(content, where)
    constant = PlainConstant(record.whole("type"), record.wholes("shape"), record.text("sha256"))
    if not _SHA256.fullmatch(constant.sha256):
        raise Unreadable(f"the certificate's {where} has no SHA-256 of 64 digits")
    if record.has("values"):
        size = _BYTES_IN_FULL.get(constant.dtype)
        numbers = record.wholes("values")
        if size is None or any(not -(256**size) <= 2 * n < 256**size for n in numbers):
            raise Unreadable(f"the certificate's {where} has values that are not of its element type")
        data = b"".join(n.to_bytes(size, "little", signed=True) for n in numbers)
        if hashlib.sha256(data).hexdigest() != constant.sha256:
            raise DoesNotHold(f"the values of the certificate's {where} are not those of its hash")
        constant = replace(constant, data=data)
    return constant


def written_constants(record: Fields, name: str) -> dict[str, PlainConstant]:
    contents = record.named(name)
    return {
        value: written_contents(content, f"{record.where}, constant {in_quotes(value)}")
        for value, content in contents.items()
    }


def written_function(record: Fields) -> tuple[FunctionKey, PlainFunction | None]:
    """A function with its key; None if it is removed."""
    key = (record.text("domain"), record.text("name"), record.text("overload"))
    if not record.has("graph"):
        return key, None
    return key, PlainFunction(
        _graph(record.record("graph")),
        written_opsets(record),
        frozenset(record.texts("parameters")),
        {
            name: _attribute(Fields(attribute, f"{record.where}, default of {in_quotes(name)}"))
            for name, attribute in record.named("defaults").items()
        },
    )


def written_opsets(record: Fields) -> dict[str, int]:
    return {
        domain: as_int(n, f"{record.where}, opset of {in_quotes(domain)}")
        for domain, n in record.named("opsets").items()
    }


def written_type(content: Any, where: str) -> PlainType:
    """The type of an input or output, as `types.declared_type` has it."""
    if content is None:
        return None
    parts = as_list(content, where)
    if len(parts) != 2:
        raise Unreadable(f"the certificate's {where} must be an element type and dims, or a kind and what it is of")
    if parts[0] == "map_type":
        pair = as_list(parts[1], where)
        if len(pair) != 2:
            raise Unreadable(f"the certificate's {where} must have a type of keys and one of values")
        return (parts[0], (as_int(pair[0], where), written_type(pair[1], where)))
    if isinstance(parts[0], str):
        return (parts[0], written_type(parts[1], where))
    dims = None if parts[1] is None else tuple(_dim(dim, where) for dim in as_list(parts[1], where))
    return (as_int(parts[0], where), dims)


def _dim(content: Any, where: str) -> int | str | None:
    return content if content is None or isinstance(content, str) else as_int(content, where)


def _graph(record: Fields) -> PlainGraph:
    return graph_from(
        record.texts("inputs"),
        record.texts("outputs"),
        [written_node(node) for node in record.records("nodes", "node")],
        written_constants(record, "constants"),
        f"the certificate's {record.where}",
    )


def _attribute(record: Fields) -> tuple[str, Any]:
    if len(record.fields) != 1:
        raise Unreadable(f"the certificate's {record.where} must have one field, its kind")
    ((kind, content),) = record.fields.items()
    if kind not in _READ:
        raise Unreadable(f"the certificate's {record.where} has the unknown kind {in_quotes(kind)}")
    value = _READ[kind](content, record.where)
    return ("ints", ()) if value == () else (kind, value)


def _bytes(content: Any, where: str) -> bytes:
    """Bytes that are written as text, or in hexadecimal if they are not text."""
    if isinstance(content, str):
        return content.encode(errors="surrogatepass")
    digits = Fields(content, where).text("bytes")
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise Unreadable(f"the certificate's {where} has bytes that are not hexadecimal") from None


def _each(read: Callable[[Any, str], Any]) -> Callable[[Any, str], tuple[Any, ...]]:
    return lambda content, where: tuple(read(item, where) for item in as_list(content, where))


def _float(content: Any, where: str) -> bytes:
    return float_bits(as_finite(content, where))


def _one_graph(content: Any, where: str) -> PlainGraph:
    return _graph(Fields(content, where))


def _reference(content: Any, where: str) -> tuple[str, int]:
    record = Fields(content, where)
    return record.text("name"), record.whole("type")


_READ: Mapping[str, Callable[[Any, str], Any]] = {
    "int": as_int,
    "float": _float,
    "text": _bytes,
    "ints": _each(as_int),
    "floats": _each(_float),
    "texts": _each(_bytes),
    "tensor": written_contents,
    "graph": _one_graph,
    "graphs": _each(_one_graph),
    "reference": _reference,
    "type": _bytes,
}
