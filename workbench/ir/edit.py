"""An edit: the only way a graph changes.

`Graph.apply(edit)` carries it out and returns the inverse edit, so that a
history is a list of edits that can be played forward and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.ir.node import Node
from workbench.ir.types import Constant, ValueType


class EditError(ValueError):
    """The edit does not fit the graph; the graph is as it was."""


@dataclass(frozen=True)
class Edit:
    """What changes, all at once.

    remove:    names of nodes that go. A node that comes back under the same
               name counts as changed, not as removed and added.
    insert:    nodes that come, each after the ones whose outputs it reads.
    replace:   value -> value: every reader of the first, the graph's outputs
               among them, gets the second. Public names stay: where the first
               is an output of the graph, the second's producer takes its name.
    constants: constants that come (None: that go). One that nothing reads any
               more goes by itself.
    types:     types of new values (None: forgotten). A vanished value's type
               goes by itself.
    metadata:  what is written beside the graph (None: no longer).
    """

    remove: tuple[str, ...] = ()
    insert: tuple[Node, ...] = ()
    replace: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Constant | None] = field(default_factory=dict)
    types: Mapping[str, ValueType | None] = field(default_factory=dict)
    metadata: Mapping[str, str | None] = field(default_factory=dict)
    # Filled in by `apply` for the inverse only: places of the nodes that come back.
    ranks: Mapping[str, float] = field(default_factory=dict, repr=False)

    @property
    def is_empty(self) -> bool:
        return not (self.remove or self.insert or self.replace or self.constants or self.types or self.metadata)

    @property
    def followed(self) -> dict[str, str]:
        """`replace` with chains resolved: a -> b with b -> c is a -> c. Raises EditError for a circle."""
        resolved = {}
        for old in self.replace:
            new, seen = self.replace[old], {old}
            while new in self.replace:
                if new in seen:
                    raise EditError(f"value '{old}' is replaced in a circle")
                seen.add(new)
                new = self.replace[new]
            resolved[old] = new
        return resolved


def update(table: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Put the changes into the table; None takes an entry away."""
    table.update(changes)
    for key in [key for key, value in changes.items() if value is None]:
        del table[key]


def restoring(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The changes that bring back what was there before."""
    return {key: value for key, value in before.items() if after.get(key) is not value}
