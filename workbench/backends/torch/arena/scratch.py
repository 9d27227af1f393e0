"""Scratch memory: what operators allocate outside of the arena while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from workbench.backends.torch.arena.arena_run import ArenaRun

_STEP = "arena step "


@dataclass(frozen=True)
class Scratch:
    """The scratch memory of one run.

    bytes:     the peak that torch's allocator held outside of the arena.
    operators: types of operators that allocated, each with its largest peak, the largest first.
    """

    bytes: int
    operators: tuple[tuple[str, int], ...]


def measure_scratch(arena: ArenaRun) -> Scratch:
    """The scratch memory of a run on the CPU, by torch's profiler."""
    import torch

    with torch.inference_mode():
        arena.run()  # in a first run, libraries allocate memory that they keep
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
            for number, step in enumerate(arena.steps):
                with torch.profiler.record_function(f"{_STEP}{number}"):
                    step.run()
    assert profiler.profiler is not None and profiler.profiler.kineto_results is not None
    live = peak = 0
    by_operator: dict[str, int] = {}
    for event in _in_time(profiler.profiler.kineto_results.experimental_event_tree()):
        if not event.name.startswith(_STEP):
            continue
        op, before, step_peak = arena.steps[int(event.name.removeprefix(_STEP))].instruction.node.op, live, live
        for change in _changes(event.children):
            live += change
            step_peak = max(step_peak, live)
        peak = max(peak, step_peak)
        if step_peak > before:
            by_operator[op] = max(by_operator.get(op, 0), step_peak - before)
    return Scratch(peak, tuple(sorted(by_operator.items(), key=lambda item: -item[1])))


def peak_allocated(run: Callable[[], Any]) -> int:
    """The peak growth of torch's allocator during a run on the CPU, in bytes."""
    import torch

    run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    assert profiler.profiler is not None and profiler.profiler.kineto_results is not None
    live = peak = 0
    for change in _changes(profiler.profiler.kineto_results.experimental_event_tree()):
        live += change
        peak = max(peak, live)
    return peak


def _changes(events: Iterable[Any]) -> Iterator[int]:
    """The bytes of allocations, and of frees as negative numbers, in order."""
    for event in _in_time(events):
        if event.name == "[memory]":
            yield event.extra_fields.alloc_size
        yield from _changes(event.children)


def _in_time(events: Iterable[Any]) -> list[Any]:
    return sorted(events, key=lambda event: int(event.start_time_ns))
