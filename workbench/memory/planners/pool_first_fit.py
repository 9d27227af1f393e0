"""A pool that takes the first free piece that is large enough."""

from __future__ import annotations

from workbench.memory.blocks.actions import played
from workbench.memory.blocks.packing import Packing
from workbench.memory.blocks.planner import Action, Planner
from workbench.memory.blocks.pool import pooled


def first_fit(packing: Packing, seconds: float) -> tuple[tuple[int, ...], tuple[Action, ...], bool]:
    offsets = pooled(packing, lambda fits: fits[0])
    return offsets, played(packing, offsets), False


PLANNER = Planner(
    name="pool_first_fit",
    title="Pool, first fit",
    explanation=(
        "A pool follows the execution order: a block gets the first free piece that is large enough, else the pool "
        "grows; freed pieces merge with free neighbours. The most that the pool ever held is the arena. It is not "
        "the least possible: free bytes may lie in pieces too small for the next block (fragmentation). Source: "
        "Knuth, The Art of Computer Programming, volume 1, section 2.5."
    ),
    place=first_fit,
    in_sequence=True,
)
