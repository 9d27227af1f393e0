"""A pool that takes the first free piece that is large enough."""

from __future__ import annotations

from workbench.planning.memory.blocks.actions import actions_of
from workbench.planning.memory.blocks.packing import Packing
from workbench.planning.memory.blocks.planner import PlannedOffsets, Planner
from workbench.planning.memory.blocks.pool import pool_offsets


def first_fit(packing: Packing, seconds: float) -> PlannedOffsets:
    offsets = pool_offsets(packing, lambda large_enough: large_enough[0])
    return PlannedOffsets(offsets, actions_of(packing, offsets))


PLANNER = Planner(
    name="pool_first_fit",
    title="Pool, first fit",
    explanation=(
        "A pool follows the execution order: a block gets the first free piece that is large enough, else the pool "
        "grows; freed pieces merge with free neighbours. The arena is the pool at its largest. It is not minimal: "
        "free bytes may be in pieces too small for the next block (fragmentation). Source: "
        "Knuth, The Art of Computer Programming, volume 1, section 2.5."
    ),
    place=first_fit,
    needs_total_order=True,
)
