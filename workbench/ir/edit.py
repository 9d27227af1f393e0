"""An edit: the only way a graph changes.

`Graph.apply(edit)` performs it and returns the inverse edit, so a history is a
list of edits that can be replayed in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from workbench.ir.node import Function, Node
from workbench.ir.types import Constant, ValueType


class EditError(ValueError):
    """The edit does not fit the graph, which is left unchanged."""


@dataclass(frozen=True)
class Edit:
    """A set of changes that are made together.

    remove:    names of nodes to remove. A node inserted under the same name
               counts as changed, not as removed and added.
    insert:    nodes to insert, each placed after the producers of its operands.
    replace:   value -> value: every use of the first, graph outputs included,
               becomes a use of the second. Public names are kept: if the
               first is a graph output, the second's producer takes its name.
    constants: constants to add (None: to remove). An unused constant is
               removed automatically.
    types:     types of new values (None: removed). The type of a removed
               value is removed automatically.
    metadata:  key-value pairs of the graph (None: removed).
    functions: model-local functions by key (None: removed).
    ranks:     positions of nodes in topological order, comparable with those of all nodes. `apply` sets them in
               inverses.
    unused:    constants that stay though nothing uses them, as some of a file. `apply` sets them in inverses.
    """

    remove: tuple[str, ...] = ()
    insert: tuple[Node, ...] = ()
    replace: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Constant | None] = field(default_factory=dict)
    types: Mapping[str, ValueType | None] = field(default_factory=dict)
    metadata: Mapping[str, str | None] = field(default_factory=dict)
    functions: Mapping[tuple[str, str, str], Function | None] = field(default_factory=dict)
    ranks: Mapping[str, float] = field(default_factory=dict, repr=False)
    unused: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def is_empty(self) -> bool:
        tables = (self.replace, self.constants, self.types, self.metadata, self.functions, self.ranks)
        return not (self.remove or self.insert or any(tables))

    @property
    def followed(self) -> dict[str, str]:
        """`replace` with chains resolved: a -> b with b -> c is a -> c. Raises EditError for a cycle."""
        resolved = {}
        for old in self.replace:
            new, seen = self.replace[old], {old}
            while new in self.replace:
                if new in seen:
                    raise EditError(f"value '{old}' is replaced in a cycle")
                seen.add(new)
                new = self.replace[new]
            resolved[old] = new
        return resolved


def update(table: dict[Any, Any], changes: Mapping[Any, Any]) -> dict[Any, Any]:
    """Apply changes to a table, where None removes an entry; returns the changes that undo them."""
    before = {key: table.get(key) for key in changes}
    table.update(changes)
    for key in [key for key, value in changes.items() if value is None]:
        del table[key]
    return restoring(before, table)


def restoring(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> dict[Any, Any]:
    """The changes of a table that restore its entries before."""
    return {key: value for key, value in before.items() if after.get(key) is not value}


class Definitions(Protocol):
    """The interface of a graph for checks: its definitions, and the users of each value."""

    @property
    def constants(self) -> Mapping[str, Constant]: ...
    def has_value(self, value: str) -> bool: ...
    def is_input(self, value: str) -> bool: ...
    def is_output(self, value: str) -> bool: ...
    def producer(self, value: str) -> Node | None: ...
    def users(self, value: str) -> Sequence[Node]: ...


def check_values(edit: Edit, removed: Mapping[str, Node], inserted: Mapping[str, Node], graph: Definitions) -> None:
    """Raise EditError unless every value is defined once and every value that is read is defined.

    removed, inserted: the nodes that the edit removes and inserts, by name.
    """
    removed_values = {v for node in removed.values() for v in node.outputs}
    removed_values |= {v for v, tensor in edit.constants.items() if tensor is None and v in graph.constants}
    inserted_values: set[str] = set()
    for node in inserted.values():
        for value in filter(None, node.outputs):
            if value in inserted_values or (graph.has_value(value) and value not in removed_values):
                raise EditError(f"value '{value}' would be defined twice, the second time by {node}")
            inserted_values.add(value)
    new_constants = {v for v, tensor in edit.constants.items() if tensor is not None}
    for value in new_constants:
        is_computed = graph.producer(value) is not None and value not in removed_values
        if value in inserted_values or graph.is_input(value) or is_computed:
            raise EditError(f"value '{value}' would be defined twice, the second time as a constant")
    for node in inserted.values():
        for value in node.operands:
            if value in inserted_values or value in new_constants:
                continue
            if value in removed_values or not graph.has_value(value):
                raise EditError(f"{node} would read '{value}', which is not defined")
    for value in filter(None, removed_values - inserted_values - new_constants):
        readers = [node for node in graph.users(value) if node.name not in removed]
        if readers or graph.is_output(value):
            reader = f"node '{readers[0].name}'" if readers else "the graph's outputs"
            raise EditError(f"value '{value}' would be removed, and is still used by {reader}")
