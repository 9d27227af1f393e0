"""Rewrites a graph for an older opset, with equivalent calls, and lists the operators that have none there."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Iterator

from workbench.formats.opsets.downgrades import DOWNGRADES
from workbench.formats.opsets.flattening import OVER_ONE_AXIS, with_flattening_calls
from workbench.formats.opsets.forms import in_form_before, since_version
from workbench.formats.opsets.scope import Names, NoOlderForm, Scope
from workbench.ir import Edit, Function, Graph, Node
from workbench.ir.function_calls import graphs_within
from workbench.ir.node import AttrRef
from workbench.ir.versioned import fixed_opset, opset_of_domain, plain_imports


class NotWritable(Exception):
    """A call has no equivalent at an opset. since: the oldest opset at which it has one."""

    def __init__(self, op_type: str, since: int) -> None:
        super().__init__(f"{op_type} needs opset {since}")
        self.op_type, self.since = op_type, since


def newer_than(graph: Graph, opset: int, without: Container[str] = ()) -> dict[str, int]:
    """The operators of the graph that cannot be written at the opset, and the oldest opset at which each can.

    Bodies and functions are included. without: operators that are left out.
    """
    present, result = graph.opset_imports.get("", 0), dict[str, int]()
    if present <= opset:
        return result
    scope_of_graph = Scope(graph, _names(graph), graph.file_opset)
    scopes = [
        scope_of_graph,
        *(Scope(function.graph, scope_of_graph.names, graph.file_opset) for function in graph.functions.values()),
    ]
    while scopes:
        scope = _with_flattening_calls(scopes.pop(), present, opset)
        for node in scope.graph.nodes:
            if node.op not in without and not _is_attribute(node, scope, present, opset):
                _add_unwritable(node, scope, present, opset, result)
            scopes += [dataclasses.replace(scope, graph=body, outside=scope) for body in node.bodies.values()]
    return result


def newer_in_edit(graph: Graph, edit: Edit, opset: int) -> str | None:
    """The first inserted operator that needs a newer opset than `opset` and all removed nodes; None if none does."""
    present = graph.opset_imports.get("", 0)
    if present <= opset:
        return None
    scope = Scope(graph, Names(set()), graph.file_opset, types=edit.types, constants=dict(edit.constants))
    removed: dict[str, int] = {}
    for name in edit.remove:
        _add_unwritable(graph.node(name), scope, present, opset, removed)
    inserted: dict[str, int] = {}
    for node in edit.insert:
        _add_unwritable(node, scope, present, max([opset, *removed.values()]), inserted)
    return next(iter(inserted), None)


def opset_of_edit(graph: Graph, edit: Edit, opset: int) -> int:
    """The oldest opset from `opset` on at which all inserted nodes can be written."""
    present, newer = graph.opset_imports.get("", 0), dict[str, int]()
    if present <= opset:
        return present
    scope = Scope(graph, Names(set()), graph.file_opset, types=edit.types, constants=dict(edit.constants))
    for node in edit.insert:
        _add_unwritable(node, scope, present, opset, newer)
    return max([opset, *newer.values()])


def _add_unwritable(node: Node, scope: Scope, present: int, opset: int, results: dict[str, int]) -> None:
    try:
        for _ in _calls_at(node, scope, present, opset):
            pass
    except NotWritable as error:
        results[error.op_type] = max(error.since, results.get(error.op_type, 0))


def lowered_to(graph: Graph, opset: int) -> Graph:
    """A copy of the graph in the forms of an older opset, as a file has it.

    Calls in their own form are in ONNX's domain again. Raises NotWritable for the first call without an older form.
    """
    present = graph.opset_imports.get("", 0)
    if present <= opset and fixed_opset(graph.opset_imports) is None:
        return graph
    names = _names(graph)
    result = _graph_at(graph, Scope(graph, names, graph.file_opset), present, opset)
    result.functions = {
        key: _function_at(function, Scope(function.graph, names, graph.file_opset), present, opset)
        for key, function in graph.functions.items()
    }
    return result


def _function_at(function: Function, scope: Scope, present: int, opset: int) -> Function:
    """The function at `opset`, or at that of the calls in it that are in their own form."""
    own = fixed_opset(function.graph.opset_imports) or opset
    return dataclasses.replace(function, graph=_graph_at(function.graph, scope, present, own))


def _graph_at(graph: Graph, scope: Scope, present: int, opset: int) -> Graph:
    scope = _with_flattening_calls(scope, present, opset)
    graph = scope.graph
    result = graph.copy()
    removed, inserted = [], []
    for node in graph.nodes:
        if _is_attribute(node, scope, present, opset):
            removed.append(node.name)
            continue
        calls = [_with_bodies_at(call, scope, present, opset) for call in _calls_at(node, scope, present, opset)]
        if calls != [node]:
            removed.append(node.name)
            inserted += calls
    result.inputs += result.captured  # an edit would refuse them as undefined
    result.apply(Edit(remove=tuple(removed), insert=tuple(inserted), constants=scope.constants))
    result.inputs = graph.inputs
    result.opset_imports = plain_imports(result.opset_imports)
    if "" in result.opset_imports:
        result.opset_imports[""] = opset
    return result


def _with_flattening_calls(scope: Scope, present: int, opset: int) -> Scope:
    if not opset < OVER_ONE_AXIS <= present:
        return scope
    return dataclasses.replace(scope, graph=with_flattening_calls(scope.graph, opset))


def _is_attribute(node: Node, scope: Scope, present: int, opset: int) -> bool:
    """Whether the node holds an attribute of the function around it, which at `opset` all readers have as their own."""
    if node.op != "Constant" or not any(isinstance(value, AttrRef) for value in node.attributes.values()):
        return False
    (value,) = node.outputs
    try:
        return not scope.graph.is_output(value) and all(
            value not in call.operands
            for reader in scope.graph.users(value)
            for call in _calls_at(reader, scope, present, opset)
        )
    except NotWritable:
        return False


def _with_bodies_at(node: Node, scope: Scope, present: int, opset: int) -> Node:
    if not node.bodies:
        return node

    def body_at(body: Graph) -> Graph:
        return _graph_at(body, dataclasses.replace(scope, graph=body, outside=scope, constants={}), present, opset)

    return node.with_bodies({key: body_at(body) for key, body in node.bodies.items()})


def _calls_at(node: Node, scope: Scope, present: int, opset: int) -> Iterator[Node]:
    """The calls at `opset` that are equivalent to a call valid at `present`; other domains stay. Raises NotWritable."""
    if opset_of_domain(node.domain) is not None:
        yield node.replace(domain="")
        return
    since = 0 if node.domain else since_version(node.op_type, present)
    if since <= opset:
        yield node
        return
    try:
        calls = _calls_before(node, scope, since)
    except NoOlderForm:
        raise NotWritable(node.op_type, since) from None
    for call in calls:
        yield from _calls_at(call, scope, since - 1, opset)


def _calls_before(node: Node, scope: Scope, since: int) -> list[Node]:
    downgrade = DOWNGRADES.get((node.op_type, since))
    calls: Iterable[Node] = [node] if downgrade is None else downgrade(node, scope)
    return [in_form_before(call, scope, since) if call.op_type == node.op_type else call for call in calls]


def _names(graph: Graph) -> Names:
    """All names of values and nodes, including those of bodies and functions."""
    taken: set[str] = set()
    for inner in graphs_within(graph, graph.functions):
        taken.update(inner.values(), inner.captured, (node.name for node in inner.nodes))
    return Names(taken)
