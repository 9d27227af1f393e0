"""A smaller arena by small changes of the order in which blocks are placed."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from workbench.memory.blocks.gaps import placed_in_turn
from workbench.memory.blocks.packing import Packing


def improved(packing: Packing, offsets: Sequence[int], seconds: float) -> tuple[int, ...]:
    """Offsets of an arena that is no larger: a block that reaches its end is placed earlier, and the change is kept
    unless the arena grows, until it is as small as the lower bound or the time is over. The same changes in each run.
    """
    begun, draw = time.perf_counter(), random.Random(0)
    sizes = [block.bytes for block in packing.blocks]
    order = sorted(range(len(sizes)), key=lambda i: (offsets[i], -sizes[i]))
    result = placed_in_turn(packing, order)
    best = min(tuple(offsets), result, key=lambda one: _total(sizes, one))
    while _total(sizes, best) > packing.lower_bound and time.perf_counter() - begun < seconds:
        total = _total(sizes, result)
        highest = draw.choice([place for place, i in enumerate(order) if result[i] + sizes[i] == total])
        changed = list(order)
        block = changed.pop(highest)
        changed.insert(draw.randrange(highest or len(order)), block)
        placed = placed_in_turn(packing, changed)
        if _total(sizes, placed) <= total:
            order, result = changed, placed
            best = min(best, result, key=lambda one: _total(sizes, one))
    return best


def _total(sizes: Sequence[int], offsets: Sequence[int]) -> int:
    return max((offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0)
