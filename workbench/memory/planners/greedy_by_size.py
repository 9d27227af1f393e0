"""The largest block first."""

from __future__ import annotations

from workbench.memory.blocks.actions import played
from workbench.memory.blocks.gaps import placed_in_turn
from workbench.memory.blocks.packing import Packing
from workbench.memory.blocks.planner import Action, Planner


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
