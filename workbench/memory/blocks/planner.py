"""What a planner of memory is given and returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from workbench.errors import UserError
from workbench.memory.blocks.packing import Packing, check_offsets


@dataclass(frozen=True)
class Action:
    """What a planner does with a block, for playing it step by step.

    step:     of the execution order, at which it does so.
    does:     "allocate" (new bytes), "reuse" (bytes of blocks that died) or "free".
    block:    its index.
    offset:   in bytes, of the arena.
    label:    number of the colour or buffer that the planner gives it, if it gives any.
    sentence: why, with numbers.
    """

    step: int
    does: str
    block: int
    offset: int
    sentence: str
    label: int | None = None


@dataclass(frozen=True)
class Packed:
    """Where blocks lie: their offsets in bytes in an arena of `total` bytes.

    certified: whether no arena is smaller. seconds: that planning took.
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
    """A way to choose offsets.

    title:       in a few words. explanation: how it decides, with its source, and what it is not good for.
    place:       offsets and actions of a packing, within so many seconds, and whether they are proven minimal.
    in_sequence: whether it follows operators one after the other, and so cannot plan for a partial order.
    """

    name: str
    title: str
    explanation: str
    place: Callable[[Packing, float], tuple[tuple[int, ...], tuple[Action, ...], bool]]
    in_sequence: bool = False


def pack(packing: Packing, planner: Planner, seconds: float = 20) -> Packed:
    """The planner's offsets, checked; an arena as small as the lower bound is certified, whoever found it.

    Raises UserError if the planner cannot plan for a partial order, OverlapError if its offsets overlap.
    """
    if planner.in_sequence and packing.partial_order is not None:
        raise UserError(
            f"The planner '{planner.name}' follows operators one after the other, and these run side by side; choose"
            " another planner."
        )
    begun = time.perf_counter()
    offsets, actions, proven = planner.place(packing, seconds)
    taken = time.perf_counter() - begun
    check_offsets(packing, offsets)
    total = max((start + block.bytes for start, block in zip(offsets, packing.blocks, strict=True)), default=0)
    bound = packing.lower_bound
    return Packed(planner.name, offsets, total, bound, proven or total == bound, taken, actions)
