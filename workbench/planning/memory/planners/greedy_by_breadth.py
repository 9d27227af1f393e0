"""Places the blocks of the operator with the most bytes in use first."""

from __future__ import annotations

from workbench.planning.memory.blocks.actions import actions_of
from workbench.planning.memory.blocks.gaps import place_in_order
from workbench.planning.memory.blocks.packing import Packing
from workbench.planning.memory.blocks.planner import PlannedOffsets, Planner


def broadest_first(packing: Packing, seconds: float) -> PlannedOffsets:
    blocks, in_use = packing.blocks, packing.in_use
    breadth = [max(in_use[block.born : block.dies], default=0) for block in blocks]
    offsets = place_in_order(packing, sorted(range(len(blocks)), key=lambda i: (-breadth[i], -blocks[i].bytes)))
    return PlannedOffsets(offsets, actions_of(packing, offsets))


PLANNER = Planner(
    name="greedy_by_breadth",
    title="Greedy by breadth",
    explanation=(
        "The operator with the most bytes in use (its breadth) comes first: its blocks are placed, the largest "
        "first, each in the smallest gap between the blocks that are in use with it; then the next operator. "
        "Source: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020, section 5."
    ),
    place=broadest_first,
)
