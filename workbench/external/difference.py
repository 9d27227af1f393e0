"""What a tool changed, as edits: two graphs matched by the names and the numbers of their values.

Values that both graphs have, with the same numbers and mostly the same name, are shared. A node that computes the
same results by the same operator from the same operands is unchanged; constants are the same if their elements are.
The other nodes of both graphs form the changes: nodes are of one change if they exchange a value that is not shared,
or if one makes the shared value that the other made. So a change reads and makes shared values only, and each can be
made, undone and left out alone.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx

from workbench.errors import quoted
from workbench.external.running import ToolError
from workbench.ir import Constant, Edit, EditError, Graph, Node
from workbench.ir.attribute_defaults import defaults_at
from workbench.rewrite.core.content import attribute_key, elements_key
from workbench.rewrite.patterns.schemas import opset_of_node

_MOST = 3  # names in a sentence
_BEFORE, _AFTER = "before", "after"  # of which graph a node is


@dataclass(frozen=True)
class Change:
    """One change: `removed` nodes become `inserted` nodes and constants, which take the place of results."""

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
    """What leads from one graph to the other, whose values get new names where a name means something else.

    same: values of `after` with the same numbers as one of `before`, and that one's name; None: every common name
    stands for the same value. Outputs are shared whatever their numbers, so that a wrong result stays one; if there
    is one, other values are too that have a name in common, and numbers that no other has.
    Raises ToolError.
    """
    _check_interface(before, after)
    mine, its = _computed(before), _computed(after)
    message = {value: value for value in mine & {*its, *after.constants}} if same is None else same
    interface = {*before.inputs, *before.outputs}
    if any(value not in message for value in before.outputs):  # wrong: by names, or all after the fault would be one
        message = {v: v for v in (mine & its).difference(message.values())} | {**message}
    paired = {a: b for a, b in message.items() if b in mine and (a in its or a == b) and not interface & {a, b}}
    paired |= {value: value for value in interface}
    shared = {*paired.values()}
    changes = _changes(before, _named_apart(before, after, paired), shared)
    others = (value for value in mine & its if paired.get(value) != value)
    return Difference(tuple(_in_order(before, changes)), tuple(sorted(others)))


def _check_interface(before: Graph, after: Graph) -> None:
    if after.outputs != before.outputs:
        its, mine = (quoted(graph.outputs, _MOST) for graph in (after, before))
        raise ToolError(f"its result has the outputs {its}, not {mine}")
    more = [v for v in after.inputs if v not in before.inputs]
    if more:
        raise ToolError(f"its result has inputs that the model has not: {quoted(more, _MOST)}")
    opset, made = before.opset_imports.get("", 0), after.opset_imports.get("", 0)
    if made not in (0, opset):
        raise ToolError(f"its result is of opset {made} and cannot be brought back to opset {opset}")


def _computed(graph: Graph) -> set[str]:
    return {value for node in graph.nodes for value in node.outputs if value}


# ---- one name, one meaning -------------------------------------------------------------


@dataclass(frozen=True)
class _Renamed:
    """The graph after, with names that mean in both graphs the same: its nodes, its constants, its types."""

    nodes: Sequence[Node]
    constants: Mapping[str, Constant]
    elements: Mapping[str, Hashable]  # of the constants of both graphs
    graph: Graph
    former: Mapping[str, str]  # the name in `graph` of a value that has a new one

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each node, by name."""
        return {node.name: place for place, node in enumerate(self.nodes)}


def _named_apart(before: Graph, after: Graph, paired: Mapping[str, str]) -> _Renamed:
    """`after` with the names that paired values have before, and new ones where `before` has a name for another."""
    mine = {name: elements_key(tensor) for name, tensor in before.constants.items()}
    its = {name: elements_key(tensor) for name, tensor in after.constants.items()}
    first = {elements: name for name, elements in reversed(mine.items())}
    equal = {name: first[held] for name, held in its.items() if held in first and name not in paired}
    names = {a: b for a, b in paired.items() if a != b} | equal
    taken = {*after.values(), *names.values()}
    for value in after.values():
        if value not in names and value not in paired and before.has_value(value):
            names[value] = before.fresh(value, taken)
            taken.add(names[value])
    nodes = [_with_names(node, names) for node in after.nodes]
    constants = {names.get(name, name): tensor for name, tensor in after.constants.items()}
    elements = {**{names.get(name, name): held for name, held in its.items()}, **mine}
    return _Renamed(nodes, constants, elements, after, {new: old for old, new in names.items()})


def _with_names(node: Node, names: Mapping[str, str]) -> Node:
    renamed = node.with_values_renamed(names)
    if not any(value in names for value in node.outputs):
        return renamed
    return renamed.replace(outputs=tuple(names.get(value, value) for value in node.outputs))


# ---- changes ---------------------------------------------------------------------------


def _changes(before: Graph, after: _Renamed, shared: Collection[str]) -> Iterator[Change]:
    unchanged = _unchanged(before, after)
    stay = {*unchanged.values()}
    removed = {node.name: node for node in before.nodes if node.name not in unchanged}
    inserted = {i: node for i, node in enumerate(after.nodes) if i not in stay}
    folded = [v for v in after.constants if before.producer(v) is not None and v in shared]
    outside = {"", *shared, *before.constants, *after.constants}
    parts = nx.Graph((("value", value), ("constant", value)) for value in folded)
    for name, node in removed.items():
        _join(parts, (_BEFORE, name), node, outside)
    for index, node in inserted.items():
        _join(parts, (_AFTER, index), node, outside)
    for part in nx.connected_components(parts):
        went = [removed[key] for kind, key in part if kind == _BEFORE]
        constants = [key for kind, key in part if kind == "constant"]
        if went or constants:  # else nothing reads what the new nodes make
            yield _change(before, after, went, [inserted[key] for kind, key in part if kind == _AFTER], constants)


def _join(parts: nx.Graph, key: tuple[str, Any], node: Node, outside: Collection[str]) -> None:
    """Join the node with the values that it makes, and with those that it reads and that only one graph has."""
    parts.add_node(key)
    parts.add_edges_from((key, ("value", value)) for value in node.outputs if value)
    parts.add_edges_from((key, ("value", value)) for value in node.operands if value not in outside)


def _unchanged(before: Graph, after: _Renamed) -> dict[str, int]:
    """The nodes that are in both graphs: the name before, the place after."""
    results: dict[str, int] = {}
    for index, node in enumerate(after.nodes):
        first = next((value for value in node.outputs if value), "")
        mine = before.producer(first)
        if mine is None or mine.outputs != node.outputs:
            continue
        if _meaning(before, mine, after.elements) == _meaning(before, node, after.elements):
            results[mine.name] = index
    return results


def _meaning(graph: Graph, node: Node, elements: Mapping[str, Hashable]) -> Hashable:
    """Operator, operands and attributes that are not the default. elements: of constants, in place of their names."""
    defaults = defaults_at(node.op_type, opset_of_node(graph, node), node.domain) if node.attributes else {}
    message = (key for key in sorted(node.attributes) if key not in defaults or defaults[key] != node.attributes[key])
    attributes = tuple((key, attribute_key(node.attributes[key])) for key in message)
    operands = tuple(elements.get(value, value) for value in (*node.inputs, *node.operands))
    return node.op, node.overload, operands, attributes


def _change(before: Graph, after: _Renamed, removed: list[Node], inserted: list[Node], folded: list[str]) -> Change:
    removed.sort(key=lambda node: before.position(node.name))
    inserted.sort(key=lambda node: after.places[node.name])
    names = dict.fromkeys(node.name for node in removed)
    named = [_node_named_apart(before, after, node, names) for node in inserted]
    made = dict.fromkeys(value for node in named for value in node.outputs if value)
    read = dict.fromkeys((*folded, *(value for node in named for value in node.operands)))
    types = {v: after.graph.types.get(after.former.get(v, v)) for v in made if v not in before.types}
    edit = Edit(
        remove=tuple(names),
        insert=tuple(named),
        constants={value: after.constants[value] for value in read if value in after.constants},
        types={value: type_ for value, type_ in types.items() if type_ is not None},
        functions={key: f for key, f in after.graph.functions.items() if key not in before.functions and named},
    )
    return Change(edit, tuple(removed), tuple(named), tuple(folded))


def _node_named_apart(before: Graph, after: _Renamed, node: Node, removed: Collection[str]) -> Node:
    """The node, with another name if one of `before` that this change does not remove has it."""
    if node.name in removed or node.name not in before:
        return node
    return node.replace(name=before.fresh(node.name, after.places))


def _in_order(before: Graph, changes: Iterator[Change]) -> Iterator[Change]:
    """The changes in an order in which none makes a cycle; those of which none can be first are one change."""
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
            yield _as_one(waiting)
            return
        waiting = later


def _apply(graph: Graph, change: Change) -> bool:
    try:
        graph.apply(change.edit)
    except EditError:
        return False
    return True


def _as_one(changes: Sequence[Change]) -> Change:
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
