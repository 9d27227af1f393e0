"""The inspector's content for a node, a value or a group at a moment of a history.

The result is JSON for the browser component: a title, a line, and sections of rows, texts, moments, drawings and
histograms. Every string is text, not markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx_ir

from workbench.analysis.inference.bound_shapes import bound_shape, bound_type, bytes_of_value
from workbench.analysis.metrics.transpose_cost import element_bytes
from workbench.errors import printable
from workbench.ir import AttrRef, Graph, Node, constant_type
from workbench.planning.fusion.opened_groups import OpenedGroups
from workbench.planning.layout.infer import TENSOR, infer_layouts
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.what_needs_transposes import what_needs_transpose
from workbench.presentation.view.constants import constant_section, first_values
from workbench.presentation.view.documents import document_section
from workbench.presentation.view.fused import fusion_rows, group_rows
from workbench.presentation.view.ids import CONSTANT_ID, GROUP_ID, INPUT_ID, OUTPUT_ID
from workbench.presentation.view.lineage import Lineage, constant_events, lives
from workbench.presentation.view.memory_order import MemoryOrder, caption, drawing, memory_order
from workbench.presentation.view.node_origin import Section, origin_sections
from workbench.presentation.view.node_rows import contract_rows, cost_rows, flops_of, numbers_in, refusal_rows
from workbench.presentation.view.quantization import quantization_rows
from workbench.presentation.view.why_not import PassReason
from workbench.rewrite import History, Pass, PassContext

_KINDS = {INPUT_ID: "Input", OUTPUT_ID: "Output", CONSTANT_ID: "Constant"}
_MAX_TEXT = 160  # characters of a shown name or attribute
_MAX_CONSTANTS = 8  # constants of a node with a section; the others are listed among its inputs
_MAX_READERS = 20
_MAX_DRAWINGS = 4
_MAX_SOURCES = 20  # nodes that a node replaces
_MAX_MOMENTS = 50  # rewrites that led to a node


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
    reasons: Sequence[PassReason] = (),
    lineage: Lineage | None = None,
    loaded: Graph | None = None,
) -> dict[str, Any]:
    """The content for `id` after `rewrites` rewrites of `step`; None: after all of them.

    id:      a node's name, or "in:<value>", "out:<value>", "const:<value>", "group:<path>".
    passes:  their rules say why they do not match the node at this moment.
    reasons: of the passes that ran, see `reasons_of`.
    groups, layouts: of this moment; lineage: of the history. They are computed if missing, slowly for a large model.
    target:  for the operator's class. members: the nodes of the group.
    loaded:  the graph with the nodes from which those of `history` stem; None: the graph as loaded of `history`.
    If the element does not exist at this moment, the content says when it does.
    """
    groups = groups if groups is not None else OpenedGroups(history.at(step, rewrites))
    graph = groups.opened
    layouts = layouts if layouts is not None else infer_layouts(graph)
    if id.startswith(GROUP_ID) and id not in graph:
        return inspect_group(groups, id.removeprefix(GROUP_ID), members)
    for prefix in (INPUT_ID, OUTPUT_ID, CONSTANT_ID):
        if id.startswith(prefix) and id not in graph:
            return inspect_value(history, graph, layouts, prefix, id.removeprefix(prefix))
    lineage = lineage or Lineage(history)
    content = inspect_node(history, step, groups, layouts, id, passes, target, reasons, lineage)
    node = graph.find(id)
    if node is not None:
        t = sum(len(one.rewrites) for one in history.steps[:step]) + len(history[step].rewrites[:rewrites])
        made, before = lineage.made(id, t), history.initial.provenance.get(id)
        content["sections"] = [*origin_sections(loaded or history.initial, node, made, before), *content["sections"]]
    return content


def inspect_node(
    history: History,
    step: int,
    groups: OpenedGroups,
    layouts: Mapping[str, str],
    name: str,
    passes: Sequence[Pass],
    target: Profile | None,
    reasons: Sequence[PassReason],
    lineage: Lineage,
) -> dict[str, Any]:
    """The content for a node; if it is not in the graph, when it is."""
    graph = groups.opened
    node = graph.find(name)
    if node is None:
        events = lineage.of(name)
        life = lives(name in history.initial, events)
        about = f"It is not in the graph at this moment; it {life}."
        moments = [event.to_json() for event in events]
        return _content(name, _short(name), about, [_moments("Where it was", moments), _pass_section(reasons)])
    context = PassContext(target, mode=history.mode, limits=history.limits)
    captured = [value for value in node.operands if value not in node.inputs]
    constants = [value for value in node.operands if value in graph.constants]
    sections = [
        _needs(graph, node, layouts, target),
        _rows("Attributes", [[key, _attribute(value)] for key, value in node.attributes.items()]),
        _values("Inputs", graph, layouts, (*node.inputs, *captured)),
        _values("Outputs", graph, layouts, node.outputs),
        _rows("Quantization", quantization_rows(history, step, graph, node)),
        _memory_orders(graph, layouts, (*node.outputs, *node.inputs)),
        *(_constant(graph, layouts, value) for value in constants[:_MAX_CONSTANTS]),
        _rows("Contract", contract_rows(graph, node, target)),
        _rows("Cost", cost_rows(graph, node)),
        _rows("Fusion", fusion_rows(groups, node, history.steps[: step + 1])),
        _origin(history, lineage, name),
        _pass_section(reasons),
        _rows("Why not here?", refusal_rows(graph, node, passes, context), ["pass", "rule", "reason"]),
        document_section(graph, node),
    ]
    return _content(name, f"{node.op}  {_short(name)}", f"{node.op_type} of {_domain(graph, node)}", sections)


def _needs(graph: Graph, node: Node, layouts: Mapping[str, str], target: Profile | None) -> Section:
    if node.op != "Transpose" or target is None:
        return {}
    return {"title": "What needs it", "open": True, "text": what_needs_transpose(graph, node, layouts, target)}


def inspect_value(
    history: History, graph: Graph, layouts: Mapping[str, str], prefix: str, value: str
) -> dict[str, Any]:
    """The content for an input, output or constant. prefix: the kind, one of _KINDS."""
    what, id_ = _KINDS[prefix], prefix + value
    title = f"{what}  {_short(value)}"
    tensor = graph.constant(value)
    events = constant_events(history, value) if prefix == CONSTANT_ID else []
    moments = _moments("Where it came from", [event.to_json() for event in events])
    exists = {INPUT_ID: graph.is_input(value), OUTPUT_ID: graph.is_output(value), CONSTANT_ID: tensor is not None}[
        prefix
    ]
    if not exists:
        life = lives(prefix == CONSTANT_ID and value in history.initial.constants, events)
        about = f"There is no {what.lower()} of that name in the graph at this moment; it {life}."
        return _content(id_, title, about, [moments])
    producer, readers = graph.producer(value), graph.users(value)
    ends = [["made by", f"{producer.op} {_short(producer.name)}"]] if producer is not None else []
    ends += [["read by", f"{reader.op} {_short(reader.name)}"] for reader in readers[:_MAX_READERS]]
    if len(readers) > _MAX_READERS:
        ends.append(["read by", f"{len(readers) - _MAX_READERS:,} more nodes"])
    order = _memory_orders(graph, layouts, (value,))
    sections = [_values("Value", graph, layouts, (value,)), order, _rows("Ends", ends), moments]
    if tensor is not None:
        sections.insert(1, _constant(graph, layouts, value))
    return _content(id_, title, f"{what} of the graph, of type {graph.type(value) or 'unknown'}", sections)


def inspect_group(groups: OpenedGroups, path: str, members: Iterable[str]) -> dict[str, Any]:
    """The content for a group: its operators, cost and constants, and the memory traffic of a fused group."""
    graph = groups.opened
    nodes = [node for name in members if (node := graph.find(name)) is not None]
    id_, title = GROUP_ID + path, _short(path.rpartition("/")[2] or path)
    if not nodes:
        return _content(id_, title, "None of its nodes is in the graph at this moment.", [])
    flops = [flops_of(graph, node) for node in nodes]
    written = [bytes_of_value(graph, value) for node in nodes for value in node.outputs if value]
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
    return _content(id_, title, about, [fused, _rows("Inside", inside), _rows("Operators", operators)])


# ---- sections; empty ones are omitted ------------------------------------------------


def _content(id_: str, title: str, about: str, sections: Sequence[Section]) -> dict[str, Any]:
    return {"id": id_, "title": title, "about": about, "sections": [s for s in sections if s]}


def _rows(title: str, rows: list[list[str]], head: list[str] | None = None) -> Section:
    if not rows:
        return {}
    return {"title": title, "open": True, **({"head": head} if head else {}), "rows": rows}


def _moments(title: str, moments: list[dict[str, Any]]) -> Section:
    return {"title": title, "open": True, "moments": moments} if moments else {}


def _pass_section(reasons: Sequence[PassReason]) -> Section:
    """The section of the passes that ran; a click on a row goes to the moment after that pass or its rewrite."""
    rows = [[f"{reason.step} {reason.title}", f"{reason.prefix}{reason.sentence}"] for reason in reasons]
    section = _rows("Every pass at this node", rows, ["step", "reason"])
    return {**section, "at": [reason.t for reason in reasons]} if rows else section


def _values(title: str, graph: Graph, layouts: Mapping[str, str], values: Sequence[str]) -> Section:
    """The section of values: name, type and layout; the bound type follows the declared one if they differ."""
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
    """The section of drawings of memory orders; values of equal layout and sizes share a drawing."""
    results: dict[MemoryOrder, list[str]] = {}
    for value in dict.fromkeys(filter(None, values)):
        order = memory_order(layouts.get(value, TENSOR), bound_shape(graph, value), element_bytes(graph, value))
        if order is not None:
            results.setdefault(order, []).append(_short(value))
    drawings = [
        {"words": f"{order.layout} of {', '.join(names)}", "about": caption(order), "svg": drawing(order)}
        for order, names in results.items()
    ]
    return {"title": "Memory order", "open": True, "drawings": drawings[:_MAX_DRAWINGS]} if drawings else {}


def _constant(graph: Graph, layouts: Mapping[str, str], value: str) -> Section:
    return constant_section(_short(value), graph.constants[value], layouts.get(value, TENSOR))


def _origin(history: History, lineage: Lineage, name: str) -> Section:
    sources = lineage.sources(name)
    made_before = name in history.initial and name in history.initial.provenance
    created = "A rewrite made or changed it." if made_before else "A rewrite created it."
    first = "It was in the model as loaded." if name in history.initial and not made_before else created
    more = len(sources) - _MAX_SOURCES
    source_text = ", ".join(sources[:_MAX_SOURCES]) + (f" and {more:,} more" if more > 0 else "")
    text = f"{first} It replaces {source_text}." if sources else first
    events = lineage.ancestry(name, _MAX_MOMENTS + 1)
    if len(events) > _MAX_MOMENTS:
        text += f" These are the last {_MAX_MOMENTS} of its rewrites."
    moments = [event.to_json() for event in events[-_MAX_MOMENTS:]]
    return {"title": "Where it came from", "open": True, "text": text, **({"moments": moments} if moments else {})}


# ---- words -----------------------------------------------------------------------------


def _domain(graph: Graph, node: Node) -> str:
    version = graph.opset_imports.get(node.domain)
    return f"{node.domain or 'ONNX'}{f', version {version}' if version else ''}"


def _attribute(value: Any) -> str:
    """The attribute's value in one line: a tensor as its type and first elements, a body as its size."""
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
    noun = what if missing > 1 else what.removesuffix("s")
    return f"{total}, without {missing:,} {noun} for which it is unknown" if missing else total


def _short(text: str, limit: int = _MAX_TEXT) -> str:
    """The text in one line without control characters; the middle of a long text is left out."""
    line = printable(text if len(text) <= 10 * limit else text[: 5 * limit] + text[-5 * limit :])
    return line if len(line) <= limit else f"{line[: limit // 2 - 2]}...{line[-(limit // 2 - 1) :]}"
