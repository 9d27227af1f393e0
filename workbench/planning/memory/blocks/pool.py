"""A pool of bytes with offsets: blocks are taken from it and given back, and free neighbours merge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from workbench.planning.memory.blocks.actions import follow_lifetimes
from workbench.planning.memory.blocks.packing import Packing

# From the free pieces that are large enough, as (offset, size) in order of offsets, to the one that is used.
Choose = Callable[[list[tuple[int, int]]], tuple[int, int]]


@dataclass
class Pool:
    """free: the free pieces as (offset, size), in order of offsets. end: the size of the pool."""

    free: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0

    def take(self, size: int, choose: Choose) -> int:
        """The offset of a piece of that size: in the free piece that `choose` returns, else at the end of the pool."""
        fits = [piece for piece in self.free if piece[1] >= size]
        if fits:
            begin, length = choose(fits)
            self.free.remove((begin, length))
            if length > size:
                self._add(begin + size, length - size)
            return begin
        begin = self.end
        if self.free and sum(self.free[-1]) == self.end:  # a free piece at the end grows
            begin, _ = self.free.pop()
        self.end = begin + size
        return begin

    def give_back(self, begin: int, size: int) -> None:
        """Free these bytes; they merge with free neighbours."""
        before = next((piece for piece in self.free if sum(piece) == begin), None)
        after = next((piece for piece in self.free if piece[0] == begin + size), None)
        for piece in filter(None, (before, after)):
            self.free.remove(piece)
            begin, size = min(begin, piece[0]), size + piece[1]
        self._add(begin, size)

    def _add(self, begin: int, size: int) -> None:
        self.free = sorted([*self.free, (begin, size)])


def pool_offsets(packing: Packing, choose: Choose) -> tuple[int, ...]:
    """Offsets of blocks that are taken from a pool in execution order."""
    pool, offsets = Pool(), [0] * len(packing.blocks)

    def born(i: int) -> None:
        if packing.blocks[i].bytes:
            offsets[i] = pool.take(packing.blocks[i].bytes, choose)

    def dies(i: int) -> None:
        if packing.blocks[i].bytes:
            pool.give_back(offsets[i], packing.blocks[i].bytes)

    follow_lifetimes(packing, born, dies)
    return tuple(offsets)
