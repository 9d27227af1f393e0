"""Reuses the buffer of a dead block if it is large enough."""

from __future__ import annotations

from workbench.planning.memory.blocks.actions import actions_of, follow_lifetimes
from workbench.planning.memory.blocks.buffers import offsets_of_buffers
from workbench.planning.memory.blocks.packing import Packing
from workbench.planning.memory.blocks.planner import PlannedOffsets, Planner


def reused_buffers(packing: Packing, seconds: float) -> PlannedOffsets:
    buffer_of, sizes, free = [0] * len(packing.blocks), list[int](), list[int]()

    def born(i: int) -> None:
        size = packing.blocks[i].bytes
        number = next((buffer for buffer in free if sizes[buffer] >= size), None)
        if number is None:
            number = len(sizes)
            sizes.append(size)
        else:
            free.remove(number)
        buffer_of[i] = number

    follow_lifetimes(packing, born, lambda i: free.append(buffer_of[i]))
    offsets = offsets_of_buffers(packing, buffer_of)
    return PlannedOffsets(offsets, actions_of(packing, offsets, buffer_of))


PLANNER = Planner(
    name="greedy_reuse",
    title="Greedy reuse",
    explanation=(
        "Before a block gets new bytes, the buffers of dead blocks are searched, the longest dead first; the "
        "first that is large enough is reused as a whole. Simple and fast, but a small block may take a large "
        "buffer, and a buffer that is too small by a byte is not used. Weights are not among the blocks: the next "
        "run needs them, so their bytes must not be reused."
    ),
    place=reused_buffers,
    needs_total_order=True,
)
