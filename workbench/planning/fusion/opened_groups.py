"""A graph with its groups open: the operators of each group, under their own names, in place of the call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workbench.ir import Constant, Edit, Function, Graph, Node, ValueType
from workbench.planning.fusion.group_calls import group_function


@dataclass(frozen=True)
class OpenedChange:
    """The operators that an edit removes from and inserts into the open graph. An operator that joins or leaves a group
    is in both."""

    removed: tuple[Node, ...]
    inserted: tuple[Node, ...]


class OpenedGroups:
    """Two graphs that change together: `graph`, whose groups are calls, and `opened`, with their operators instead.

    group_of: by operator, the name of its group. Without groups both are the same graph, until an edit adds a group.
    A call stays a node of `opened` if a name of an operator or value in it is taken, which can happen in a file.
    """

    def __init__(self, graph: Graph) -> None:
        """graph: is changed by `apply`."""
        self.graph = self.opened = graph
        self.group_of: dict[str, str] = {}
        self._members: dict[str, tuple[str, ...]] = {}
        calls = [node for node in graph.nodes if group_function(graph, node)]
        if calls:
            self.opened = graph.copy()
            self._exchange(calls, calls, Edit())

    def apply(self, edit: Edit) -> tuple[Edit, OpenedChange]:
        """Apply an edit to `graph`; returns its inverse, and what it changes in `opened`. Raises EditError."""
        if edit.functions and self.opened is self.graph:
            self.opened = self.graph.copy()
        inverse = self.graph.apply(edit)
        added = tuple(self.graph.node(name) for name in inverse.remove)
        if self.opened is self.graph:
            return inverse, OpenedChange(inverse.insert, added)
        return inverse, self._exchange(inverse.insert, added, edit)

    def members(self, name: str) -> tuple[str, ...]:
        """The operators of the group of that name; the name alone if no open group has it."""
        return self._members.get(name, (name,))

    def _exchange(self, removed: Iterable[Node], added: Iterable[Node], edit: Edit) -> OpenedChange:
        former_group: dict[str, str] = {}  # by operator, before the edit
        before: dict[str, Node] = {}
        for node in removed:
            members = self._members.pop(node.name, (node.name,))
            before |= {name: self.opened.node(name) for name in members}
            former_group |= {name: group for name in members if (group := self.group_of.pop(name, ""))}
        after: dict[str, Node] = {}
        constants = {v: constant for v, constant in edit.constants.items() if constant is not None}
        types: dict[str, ValueType | None] = dict(edit.types)
        for node in added:
            function = group_function(self.graph, node)
            body = None if function is None else _body(self.opened, node, function)
            if body is None or not self._has_room(node, body.nodes, before, after):
                after[node.name] = node
                continue
            after |= {operator.name: operator for operator in body.nodes}
            self._members[node.name] = tuple(operator.name for operator in body.nodes)
            self.group_of |= dict.fromkeys(self._members[node.name], node.name)
            constants |= {v: constant for v, constant in body.constants.items() if not self.opened.has_value(v)}
            types |= {v: type_ for v, type_ in body.types.items() if self.opened.type(v) is None}
        unchanged = {name for name, node in after.items() if before.get(name) is node}
        inserted = tuple(node for name, node in after.items() if name not in unchanged)
        read = {value for node in inserted for value in node.operands if not self.opened.has_value(value)}
        constants |= {v: constant for v in read - constants.keys() if (constant := self.graph.constant(v)) is not None}
        self.opened.apply(
            Edit(
                remove=tuple(name for name in before if name not in unchanged),
                insert=inserted,
                constants=constants,
                types=types,
                metadata=edit.metadata,
            )
        )
        regrouped = {name for name in unchanged if former_group.get(name) != self.group_of.get(name)}
        return OpenedChange(
            tuple(node for name, node in before.items() if name not in unchanged or name in regrouped),
            tuple(node for name, node in after.items() if name not in unchanged or name in regrouped),
        )

    def _has_room(self, call: Node, operators: Sequence[Node], before: dict[str, Node], after: dict[str, Node]) -> bool:
        """Whether the names of the operators, and of values between them, are free in the open graph."""
        free = {value for node in (call, *before.values()) for value in node.outputs}
        return not any(
            operator.name in after
            or (operator.name in self.opened and operator.name not in before)
            or any(value not in free and self.opened.has_value(value) for value in operator.outputs if value)
            for operator in operators
        )


def _body(graph: Graph, call: Node, function: Function) -> Graph:
    """The function's body with the call's operands and results; a constant gets another name if `graph` uses its
    name."""
    body: Graph = function.graph
    names = dict(zip((*body.inputs, *body.outputs), (*call.inputs, *call.outputs), strict=True))
    constants: dict[str, Constant] = {}
    for value, constant in body.constants.items():
        is_taken = graph.has_value(value) and graph.constant(value) is not constant
        names[value] = f"{call.name}/{value}" if is_taken else value
        constants[names[value]] = constant
    if all(old == new for old, new in names.items()):
        return body
    nodes = [
        node.with_values_renamed(names).replace(outputs=tuple(names.get(v, v) for v in node.outputs))
        for node in body.nodes
    ]
    types = {names.get(value, value): type_ for value, type_ in body.types.items()}
    return Graph(nodes=nodes, constants=constants, types=types, opset_imports=body.opset_imports)
