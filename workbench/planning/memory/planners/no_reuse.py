"""Gives every block bytes of its own."""

from __future__ import annotations

from itertools import accumulate

from workbench.planning.memory.blocks.packing import Packing
from workbench.planning.memory.blocks.planner import Action, PlannedOffsets, Planner


def separate_offsets(packing: Packing, seconds: float) -> PlannedOffsets:
    ends = list(accumulate((block.bytes for block in packing.blocks), initial=0))
    actions = [
        Action(block.born, "allocate", i, ends[i], f"'{block.name}' gets {block.bytes:,} bytes of its own")
        for i, block in enumerate(packing.blocks)
    ]
    return PlannedOffsets(tuple(ends[:-1]), tuple(actions))


PLANNER = Planner(
    name="no_reuse",
    title="No reuse",
    explanation="Every block gets bytes of its own, which nothing reuses: the largest arena of all planners.",
    place=separate_offsets,
)
