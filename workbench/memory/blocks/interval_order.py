"""Blocks of a partial order as if operators ran one after the other, where that says the same.

It does if and only if what has ended before a block begins, or before another, is nested (an interval order: Fishburn,
"Intransitive Indifference with Unequal Indifference Intervals", 1970).
"""

from __future__ import annotations

from itertools import pairwise

from workbench.memory.blocks.packing import Packing


def interval_steps(packing: Packing) -> list[tuple[int, int]] | None:
    """For each block half-open steps, such that those of two blocks overlap if they may be in use together; None if
    there are none."""
    if packing.partial_order is None:
        return [(block.born, block.dies) for block in packing.blocks]
    count = len(packing.blocks)
    ended = [(1 << i) - 1 for i in range(count)]
    for i, j in packing.partial_order:
        ended[j] &= ~(1 << i)
    nested = sorted(set(ended), key=int.bit_count)
    if any(smaller & ~larger for smaller, larger in pairwise(nested)):
        return None
    born = [nested.index(mask) for mask in ended]
    dies = [len(nested)] * count
    for step, mask in reversed(list(enumerate(nested))):
        for i in range(count):
            if mask >> i & 1:
                dies[i] = step
    return list(zip(born, dies, strict=True))
