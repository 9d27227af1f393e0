"""Every block for itself."""

from __future__ import annotations

from itertools import accumulate

from workbench.memory.blocks.packing import Packing
from workbench.memory.blocks.planner import Action, Planner


def separate_offsets(packing: Packing, seconds: float) -> tuple[tuple[int, ...], tuple[Action, ...], bool]:
    ends = list(accumulate((block.bytes for block in packing.blocks), initial=0))
    actions = [
        Action(block.born, "allocate", i, ends[i], f"'{block.name}' gets {block.bytes:,} bytes of its own")
        for i, block in enumerate(packing.blocks)
    ]
    return tuple(ends[:-1]), tuple(actions), False


PLANNER = Planner(
    name="no_reuse",
    title="No reuse",
    explanation="Every block gets bytes of its own, which nothing reuses: the most that an arena can need.",
    place=separate_offsets,
)
