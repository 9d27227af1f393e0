"""What a tool changed, as edits: two graphs matched by the names and the numbers of their values.

Values that both graphs have, with the same numbers and mostly the same name, are shared. A node that computes the
same results by the same operator from the same operands is unchanged; constants are the same if their elements are.
The other nodes of both graphs form the changes. Two nodes belong to one change if they exchange a value that is not
shared, or if both compute the same shared value. So a change reads and computes shared values only, and each can be
applied, undone and left out alone.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from workbench.errors import quoted
from workbench.ir import Constant, Edit, EditError, Graph, Node
from workbench.ir.attribute_defaults import defaults_at
from workbench.rewrite.core.content import attribute_key, elements_key
from workbench.rewrite.external.tool_call import ToolError
from workbench.rewrite.patterns.schemas import opset_of_node

if TYPE_CHECKING:
    import networkx

_MAX_NAMED = 3  # names in a sentence
_BEFORE, _AFTER = "before", "after"  # the graph to which a node belongs


@dataclass(frozen=True)
class Change:
    """`removed` nodes become `inserted` nodes and `folded` values, which become constants."""

    edit: Edit
    removed: tuple[Node, ...]
    inserted: tuple[Node, ...]
    folded: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """changes: in an order in which each can be applied. other_values: values whose name now means other numbers."""

    changes: tuple[Change, ...]
    other_values: tuple[str, ...]


def difference(before: Graph, after: Graph, same: Mapping[str, str] | None) -> Difference:
    """The changes that lead from one graph to the other. A value of `after` gets a new name if `before` has another
    value of its name.

    same: by value of `after`, a value of `before` with the same numbers; None: equal names stand for equal values.
    Outputs are shared whatever their numbers, so that a wrong result stays visible. If an output is wrong, other values
    of equal name are shared too, unless a value of other name has the same numbers. Raises ToolError.
    """
    _check_interface(before, after)
    before_values, after_values = _computed(before), _computed(after)
    named = {v for v in before_values & {*after_values, *after.constants} if _of_one_type(before, after, v)}
    matches = {value: value for value in named} if same is None else same
    interface = {*before.inputs, *before.outputs}
    if any(value not in matches for value in before.outputs):  # else all nodes after the fault would be one change
        matches = {v: v for v in (named & after_values).difference(matches.values())} | {**matches}
    shared_names = {
        a: b
        for a, b in matches.items()
        if b in before_values and (a in after_values or a == b) and not interface & {a, b}
    }
    shared_names |= {value: value for value in interface}
    shared = {*shared_names.values()}
    changes = _changes(before, _with_distinct_names(before, after, shared_names), shared)
    others = (value for value in before_values & after_values if shared_names.get(value) != value)
    return Difference(tuple(_in_order(before, changes)), tuple(sorted(others)))


def _of_one_type(before: Graph, after: Graph, value: str) -> bool:
    """Whether a value may have the same element type in both graphs."""
    first, second = (graph.tensor_type(value) for graph in (before, after))
    return first is None or second is None or first.dtype == second.dtype


def _check_interface(before: Graph, after: Graph) -> None:
    if after.outputs != before.outputs:
        after_outputs, before_outputs = (quoted(graph.outputs, _MAX_NAMED) for graph in (after, before))
        raise ToolError(f"its result has the outputs {after_outputs}, not {before_outputs}")
    added = [v for v in after.inputs if v not in before.inputs]
    if added:
        raise ToolError(f"its result has inputs that the model does not have: {quoted(added, _MAX_NAMED)}")
    other = next((v for v in after.outputs if not _of_one_type(before, after, v)), None)
    if other is not None:
        raise ToolError(f"its result gives '{other}' as {after.type(other)}, not {before.type(other)}")
    opset, after_opset = before.opset_imports.get("", 0), after.opset_imports.get("", 0)
    if after_opset not in (0, opset):
        raise ToolError(f"its result has opset {after_opset} and cannot be brought back to opset {opset}")


def _computed(graph: Graph) -> set[str]:
    return {value for node in graph.nodes for value in node.outputs if value}


# ---- names -------------------------------------------------------------


@dataclass(frozen=True)
class _Renamed:
    """The graph after, renamed so that a name means the same value in both graphs.

    elements: keys of the elements of both graphs' constants. original_names: by new name, the name in `graph`.
    """

    nodes: Sequence[Node]
    constants: Mapping[str, Constant]
    elements: Mapping[str, Hashable]
    graph: Graph
    original_names: Mapping[str, str]

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each node, by name."""
        return {node.name: position for position, node in enumerate(self.nodes)}


def _with_distinct_names(before: Graph, after: Graph, shared_names: Mapping[str, str]) -> _Renamed:
    """`after` with the names of shared values in `before`, and new names where `before` has another value of a name."""
    before_elements = {name: elements_key(tensor) for name, tensor in before.constants.items()}
    after_elements = {name: elements_key(tensor) for name, tensor in after.constants.items()}
    first_names = {elements: name for name, elements in reversed(before_elements.items())}
    equal = {
        name: first_names[key]
        for name, key in after_elements.items()
        if key in first_names and name not in shared_names
    }
    names = {a: b for a, b in shared_names.items() if a != b} | equal
    taken = {*after.values(), *names.values()}
    for value in after.values():
        if value not in names and value not in shared_names and before.has_value(value):
            names[value] = before.fresh(value, taken)
            taken.add(names[value])
    nodes = [_with_names(node, names) for node in after.nodes]
    constants = {names.get(name, name): tensor for name, tensor in after.constants.items()}
    elements = {**{names.get(name, name): key for name, key in after_elements.items()}, **before_elements}
    return _Renamed(nodes, constants, elements, after, {new: old for old, new in names.items()})


def _with_names(node: Node, names: Mapping[str, str]) -> Node:
    renamed = node.with_values_renamed(names)
    if not any(value in names for value in node.outputs):
        return renamed
    return renamed.replace(outputs=tuple(names.get(value, value) for value in node.outputs))


# ---- changes ---------------------------------------------------------------------------


def _changes(before: Graph, after: _Renamed, shared: Collection[str]) -> Iterator[Change]:
    import networkx  # imported late: the import is slow, and few commands compare two graphs

    unchanged = _unchanged(before, after)
    kept = {*unchanged.values()}
    removed = {node.name: node for node in before.nodes if node.name not in unchanged}
    inserted = {i: node for i, node in enumerate(after.nodes) if i not in kept}
    folded = [v for v in after.constants if before.producer(v) is not None and v in shared]
    outside = {"", *shared, *before.constants, *after.constants}
    exchanges = networkx.Graph((("value", value), ("constant", value)) for value in folded)
    for name, node in removed.items():
        _join(exchanges, (_BEFORE, name), node, outside)
    for index, node in inserted.items():
        _join(exchanges, (_AFTER, index), node, outside)
    for component in networkx.connected_components(exchanges):
        removed_nodes = [removed[key] for kind, key in component if kind == _BEFORE]
        constants = [key for kind, key in component if kind == "constant"]
        if removed_nodes or constants:  # else nothing reads what the new nodes compute
            yield _change(
                before, after, removed_nodes, [inserted[key] for kind, key in component if kind == _AFTER], constants
            )


def _join(exchanges: networkx.Graph, key: tuple[str, Any], node: Node, outside: Collection[str]) -> None:
    """Join the node with its results, and with operands that only one graph has."""
    exchanges.add_node(key)
    exchanges.add_edges_from((key, ("value", value)) for value in node.outputs if value)
    exchanges.add_edges_from((key, ("value", value)) for value in node.operands if value not in outside)


def _unchanged(before: Graph, after: _Renamed) -> dict[str, int]:
    """The nodes that are in both graphs: by name in `before`, the position in `after`."""
    results: dict[str, int] = {}
    for index, node in enumerate(after.nodes):
        first = next((value for value in node.outputs if value), "")
        counterpart = before.producer(first)
        if counterpart is None or counterpart.outputs != node.outputs:
            continue
        if _computation_key(before, counterpart, after.elements) == _computation_key(before, node, after.elements):
            results[counterpart.name] = index
    return results


def _computation_key(graph: Graph, node: Node, elements: Mapping[str, Hashable]) -> Hashable:
    """Equal for nodes that compute the same. elements: keys of constants' elements, in place of their names.

    It has the operator, the operands and the attributes that differ from their defaults.
    """
    defaults = defaults_at(node.op_type, opset_of_node(graph, node), node.domain) if node.attributes else {}
    names = (key for key in sorted(node.attributes) if key not in defaults or defaults[key] != node.attributes[key])
    attributes = tuple((key, attribute_key(node.attributes[key])) for key in names)
    operands = tuple(elements.get(value, value) for value in (*node.inputs, *node.operands))
    return node.op, node.overload, operands, attributes


def _change(before: Graph, after: _Renamed, removed: list[Node], inserted: list[Node], folded: list[str]) -> Change:
    removed.sort(key=lambda node: before.position(node.name))
    inserted.sort(key=lambda node: after.positions[node.name])
    names = dict.fromkeys(node.name for node in removed)
    inserted_nodes = [_with_distinct_name(before, after, node, names) for node in inserted]
    results = dict.fromkeys(value for node in inserted_nodes for value in node.outputs if value)
    read = dict.fromkeys((*folded, *(value for node in inserted_nodes for value in node.operands)))
    types = {v: after.graph.types.get(after.original_names.get(v, v)) for v in results if v not in before.types}
    edit = Edit(
        remove=tuple(names),
        insert=tuple(inserted_nodes),
        constants={value: after.constants[value] for value in read if value in after.constants},
        types={value: type_ for value, type_ in types.items() if type_ is not None},
        functions={
            key: f for key, f in after.graph.functions.items() if key not in before.functions and inserted_nodes
        },
    )
    return Change(edit, tuple(removed), tuple(inserted_nodes), tuple(folded))


def _with_distinct_name(before: Graph, after: _Renamed, node: Node, removed: Collection[str]) -> Node:
    """The node, with a new name if a node of `before` that this change does not remove has its name."""
    if node.name in removed or node.name not in before:
        return node
    return node.replace(name=before.fresh(node.name, after.positions))


def _in_order(before: Graph, changes: Iterator[Change]) -> Iterator[Change]:
    """The changes in an order in which none creates a cycle; changes without such an order become one."""
    trial = before.copy()
    waiting = sorted(changes, key=lambda change: min((before.position(n.name) for n in change.removed), default=-1.0))
    while waiting:
        later = []
        for change in waiting:
            if _apply(trial, change):
                yield change
            else:
                later.append(change)
        if len(later) == len(waiting):
            yield _joined(waiting)
            return
        waiting = later


def _apply(graph: Graph, change: Change) -> bool:
    try:
        graph.apply(change.edit)
    except EditError:
        return False
    return True


def _joined(changes: Sequence[Change]) -> Change:
    edits = [change.edit for change in changes]
    edit = Edit(
        remove=tuple(name for edit in edits for name in edit.remove),
        insert=tuple(node for edit in edits for node in edit.insert),
        constants={key: value for edit in edits for key, value in edit.constants.items()},
        types={key: value for edit in edits for key, value in edit.types.items()},
        functions={key: value for edit in edits for key, value in edit.functions.items()},
    )
    removed = tuple(node for change in changes for node in change.removed)
    inserted = tuple(node for change in changes for node in change.inserted)
    return Change(edit, removed, inserted, tuple(value for change in changes for value in change.folded))
