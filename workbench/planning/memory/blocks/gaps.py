"""Places blocks one by one, each apart from placed blocks that conflict with it."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.planning.memory.blocks.packing import Packing


def place_in_order(packing: Packing, order: Iterable[int]) -> tuple[int, ...]:
    """Offsets of blocks placed in the order, each in the smallest gap between conflicting blocks that is large enough,
    else after them.

    order: has every block once.

    Source: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020
    (https://arxiv.org/abs/2001.03288), section 5.
    """
    offsets: dict[int, int] = {}
    for i in order:
        placed = (j for j in packing.conflicts[i] if j in offsets)
        taken = sorted((offsets[j], offsets[j] + packing.blocks[j].bytes) for j in placed)
        offsets[i] = _best_fit_offset(taken, packing.blocks[i].bytes)
    return tuple(offsets[i] for i in range(len(packing.blocks)))


def _best_fit_offset(taken: Iterable[tuple[int, int]], size: int) -> int:
    best, smallest, end = None, None, 0
    for begin, stop in taken:
        gap = begin - end
        if gap >= size and (smallest is None or gap < smallest):
            best, smallest = end, gap
        end = max(end, stop)
    return end if best is None else best
