"""The difference between two graphs of a history, whose nodes correspond by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.ir import Graph, Node


@dataclass(frozen=True)
class Diff:
    """Names of nodes. removed: only in the first graph. added: only in the second. changed: in both, and different."""

    removed: frozenset[str]
    added: frozenset[str]
    changed: frozenset[str]

    @property
    def is_empty(self) -> bool:
        return not (self.removed or self.added or self.changed)


def diff(before: Graph, after: Graph) -> Diff:
    """The difference between two graphs of one history."""
    first = {node.name: node for node in before.nodes}
    second = {node.name: node for node in after.nodes}
    changed = {name for name in first.keys() & second.keys() if not _alike(first[name], second[name])}
    return Diff(
        removed=frozenset(first.keys() - second.keys()),
        added=frozenset(second.keys() - first.keys()),
        changed=frozenset(changed),
    )


def _alike(a: Node, b: Node) -> bool:
    if a is b:
        return True
    return (a.op, a.inputs, a.outputs) == (b.op, b.inputs, b.outputs) and _same(a.attributes, b.attributes)


def _same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether attributes are equal; tensors and bodies are compared by identity."""
    plain = (int, float, str, tuple)
    return a.keys() == b.keys() and all(a[k] is b[k] or (isinstance(a[k], plain) and a[k] == b[k]) for k in a)
