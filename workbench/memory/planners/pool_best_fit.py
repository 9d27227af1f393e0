"""A pool that takes the smallest free piece that is large enough."""

from __future__ import annotations

from workbench.memory.blocks.actions import played
from workbench.memory.blocks.packing import Packing
from workbench.memory.blocks.planner import Action, Planner
from workbench.memory.blocks.pool import pooled


def best_fit(packing: Packing, seconds: float) -> tuple[tuple[int, ...], tuple[Action, ...], bool]:
    offsets = pooled(packing, lambda fits: min(fits, key=lambda piece: piece[1]))
    return offsets, played(packing, offsets), False


PLANNER = Planner(
    name="pool_best_fit",
    title="Pool, best fit",
    explanation=(
        "As the pool by first fit, but a block gets the smallest free piece that is large enough, so that large "
        "pieces stay whole. The arena is not the least possible either: what is left of pieces may fit nothing. "
        "Source: Knuth, The Art of Computer Programming, volume 1, section 2.5."
    ),
    place=best_fit,
    in_sequence=True,
)
