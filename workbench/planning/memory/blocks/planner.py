"""The interface of memory planners: a function from blocks to offsets, and its results."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from workbench.errors import UserError
from workbench.planning.memory.blocks.packing import Packing, check_offsets


@dataclass(frozen=True)
class Action:
    """What a planner does with a block at one step, for showing the plan step by step; offsets alone decide it.

    step:     the step of the execution order at which it acts.
    does:     "allocate" (new bytes), "reuse" (bytes of blocks that died) or "free".
    block:    its index.
    offset:   in bytes, of the arena.
    label:    the number of the colour or buffer that the planner gives to the block, if any.
    sentence: why, with numbers.
    """

    step: int
    does: str
    block: int
    offset: int
    sentence: str
    label: int | None = None


@dataclass(frozen=True)
class PlannedOffsets:
    """What a planner returns: the offset of each block in bytes, and how it got there.

    is_minimal: whether the planner has proved that no arena is smaller.
    """

    offsets: tuple[int, ...]
    actions: tuple[Action, ...]
    is_minimal: bool = False


@dataclass(frozen=True)
class Packed:
    """Where blocks lie: their offsets in bytes in an arena of `total` bytes.

    certified: whether no arena is smaller. seconds: the time of planning.
    """

    planner: str
    offsets: tuple[int, ...]
    total: int
    lower_bound: int
    certified: bool
    seconds: float
    actions: tuple[Action, ...] = ()

    @property
    def gap(self) -> float:
        """(total - lower bound) / total; 0 for an empty arena."""
        return (self.total - self.lower_bound) / self.total if self.total else 0.0


@dataclass(frozen=True)
class Planner:
    """A method that chooses offsets.

    title:         in a few words. explanation: how it decides, with its source, and its weaknesses.
    place:         from blocks and a limit in seconds to their offsets.
    needs_total_order: whether it follows one execution order, so that it cannot plan for operators side by side.
    """

    name: str
    title: str
    explanation: str
    place: Callable[[Packing, float], PlannedOffsets]
    needs_total_order: bool = False


def pack(packing: Packing, planner: Planner, seconds: float = 20) -> Packed:
    """The planner's offsets, checked; an arena as small as the lower bound is certified.

    Raises UserError if the planner cannot plan for a partial order, OverlapError if its offsets overlap.
    """
    if planner.needs_total_order and packing.partial_order is not None:
        raise UserError(
            f"The planner '{planner.name}' follows operators one after the other, and these run side by side; choose"
            " another planner."
        )
    began = time.perf_counter()
    planned = planner.place(packing, seconds)
    elapsed = time.perf_counter() - began
    check_offsets(packing, planned.offsets)
    total = max((start + block.bytes for start, block in zip(planned.offsets, packing.blocks, strict=True)), default=0)
    bound = packing.lower_bound
    certified = planned.is_minimal or total == bound
    return Packed(planner.name, planned.offsets, total, bound, certified, elapsed, planned.actions)
