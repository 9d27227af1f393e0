"""Offsets as actions: what is allocated, reused and freed at each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from workbench.planning.memory.blocks.packing import Packing
from workbench.planning.memory.blocks.planner import Action, Packed


@dataclass(frozen=True)
class _Segment:
    """Bytes of the arena, and the block that was there last."""

    begin: int
    end: int
    block: int


def actions_of(packing: Packing, offsets: Sequence[int], labels: Sequence[int] | None = None) -> tuple[Action, ...]:
    """The actions of a plan with these offsets, in order of steps; at a step, blocks are freed before any is placed.

    labels: by block, the number of its colour or buffer, if the planner gives blocks such numbers.
    """
    blocks = packing.blocks
    events = [(block.dies, 0, i) for i, block in enumerate(blocks)] + [(b.born, 1, i) for i, b in enumerate(blocks)]
    segments: list[_Segment] = []
    actions = []
    for step, is_placed, i in sorted(events):
        block, offset, label = blocks[i], offsets[i], None if labels is None else labels[i]
        where = f"bytes {offset:,} to {offset + block.bytes:,}" + ("" if label is None else f", label {label}")
        if not is_placed:
            actions.append(
                Action(step, "free", i, offset, f"'{block.name}' is not read any more: {where} are free", label)
            )
            continue
        overwritten = [segment for segment in segments if segment.begin < offset + block.bytes and offset < segment.end]
        segments = [*_outside(segments, offset, offset + block.bytes), _Segment(offset, offset + block.bytes, i)]
        if overwritten:
            names = ", ".join(f"'{blocks[segment.block].name}'" for segment in overwritten[:3]) + (
                ", ..." if len(overwritten) > 3 else ""
            )
            actions.append(Action(step, "reuse", i, offset, f"'{block.name}' gets {where}, where {names} lay", label))
        else:
            actions.append(Action(step, "allocate", i, offset, f"'{block.name}' gets {where}, unused so far", label))
    return tuple(actions)


def _outside(segments: Sequence[_Segment], begin: int, end: int) -> Iterator[_Segment]:
    """The parts of the segments outside of these bytes."""
    for segment in segments:
        if segment.begin < min(segment.end, begin):
            yield _Segment(segment.begin, min(segment.end, begin), segment.block)
        if max(segment.begin, end) < segment.end:
            yield _Segment(max(segment.begin, end), segment.end, segment.block)


def follow_lifetimes(packing: Packing, born: Callable[[int], None], dies: Callable[[int], None]) -> None:
    """Call `dies` and `born` with blocks in execution order; at a step, blocks die before others are born."""
    blocks = packing.blocks
    events = [(block.dies, 0, i) for i, block in enumerate(blocks)] + [(b.born, 1, i) for i, b in enumerate(blocks)]
    for _, is_born, i in sorted(events):
        (born if is_born else dies)(i)


def labels_of(packed: Packed) -> dict[int, int]:
    """For each block, the label that the planner gave it; empty for a planner that gives none."""
    return {action.block: action.label for action in packed.actions if action.label is not None}


def free_labels(packed: Packed, step: int) -> list[int]:
    """The labels that are free at the end of a step."""
    free: dict[int, None] = {}
    for action in packed.actions:
        if action.label is None or action.step > step:
            continue
        if action.does == "free":
            free[action.label] = None
        else:
            free.pop(action.label, None)
    return sorted(free)
