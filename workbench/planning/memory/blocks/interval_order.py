"""Steps for blocks of a partial order, if operators that run one after the other can have the same conflicts.

They can if and only if the sets of blocks that have ended before each block begins are nested (an interval order:
Fishburn, "Intransitive Indifference with Unequal Indifference Intervals", 1970).
"""

from __future__ import annotations

from itertools import pairwise

from workbench.planning.memory.blocks.packing import Packing


def interval_steps(packing: Packing) -> list[tuple[int, int]] | None:
    """For each block half-open steps, which overlap for two blocks if and only if they may be in use together; None if
    there are no such steps."""
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
