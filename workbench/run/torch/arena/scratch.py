"""What operators allocate beside the arena while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from workbench.run.torch.arena.arena_run import ArenaRun

_STEP = "arena step "


@dataclass(frozen=True)
class Passing:
    """bytes: the most that torch's allocator held beside the arena at once. operators: those that allocated, by type,
    the largest first, with the most that one of them held."""

    bytes: int
    operators: tuple[tuple[str, int], ...]


def measure_passing(arena: ArenaRun) -> Passing:
    """One run on the CPU, watched by torch's profiler."""
    import torch

    with torch.inference_mode():
        arena.run()  # libraries allocate what they keep in a first run
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as watched:
            for number, step in enumerate(arena.steps):
                with torch.profiler.record_function(f"{_STEP}{number}"):
                    step.run()
    assert watched.profiler is not None and watched.profiler.kineto_results is not None
    held = most = 0
    largest: dict[str, int] = {}
    for event in _in_time(watched.profiler.kineto_results.experimental_event_tree()):
        if not event.name.startswith(_STEP):
            continue
        op, before, highest = arena.steps[int(event.name.removeprefix(_STEP))].instruction.node.op, held, held
        for change in _changes(event.children):
            held += change
            highest = max(highest, held)
        most = max(most, highest)
        if highest > before:
            largest[op] = max(largest.get(op, 0), highest - before)
    return Passing(most, tuple(sorted(largest.items(), key=lambda item: -item[1])))


def most_allocated(run: Callable[[], Any]) -> int:
    """The most bytes that torch's allocator held at once during a run on the CPU, besides what was there before."""
    import torch

    run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as watched:
        run()
    assert watched.profiler is not None and watched.profiler.kineto_results is not None
    held = most = 0
    for change in _changes(watched.profiler.kineto_results.experimental_event_tree()):
        held += change
        most = max(most, held)
    return most


def _changes(events: Iterable[Any]) -> Iterator[int]:
    """Bytes that are allocated and freed, in order."""
    for event in _in_time(events):
        if event.name == "[memory]":
            yield event.extra_fields.alloc_size
        yield from _changes(event.children)


def _in_time(events: Iterable[Any]) -> list[Any]:
    return sorted(events, key=lambda event: int(event.start_time_ns))
