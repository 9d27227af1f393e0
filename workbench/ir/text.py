"""ONNX's textual syntax: examples, tests and the text view use it.

Syntax: https://github.com/onnx/onnx/blob/main/docs/Syntax.md
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import parser, printer

from workbench.ir.from_proto import from_proto
from workbench.ir.graph import Graph
from workbench.ir.node import Node
from workbench.ir.to_proto import to_proto
from workbench.ir.types import Constant, constant_shape

OPSET = 23  # the opset of a text without an opset import
SHOWN_ELEMENTS = 16  # the elements of larger constants are omitted


class TextError(ValueError):
    """The text is not valid ONNX text; the message gives the line and what was expected."""


def parser_message(error: parser.ParseError) -> str:
    """The message of the parser, which has it as bytes, on one line."""
    message = error.args[0] if error.args else ""
    return " ".join((message.decode(errors="replace") if isinstance(message, bytes) else str(message)).split())


def from_text(text: str) -> Graph:
    """A graph from the text of a model, or of a graph alone (`g (float[2] x) => (...) {...}`).

    Nodes are named as when loading: after their first output.
    """
    is_model = text.lstrip().startswith("<")
    header = "" if is_model else f'<ir_version: 10, opset_import: ["": {OPSET}, "workbench": 1]>\n'
    try:
        model = parser.parse_model(header + text)
    except parser.ParseError as error:
        raise TextError(parser_message(error)) from None
    graph = from_proto(model)
    if not is_model and not any(node.domain == "workbench" for node in graph.nodes):
        graph.opset_imports.pop("workbench")
    return graph


def to_text(graph: Graph, *, functions: bool = True) -> str:
    """The graph as text, which `from_text` reads.

    A constant of more than 16 elements is written as `["location": "..."]`, its
    elements omitted: the text is for reading.
    """
    model = to_proto(graph, _elided, metadata=False)
    if not functions:
        del model.functions[:]
    model.ClearField("producer_name")
    del model.metadata_props[:]
    _drop_types(model.graph)
    try:
        return printer.to_text(model).strip() + "\n"
    except UnicodeDecodeError:  # an attribute or constant of strings that are not UTF-8
        _escape_bytes(model)
        return printer.to_text(model).strip() + "\n"


def _escape_bytes(message: Message) -> None:
    for field, value in message.ListFields():
        items = value if field.is_repeated else (value,)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for item in items:
                _escape_bytes(item)
        elif field.name in ("strings", "string_data"):
            value[:] = [data.decode(errors="backslashreplace").encode() for data in items]
        elif field.name == "s":
            message.s = value.decode(errors="backslashreplace").encode()


def graph_text(graph: Graph) -> str:
    """The main graph alone, without the model's header and functions."""
    text = to_text(graph, functions=False)
    return text[text.index(">\n", text.index("opset_import")) + 2 :]


def _elided(tensor: Constant, name: str) -> Mapping[str, str] | None:
    """A place for the elements of a large constant, which are omitted; the syntax cannot omit those of an attribute."""
    return {"location": name} if name and math.prod(constant_shape(tensor)) > SHOWN_ELEMENTS else None


def _drop_types(graph: onnx.GraphProto) -> None:
    """Types of intermediate values can be inferred; omitting them keeps the text readable."""
    del graph.value_info[:]


def node_line(node: Node) -> str:
    """The node on one line, as ONNX prints it; tensors and bodies in attributes are only named."""
    attributes = ", ".join(f"{key} = {_in_short(value)}" for key, value in node.attributes.items())
    attribute_text = f" <{attributes}>" if attributes else ""
    return f"[{node.name}] {', '.join(node.outputs)} = {node.op}{attribute_text} ({', '.join(node.inputs)})"


def _in_short(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, Graph):
        return f"{{{len(value):,} nodes}}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_in_short, value))}]"
    return f"({type(value).__name__})"
