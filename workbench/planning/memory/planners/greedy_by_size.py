"""Places the largest block first."""

from __future__ import annotations

from workbench.planning.memory.blocks.actions import actions_of
from workbench.planning.memory.blocks.gaps import place_in_order
from workbench.planning.memory.blocks.packing import Packing
from workbench.planning.memory.blocks.planner import PlannedOffsets, Planner


def largest_first(packing: Packing, seconds: float) -> PlannedOffsets:
    offsets = place_in_order(packing, sorted(range(len(packing.blocks)), key=lambda i: -packing.blocks[i].bytes))
    return PlannedOffsets(offsets, actions_of(packing, offsets))


PLANNER = Planner(
    name="greedy_by_size",
    title="Greedy by size",
    explanation=(
        "The largest block is placed first, each in the smallest gap between the blocks that are in use with it, "
        "whatever the execution order. Its arena is often the smallest. Source: Pisarchyk and Lee, Efficient Memory "
        "Management for Deep Neural Net Inference, 2020, section 5; TensorFlow Lite uses it."
    ),
    place=largest_first,
)
