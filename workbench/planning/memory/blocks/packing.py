"""Packing blocks of memory: which offset each block gets in one arena, so that blocks in use together are disjoint.

Known in the literature as dynamic storage allocation; NP-complete (Garey and Johnson, problem SR2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from workbench.errors import UserError
from workbench.planning.memory.blocks.antichain import heaviest_antichain


class OverlapError(UserError):
    """Two blocks that are in use at the same time share bytes; the message names them."""


@dataclass(frozen=True)
class MemoryBlock:
    """A piece of memory of `bytes`, in use from step `born` to before step `dies`, which is later."""

    name: str
    bytes: int
    born: int
    dies: int


@dataclass(frozen=True)
class Packing:
    """Blocks to be placed.

    partial_order: the pairs of blocks that may be in use at the same time if operators run concurrently, by index and
    lower first. In any other pair, the first has ended before the second is used. None: operators run one after the
    other, and blocks whose steps overlap are in use at the same time.
    """

    blocks: tuple[MemoryBlock, ...]
    partial_order: frozenset[tuple[int, int]] | None = None

    @cached_property
    def conflicts(self) -> tuple[frozenset[int], ...]:
        """For each block those that may be in use together with it and need bytes of their own."""
        results: list[set[int]] = [set() for _ in self.blocks]
        for i, j in self._pairs():
            if self.blocks[i].bytes and self.blocks[j].bytes:
                results[i].add(j)
                results[j].add(i)
        return tuple(map(frozenset, results))

    @cached_property
    def in_use(self) -> tuple[int, ...]:
        """Bytes in use at each step, if operators run one after the other."""
        change = [0] * (max((block.dies for block in self.blocks), default=0) + 1)
        for block in self.blocks:
            change[block.born] += block.bytes
            change[block.dies] -= block.bytes
        in_use, current = [], 0
        for difference in change[:-1]:
            current += difference
            in_use.append(current)
        return tuple(in_use)

    @cached_property
    def lower_bound(self) -> int:
        """Bytes that every arena must hold: the most in use at once. If operators run side by side, the most bytes in a
        set of blocks in which any two may be in use together."""
        if self.partial_order is None:
            return max(self.in_use, default=0)
        sizes = [block.bytes for block in self.blocks]
        return sum(sizes[i] for i in heaviest_antichain(sizes, self.partial_order))

    def _pairs(self) -> Iterable[tuple[int, int]]:
        if self.partial_order is not None:
            yield from self.partial_order
            return
        by_birth = sorted(range(len(self.blocks)), key=lambda i: self.blocks[i].born)
        living: list[int] = []
        for i in by_birth:
            born = self.blocks[i].born
            living = [j for j in living if self.blocks[j].dies > born]
            yield from ((j, i) for j in living)
            if self.blocks[i].dies > born:
                living.append(i)


def check_offsets(packing: Packing, offsets: Sequence[int]) -> None:
    """Raises OverlapError if two blocks that may be in use together share bytes."""
    for i, others in enumerate(packing.conflicts):
        block = packing.blocks[i]
        for j in others:
            other = packing.blocks[j]
            if i < j and offsets[i] < offsets[j] + other.bytes and offsets[j] < offsets[i] + block.bytes:
                raise OverlapError(
                    f"'{block.name}' at bytes {offsets[i]:,} to {offsets[i] + block.bytes:,} and '{other.name}' at"
                    f" {offsets[j]:,} to {offsets[j] + other.bytes:,} are in use at the same time; give them disjoint"
                    " bytes."
                )
