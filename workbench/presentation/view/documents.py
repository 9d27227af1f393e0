"""The documentation of an operator as plain text, from the installed onnx package."""

from __future__ import annotations

import html
import re
from typing import Any

from workbench.ir import Graph, Node
from workbench.ir.function_calls import function_key
from workbench.ir.text import OPSET
from workbench.ops.channels_last import DOMAIN

_TAGS = re.compile(r"</?[A-Za-z][^<>]*>")  # not "a < b"
_LINKS = re.compile(r"\[([^\]]+)\]\((?:https?:|#|\w+\.md)[^)]*\)")
_MARKS = re.compile(r"\*\*|`{1,3}(?:\w+\n)?")


def document_section(graph: Graph, node: Node) -> dict[str, Any]:
    """The operator's documentation as a folded section of the inspector."""
    return {"title": f"Documentation of {node.op}", "open": False, "text": document(graph, node)}


def document(graph: Graph, node: Node) -> str:
    """The operator's documentation at the model's opset; a sentence if there is none."""
    function = graph.functions.get(function_key(node))
    if function is not None:
        return f"A function of the model. Its body is: {_operators(function.graph)}."
    if node.domain == DOMAIN:
        return _own(node, graph.opset_imports.get("") or OPSET)
    from onnx import defs

    version = graph.opset_imports.get(node.domain)
    try:
        latest = defs.onnx_opset_version()
        schema = defs.get_schema(node.op_type, version or (1 if node.domain else latest), node.domain)
    except defs.SchemaError:
        return f"ONNX documents no operator {node.op} of version {version or 'unknown'}."
    parts = [plain_text(schema.doc or "")]
    for title, operands in (("Inputs", schema.inputs), ("Outputs", schema.outputs)):
        lines = [f"  {o.name} ({o.type_str}): {_one_line(o.description)}" for o in operands]
        parts.append("\n".join([title, *lines]) if lines else "")
    attributes = [f"  {name}: {_one_line(a.description)}" for name, a in sorted(schema.attributes.items())]
    parts.append("\n".join(["Attributes", *attributes]) if attributes else "")
    parts.append(f"Since version {schema.since_version} of {node.domain or 'ONNX'}.")
    return "\n\n".join(filter(None, parts))


def plain_text(text: str) -> str:
    """The text without tags, links and emphasis of Markdown and HTML; line breaks are kept."""
    text = re.sub(r"<br\s*/?>", "\n", text)
    text = _MARKS.sub("", _LINKS.sub(r"\1", _TAGS.sub("", text)))
    lines = [line.rstrip() for line in html.unescape(text).strip().splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def _one_line(text: str) -> str:
    return " ".join(plain_text(text).split())


def _own(node: Node, opset: int) -> str:
    from workbench.ops.npu import is_own, own_function

    if not is_own(node.op_type):
        return f"{node.op} has no document: it is not an operator of Graph Workbench."
    body = own_function(node.op_type, opset).graph
    return f"An operator of Graph Workbench; an exported file has it as a function. Its body is: {_operators(body)}."


def _operators(graph: Graph) -> str:
    return ", ".join(node.op for node in graph.nodes) or "nothing"
