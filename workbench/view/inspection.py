"""The inspector's content for a node, a value or a group at a moment of the history.

The result is JSON for the browser component: a title, a line, and sections of rows, text,
moments and histograms. Every string is text, never markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx_ir

from workbench.errors import printable
from workbench.fusion.opened_groups import OpenedGroups
from workbench.inference.bound_shapes import bound_shape
from workbench.ir import AttrRef, Graph, Node, constant_type
from workbench.layout.infer import TENSOR, infer_layouts
from workbench.layout.profile import Profile
from workbench.metrics.transpose_cost import element_bytes
from workbench.rewrite import History, Pass
from workbench.view.constants import constant_section, first_values
from workbench.view.documents import document_section
from workbench.view.fused import fusion_rows, group_rows
from workbench.view.ids import CONSTANT_ID, GROUP_ID, INPUT_ID, OUTPUT_ID
from workbench.view.lineage import Lineage, constant_events, lives
from workbench.view.memory_order import MemoryOrder, caption, drawing, memory_order
from workbench.view.node_rows import bound_type, bytes_of, contract_rows, cost_rows, flops_of, numbers_in, refusal_rows
from workbench.view.why_not import PassSaid

_WORDS = {INPUT_ID: "Input", OUTPUT_ID: "Output", CONSTANT_ID: "Constant"}
_LONGEST = 160  # characters of a name or an attribute that are shown
_MOST_CONSTANTS = 8  # constants of one node that are read; the others are listed among its inputs
_MOST_READERS = 20
_MOST_DRAWINGS = 4
_MOST_SOURCES = 20  # nodes that it replaces
_MOST_MOMENTS = 50  # of its rewrites
_STACK = "stack_trace"

Section = dict[str, Any]


def inspect_element(
    history: History,
    step: int,
    rewrites: int | None,
    id: str,
    passes: Sequence[Pass] = (),
    *,
    groups: OpenedGroups | None = None,
    layouts: Mapping[str, str] | None = None,
    target: Profile | None = None,
    members: Iterable[str] = (),
    said: Sequence[PassSaid] = (),
    lineage: Lineage | None = None,
) -> dict[str, Any]:
    """The content for `id` after `rewrites` rewrites of `step` (None: after all).

    id:      a node's name, or "in:<value>", "out:<value>", "const:<value>", "group:<path>".
    passes:  whose rules say why they do not match the node at this moment; said: what the passes that ran said of it.
    groups, layouts: of that moment, and lineage, of the history, if the caller has them; else they are computed,
    slowly for a large model.
    target:  for the operator's class; members: the nodes of the group.
    If the element does not exist at that moment, the content says when it does.
    """
    groups = groups if groups is not None else OpenedGroups(history.at(step, rewrites))
    graph = groups.opened
    layouts = layouts if layouts is not None else infer_layouts(graph)
    if id.startswith(GROUP_ID) and id not in graph:
        return inspect_group(groups, id.removeprefix(GROUP_ID), members)
    for prefix in (INPUT_ID, OUTPUT_ID, CONSTANT_ID):
        if id.startswith(prefix) and id not in graph:
            return inspect_value(history, graph, layouts, prefix, id.removeprefix(prefix))
    return inspect_node(history, step, groups, layouts, id, passes, target, said, lineage or Lineage(history))


def inspect_node(
    history: History,
    step: int,
    groups: OpenedGroups,
    layouts: Mapping[str, str],
    name: str,
    passes: Sequence[Pass],
    target: Profile | None,
    messages: Sequence[PassSaid],
    lineage: Lineage,
) -> dict[str, Any]:
    """The node of that name; if it is not in the graph, when it is."""
    graph = groups.opened
    node = graph.find(name)
    if node is None:
        events = lineage.of(name)
        life = lives(name in history.initial, events)
        about = f"It is not in the graph at this moment; it {life}."
        moments = [event.said() for event in events]
        return _shown(name, _short(name), about, [_moments("Where it was", moments), _said(messages)])
    captured = [value for value in node.operands if value not in node.inputs]
    constants = [value for value in node.operands if value in graph.constants]
    sections = [
        _rows("Attributes", [[key, _attribute(value)] for key, value in node.attributes.items()]),
        _values("Inputs", graph, layouts, (*node.inputs, *captured)),
        _values("Outputs", graph, layouts, node.outputs),
        _memory_orders(graph, layouts, (*node.outputs, *node.inputs)),
        *(_constant(graph, layouts, value) for value in constants[:_MOST_CONSTANTS]),
        _rows("Contract", contract_rows(graph, node, target)),
        _rows("Cost", cost_rows(graph, node)),
        _rows("Fusion", fusion_rows(groups, node, history.steps[: step + 1])),
        _origin(history, lineage, name),
        _said(messages),
        _rows("Why not here?", refusal_rows(graph, node, passes, history.mode), ["pass", "rule", "what it says"]),
        *_exporter(node),
        document_section(graph, node),
    ]
    return _shown(name, f"{node.op}  {_short(name)}", f"{node.op_type} of {_domain(graph, node)}", sections)


def inspect_value(
    history: History, graph: Graph, layouts: Mapping[str, str], prefix: str, value: str
) -> dict[str, Any]:
    """An input, output or constant of the graph; `prefix` says which."""
    what, id_ = _WORDS[prefix], prefix + value
    title = f"{what}  {_short(value)}"
    tensor = graph.constant(value)
    events = constant_events(history, value) if prefix == CONSTANT_ID else []
    moments = _moments("Where it came from", [event.said() for event in events])
    there = {INPUT_ID: graph.is_input(value), OUTPUT_ID: graph.is_output(value), CONSTANT_ID: tensor is not None}[
        prefix
    ]
    if not there:
        life = lives(prefix == CONSTANT_ID and value in history.initial.constants, events)
        about = f"There is no {what.lower()} of that name in the graph at this moment; it {life}."
        return _shown(id_, title, about, [moments])
    producer, readers = graph.producer(value), graph.users(value)
    ends = [["made by", f"{producer.op} {_short(producer.name)}"]] if producer is not None else []
    ends += [["read by", f"{reader.op} {_short(reader.name)}"] for reader in readers[:_MOST_READERS]]
    if len(readers) > _MOST_READERS:
        ends.append(["read by", f"{len(readers) - _MOST_READERS:,} more nodes"])
    order = _memory_orders(graph, layouts, (value,))
    sections = [_values("Value", graph, layouts, (value,)), order, _rows("Ends", ends), moments]
    if tensor is not None:
        sections.insert(1, _constant(graph, layouts, value))
    return _shown(id_, title, f"{what} of the graph, of type {graph.type(value) or 'unknown'}", sections)


def inspect_group(groups: OpenedGroups, path: str, members: Iterable[str]) -> dict[str, Any]:
    """The nodes of a group: the number of each operator, their cost and constants; of a fused one what it moves."""
    graph = groups.opened
    nodes = [node for name in members if (node := graph.find(name)) is not None]
    id_, title = GROUP_ID + path, _short(path.rpartition("/")[2] or path)
    if not nodes:
        return _shown(id_, title, "None of its nodes is in the graph at this moment.", [])
    flops = [flops_of(graph, node) for node in nodes]
    written = [bytes_of(graph, value) for node in nodes for value in node.outputs if value]
    read = dict.fromkeys(value for node in nodes for value in node.operands)
    constants = [graph.constants[value] for value in read if value in graph.constants]
    inside = [
        ["nodes", f"{len(nodes):,}"],
        ["FLOPs", _sum(flops, "nodes")],
        ["bytes of results", _sum(written, "values")],
        ["parameters", f"{numbers_in(constants):,}"],
        ["bytes of parameters", f"{sum(tensor.nbytes for tensor in constants):,}"],
    ]
    counts = Counter(node.op for node in nodes)
    operators = [[op, f"{count:,}"] for op, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    about = "One node at this moment" if len(nodes) == 1 else f"{len(nodes):,} nodes at this moment"
    fused = _rows("Fused", group_rows(groups, path.rpartition("/")[2]))
    return _shown(id_, title, about, [fused, _rows("Inside", inside), _rows("Operators", operators)])


# ---- sections; empty ones are omitted ------------------------------------------------


def _shown(id_: str, title: str, about: str, sections: Sequence[Section]) -> dict[str, Any]:
    return {"id": id_, "title": title, "about": about, "sections": [s for s in sections if s]}


def _rows(title: str, rows: list[list[str]], head: list[str] | None = None) -> Section:
    if not rows:
        return {}
    return {"title": title, "open": True, **({"head": head} if head else {}), "rows": rows}


def _moments(title: str, moments: list[dict[str, Any]]) -> Section:
    return {"title": title, "open": True, "moments": moments} if moments else {}


def _said(messages: Sequence[PassSaid]) -> Section:
    """What each pass said of the node; a click on a row goes to the moment after that pass, or after its rewrite."""
    rows = [[f"{message.step} {message.title}", f"{message.by}{message.sentence}"] for message in messages]
    section = _rows("Every pass at this node", rows, ["step", "reason"])
    return {**section, "at": [message.t for message in messages]} if rows else section


def _values(title: str, graph: Graph, layouts: Mapping[str, str], values: Sequence[str]) -> Section:
    """Name, type and layout of each; if symbolic dims are bound, the bound type after the declared one."""
    rows = []
    for value in values:
        if not value:
            rows.append(["left out", "", ""])
            continue
        declared, bound = str(graph.type(value) or "unknown"), bound_type(graph, value)
        type_ = declared if bound is None or str(bound) == declared else f"{declared}, here {bound}"
        rows.append([_short(value), type_, layouts.get(value, TENSOR)])
    return _rows(title, rows, ["name", "type", "layout"])


def _memory_orders(graph: Graph, layouts: Mapping[str, str], values: Sequence[str]) -> Section:
    """A drawing for each value whose elements have an order; values of which the same is drawn share one."""
    results: dict[MemoryOrder, list[str]] = {}
    for value in dict.fromkeys(filter(None, values)):
        order = memory_order(layouts.get(value, TENSOR), bound_shape(graph, value), element_bytes(graph, value))
        if order is not None:
            results.setdefault(order, []).append(_short(value))
    drawings = [
        {"words": f"{order.layout} of {', '.join(names)}", "about": caption(order), "svg": drawing(order)}
        for order, names in results.items()
    ]
    return {"title": "Memory order", "open": True, "drawings": drawings[:_MOST_DRAWINGS]} if drawings else {}


def _constant(graph: Graph, layouts: Mapping[str, str], value: str) -> Section:
    return constant_section(_short(value), graph.constants[value], layouts.get(value, TENSOR))


def _origin(history: History, lineage: Lineage, name: str) -> Section:
    sources = lineage.sources(name)
    first = "It was in the model as loaded." if name in history.initial else "A rewrite created it."
    more = len(sources) - _MOST_SOURCES
    made_of = ", ".join(sources[:_MOST_SOURCES]) + (f" and {more:,} more" if more > 0 else "")
    text = f"{first} It replaces {made_of}." if sources else first
    events = lineage.ancestry(name, _MOST_MOMENTS + 1)
    if len(events) > _MOST_MOMENTS:
        text += f" These are the last {_MOST_MOMENTS} of its rewrites."
    moments = [event.said() for event in events[-_MOST_MOMENTS:]]
    return {"title": "Where it came from", "open": True, "text": text, **({"moments": moments} if moments else {})}


def _exporter(node: Node) -> list[Section]:
    """The node's metadata from the exporter; the stack trace as text, folded."""
    traces = [key for key in node.metadata if key.endswith(_STACK)]
    rows = [[key, _short(value, 1000)] for key, value in node.metadata.items() if key not in traces]
    folded = [{"title": "Stack trace", "open": False, "text": node.metadata[key]} for key in traces]
    return [{**_rows("Exporter", rows), "open": False} if rows else {}, *folded]


# ---- words -----------------------------------------------------------------------------


def _domain(graph: Graph, node: Node) -> str:
    version = graph.opset_imports.get(node.domain)
    return f"{node.domain or 'ONNX'}{f', version {version}' if version else ''}"


def _attribute(value: Any) -> str:
    """The attribute's value in a line: a tensor by its type and first elements, a body by its size."""
    if isinstance(value, Graph):
        return f"a body of {len(value):,} node{'' if len(value) == 1 else 's'}"
    if isinstance(value, AttrRef):
        return f"the function's attribute {value.name}"
    if isinstance(value, tuple):
        return _short(f"[{', '.join(map(_attribute, value))}]")
    if isinstance(value, onnx_ir.TensorProtocol):
        return _short(f"{constant_type(value)}: {first_values(value)}")
    return _short(str(value))


def _sum(numbers: list[int | None], what: str) -> str:
    missing = numbers.count(None)
    total = f"{sum(filter(None, numbers)):,}"
    several = what if missing > 1 else what.removesuffix("s")
    return f"{total}, without {missing:,} {several} for which it is unknown" if missing else total


def _short(text: str, most: int = _LONGEST) -> str:
    """The text in one line without control characters; the middle of a long one is omitted."""
    line = printable(text if len(text) <= 10 * most else text[: 5 * most] + text[-5 * most :])
    return line if len(line) <= most else f"{line[: most // 2 - 2]}...{line[-(most // 2 - 1) :]}"
