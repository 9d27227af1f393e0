"""The blocks of the operator with the most bytes in use first."""

from __future__ import annotations

from workbench.memory.blocks.actions import played
from workbench.memory.blocks.gaps import placed_in_turn
from workbench.memory.blocks.packing import Packing
from workbench.memory.blocks.planner import Action, Planner


def broadest_first(packing: Packing, seconds: float) -> tuple[tuple[int, ...], tuple[Action, ...], bool]:
    blocks, in_use = packing.blocks, packing.in_use
    breadth = [max(in_use[block.born : block.dies], default=0) for block in blocks]
    offsets = placed_in_turn(packing, sorted(range(len(blocks)), key=lambda i: (-breadth[i], -blocks[i].bytes)))
    return offsets, played(packing, offsets), False


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
