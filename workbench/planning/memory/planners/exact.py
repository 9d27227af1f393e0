"""The smallest arena, with a proof if the time suffices."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from workbench.planning.memory.blocks.actions import actions_of
from workbench.planning.memory.blocks.interval_order import interval_steps
from workbench.planning.memory.blocks.local_search import improved
from workbench.planning.memory.blocks.packing import Packing
from workbench.planning.memory.blocks.planner import PlannedOffsets, Planner
from workbench.planning.memory.planners import (
    colouring,
    greedy_by_breadth,
    greedy_by_size,
    pool_best_fit,
    pool_first_fit,
)

_SIMPLE = (greedy_by_size, greedy_by_breadth, pool_best_fit, pool_first_fit, colouring)
_THREADS = 6  # on two cores, omnimalloc's default number finds worse arenas


def smallest(packing: Packing, seconds: float) -> PlannedOffsets:
    planners = [simple.PLANNER for simple in _SIMPLE]
    if packing.partial_order is not None:
        planners = [planner for planner in planners if not planner.needs_total_order]
    best: tuple[int, ...] | None = None
    for planner in planners:
        offsets = planner.place(packing, seconds).offsets
        if best is None or _total(packing, offsets) < _total(packing, best):
            best = offsets
        if _total(packing, best) == packing.lower_bound:
            return PlannedOffsets(best, actions_of(packing, best), is_minimal=True)
    assert best is not None
    proven, result = False, best
    steps = interval_steps(packing)
    if steps is not None and find_spec("omnimalloc") is not None:
        result, proven = _searched(packing, steps, seconds)
    elif packing.partial_order is not None:
        result = improved(packing, best, seconds)
    best = min(result, best, key=lambda offsets: _total(packing, offsets))
    return PlannedOffsets(best, actions_of(packing, best), proven)


def _total(packing: Packing, offsets: tuple[int, ...]) -> int:
    return max((begin + block.bytes for begin, block in zip(offsets, packing.blocks, strict=True)), default=0)


def _searched(packing: Packing, steps: Sequence[tuple[int, int]], seconds: float) -> tuple[tuple[int, ...], bool]:
    """Offsets by omnimalloc's branch and bound, and whether it proved that none are better."""
    from omnimalloc import Allocation
    from omnimalloc.allocators.supermalloc import SupermallocAllocator

    sizes = [block.bytes for block in packing.blocks]
    allocations = tuple(
        Allocation(id=i, size=size, start=born, end=dies)
        for i, (size, (born, dies)) in enumerate(zip(sizes, steps, strict=True))
        if size and dies > born
    )
    result = SupermallocAllocator(timeout=seconds, num_threads=_THREADS).solve(allocations)
    offsets = [0] * len(packing.blocks)
    for allocation in result.allocations:
        assert allocation.offset is not None
        offsets[int(allocation.id)] = allocation.offset
    return tuple(offsets), bool(result.proved_optimal)


PLANNER = Planner(
    name="exact",
    title="Exact",
    explanation=(
        "The simple planners run first; if one reaches the peak of bytes in use at once, its arena is minimal. If none"
        " reaches it, a branch-and-bound search (omnimalloc's supermalloc, https://github.com/fpedd/omnimalloc) looks"
        " for a smaller arena, until it has proved that there is none or the time is over. If operators run side by"
        " side and no order of steps says which blocks are in use together, a local search moves the blocks at the end"
        " of the arena to lower offsets, as long as the arena does not grow."
    ),
    place=smallest,
)
