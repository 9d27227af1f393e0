"""Memory aliasing: which values use the buffer of another value, as a forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from workbench.planning.memory.lifetimes import Lifetimes, ValueLifetime


class Alias(StrEnum):
    """How a value shares memory: it overwrites an operand, is a view of it, or is computed inside a Concat's result."""

    IN_PLACE = "in place"
    VIEW = "view"
    CONCAT_IN_PLACE = "placed"


@dataclass(frozen=True)
class BufferSlice:
    """A value in the buffer of `base`, `offset` bytes after its start. alias: None for `base` itself."""

    base: str
    offset: int
    alias: Alias | None = None


class SharedMemory:
    """The buffers of a graph's values. Initially each value has its own; `put` moves it into that of a parent.

    A buffer is in use from the birth of the first value in it to the death of the last. Inputs and weights can be
    aliased too, but their bytes are not counted. Values of unknown size are not counted either.
    """

    def __init__(self, lifetimes: Lifetimes) -> None:
        self.parent: dict[str, BufferSlice] = {}  # by value, with the offset in its parent
        self._values = lifetimes.values
        self._members: dict[str, list[str]] = {name: [name] for name in lifetimes.values}
        self._in_use = np.zeros(len(lifetimes.steps) + 1, np.int64)
        for name in lifetimes.values:
            self._count(self._in_use, name, 1)

    def location(self, value: str) -> BufferSlice:
        """The value with memory of its own in which a value lies, and its offset there in bytes."""
        offset = 0
        while value in self.parent:
            parent = self.parent[value]
            value, offset = parent.base, offset + parent.offset
        return BufferSlice(value, offset)

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
        location, size = self.location(value), self._values[value].bytes or 0
        results = []
        for name in self._members[location.base]:
            offset, other = self.location(name).offset, self._values[name]
            if name != value and offset < location.offset + size and location.offset < offset + (other.bytes or 0):
                results.append(other)
        return results

    @property
    def peak(self) -> int:
        """The most bytes in use at once."""
        return int(self._in_use.max())

    def peak_with(self, whole: str, parts: Sequence[str]) -> int:
        """The most bytes in use at once if the memory of `parts` were in that of `whole`."""
        in_use = self._in_use.copy()
        self._move(in_use, whole, parts)
        return int(in_use.max())

    def put(self, part: str, whole: str, offset: int, how: Alias) -> None:
        """Move the buffer of `part`, with everything in it, into that of `whole`, `offset` bytes after its start."""
        root = self.location(whole).base
        self._move(self._in_use, root, (part,))
        self._members[root] += self._members.pop(part)
        self.parent[part] = BufferSlice(whole, offset, how)

    def _move(self, in_use: np.ndarray, whole: str, parts: Sequence[str]) -> None:
        root = self.location(whole).base
        for name in (root, *parts):
            self._count(in_use, name, -1)
        names = [name for memory in (root, *parts) for name in self._members[memory]]
        begin, end = _span([self._values[name] for name in names])
        in_use[begin:end] += self._counted_bytes(root)

    def _count(self, in_use: np.ndarray, root: str, sign: int) -> None:
        begin, end = self.span(root)
        in_use[begin:end] += sign * self._counted_bytes(root)

    def _counted_bytes(self, root: str) -> int:
        value = self._values[root]
        return (value.bytes or 0) if value.kind.lies_in_arena else 0


def _span(values: Sequence[ValueLifetime]) -> tuple[int, int]:
    return min(value.born for value in values), max(value.dies for value in values)
