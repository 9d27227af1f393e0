"""The largest block first."""

from __future__ import annotations

from workbench.memory.gaps import placed_in_turn
from workbench.memory.packing import Packing
from workbench.memory.planners.planner import Action, Planner
from workbench.memory.playing import played


def largest_first(packing: Packing, seconds: float) -> tuple[tuple[int, ...], tuple[Action, ...], bool]:
    offsets = placed_in_turn(packing, sorted(range(len(packing.blocks)), key=lambda i: -packing.blocks[i].bytes))
    return offsets, played(packing, offsets), False


PLANNER = Planner(
    name="greedy_by_size",
    title="Greedy by size",
    explanation=(
        "The largest block is placed first, each in the smallest gap between the blocks that are in use with it, "
        "whatever the execution order. Often the least possible. Source: Pisarchyk and Lee, Efficient Memory "
        "Management for Deep Neural Net Inference, 2020, section 5; TensorFlow Lite plans so."
    ),
    place=largest_first,
)
