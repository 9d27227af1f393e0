"""A local search for a smaller arena: it changes the order in which blocks are placed."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from workbench.planning.memory.blocks.gaps import place_in_order
from workbench.planning.memory.blocks.packing import Packing


def improved(packing: Packing, offsets: Sequence[int], seconds: float) -> tuple[int, ...]:
    """Offsets of an arena that is at most as large as that of `offsets`.

    In each round a block that reaches the end of the arena moves to an earlier place in the order in which blocks are
    placed; the change is kept unless the arena grows. The search stops at the lower bound or after `seconds`. Its
    random numbers are the same in each run.
    """
    began, rng = time.perf_counter(), random.Random(0)
    sizes = [block.bytes for block in packing.blocks]
    order = sorted(range(len(sizes)), key=lambda i: (offsets[i], -sizes[i]))
    current = place_in_order(packing, order)
    best = min(tuple(offsets), current, key=lambda candidate: _total(sizes, candidate))
    while _total(sizes, best) > packing.lower_bound and time.perf_counter() - began < seconds:
        total = _total(sizes, current)
        place = rng.choice([position for position, i in enumerate(order) if current[i] + sizes[i] == total])
        changed = list(order)
        block = changed.pop(place)
        changed.insert(rng.randrange(place or len(order)), block)
        placed = place_in_order(packing, changed)
        if _total(sizes, placed) <= total:
            order, current = changed, placed
            best = min(best, current, key=lambda candidate: _total(sizes, candidate))
    return best


def _total(sizes: Sequence[int], offsets: Sequence[int]) -> int:
    return max((offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0)
