"""Values that lie in the memory of others, as trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from workbench.memory.lifetimes import Lifetimes, ValueLifetime


class Alias(StrEnum):
    """How a value shares memory: it overwrites an operand, is a view of it, or is computed inside a Concat's result."""

    IN_PLACE = "in place"
    VIEW = "view"
    PLACED = "placed"


@dataclass(frozen=True)
class Shared:
    """A value in the memory of `whole`, `offset` bytes after its begin. how: unless it is `whole` itself."""

    whole: str
    offset: int
    how: Alias | None = None


class SharedMemory:
    """Each value lies in the memory of its parent, or has its own; at first all have their own.

    Memory is in use from the birth of the first value in it to the death of the last. Inputs and weights are memory
    too, which is not counted, nor are values of unknown size.
    """

    def __init__(self, lifetimes: Lifetimes) -> None:
        self.parent: dict[str, Shared] = {}  # by value, with the offset in its parent
        self._values = lifetimes.values
        self._members: dict[str, list[str]] = {name: [name] for name in lifetimes.values}
        self._in_use = np.zeros(len(lifetimes.steps) + 1, np.int64)
        for name in lifetimes.values:
            self._count(self._in_use, name, 1)

    def place(self, value: str) -> Shared:
        """Where a value lies."""
        offset = 0
        while value in self.parent:
            above = self.parent[value]
            value, offset = above.whole, offset + above.offset
        return Shared(value, offset)

    def roots(self) -> list[str]:
        """The values that have memory of their own, in order of their birth."""
        return [name for name in self._values if name not in self.parent]

    def members(self, root: str) -> Sequence[str]:
        """The values that lie in the memory of `root`, itself included."""
        return self._members[root]

    def span(self, root: str) -> tuple[int, int]:
        """The steps, half-open, in which the memory of `root` is in use."""
        return _span([self._values[name] for name in self._members[root]])

    def overlapping(self, value: str) -> list[ValueLifetime]:
        """The other values that share bytes with this one."""
        own, size = self.place(value), self._values[value].bytes or 0
        results = []
        for name in self._members[own.whole]:
            offset, other = self.place(name).offset, self._values[name]
            if name != value and offset < own.offset + size and own.offset < offset + (other.bytes or 0):
                results.append(other)
        return results

    @property
    def most_in_use(self) -> int:
        """Bytes."""
        return int(self._in_use.max())

    def most_with(self, whole: str, parts: Sequence[str]) -> int:
        """The most bytes in use at once, if the memory of `parts` lay in that of `whole`."""
        in_use = self._in_use.copy()
        self._move(in_use, whole, parts)
        return int(in_use.max())

    def put(self, part: str, whole: str, offset: int, how: Alias) -> None:
        """Put a value with memory of its own, and all in it, into the memory of `whole`, so many bytes after it."""
        root = self.place(whole).whole
        self._move(self._in_use, root, (part,))
        self._members[root] += self._members.pop(part)
        self.parent[part] = Shared(whole, offset, how)

    def _move(self, in_use: np.ndarray, whole: str, parts: Sequence[str]) -> None:
        root = self.place(whole).whole
        for name in (root, *parts):
            self._count(in_use, name, -1)
        names = [name for memory in (root, *parts) for name in self._members[memory]]
        begin, end = _span([self._values[name] for name in names])
        in_use[begin:end] += self._counted(root)

    def _count(self, in_use: np.ndarray, root: str, sign: int) -> None:
        begin, end = self.span(root)
        in_use[begin:end] += sign * self._counted(root)

    def _counted(self, root: str) -> int:
        value = self._values[root]
        return (value.bytes or 0) if value.kind.is_planned else 0


def _span(values: Sequence[ValueLifetime]) -> tuple[int, int]:
    return min(value.born for value in values), max(value.dies for value in values)
