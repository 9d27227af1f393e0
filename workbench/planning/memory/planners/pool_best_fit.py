"""A pool that takes the smallest free piece that is large enough."""

from __future__ import annotations

from workbench.planning.memory.blocks.actions import actions_of
from workbench.planning.memory.blocks.packing import Packing
from workbench.planning.memory.blocks.planner import PlannedOffsets, Planner
from workbench.planning.memory.blocks.pool import pool_offsets


def best_fit(packing: Packing, seconds: float) -> PlannedOffsets:
    offsets = pool_offsets(packing, lambda large_enough: min(large_enough, key=lambda piece: piece[1]))
    return PlannedOffsets(offsets, actions_of(packing, offsets))


PLANNER = Planner(
    name="pool_best_fit",
    title="Pool, best fit",
    explanation=(
        "Like the pool by first fit, but a block gets the smallest free piece that is large enough, so that large "
        "pieces stay whole. The arena is not minimal either: the rests of pieces may be too small for any block. "
        "Source: Knuth, The Art of Computer Programming, volume 1, section 2.5."
    ),
    place=best_fit,
    needs_total_order=True,
)
