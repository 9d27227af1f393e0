"""Whether a graph is faster side by side than one operator after the other, on this device."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from workbench.run.profiling.profiled import MeasuredLanes
from workbench.run.torch.streams.launches import Launches
from workbench.run.torch.streams.threads import ThreadedRun

_LEAST_ROUNDS, _MOST_ROUNDS, _SECONDS = 3, 9, 4.0  # in which each way is timed, by turns
_ALONE = "there is one lane, on which each operator waits for the one before, or one core"
_Run = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class LanesWay:
    """A way to run launches. is_beside: side by side. threaded: is closed if the way is not taken; none on CUDA."""

    run: _Run
    is_beside: bool
    threaded: ThreadedRun | None = None

    def close(self) -> None:
        if self.threaded is not None:
            self.threaded.close()


@dataclass(frozen=True)
class ChosenWay:
    """run: the way taken. reason: why it is one after the other, if it is. measured: None if nothing else was tried."""

    run: _Run
    reason: str | None
    measured: MeasuredLanes | None = None


def by_threads(launches: Launches, cores: int) -> list[ThreadedRun]:
    """As many threads as can ever be busy, with all cores for each of their kernels, or the cores divided among them;
    and one thread with as few, so that what fewer threads in a kernel gain is not taken for a gain of lanes."""
    threads = min(len(launches.schedule.lanes), cores)
    if threads < 2:
        return []
    few = cores // threads
    return [ThreadedRun(launches, *each) for each in ((threads, cores), (threads, few), (1, few))]


def fastest(launches: Launches, one_by_one: _Run, ways: Sequence[LanesWay], wait: Callable[[], None]) -> ChosenWay:
    """The fastest of those ways whose results have the same bits as one after the other, and the latter if none is
    faster. wait: returns when the device has done all."""
    if not ways:
        return ChosenWay(one_by_one, _ALONE)
    expected = [copied(value) for value in one_by_one().values()]
    same = [way for way in ways if all(map(has_same_bits, way.run().values(), expected))]
    same.append(LanesWay(one_by_one, is_beside=False))
    times = _times_ms([way.run for way in same], wait)

    def time_of(way: LanesWay) -> float:
        return times[way.run]

    alone = min((way for way in same if not way.is_beside), key=time_of)
    beside = min((way for way in same if way.is_beside), key=time_of, default=None)
    best = alone if beside is None else min(alone, beside, key=time_of)
    for way in ways:
        if way is not best:
            way.close()
    if beside is None:
        return ChosenWay(best.run, "side by side its results differ in their last bits")
    made, threaded = launches.schedule, beside.threaded
    measured = MeasuredLanes(
        len(made.lanes),
        made.waits,
        0 if threaded is None else threaded.threads,
        0 if threaded is None else threaded.threads_of_kernel,
        time_of(alone),
        time_of(beside),
    )
    if best is beside:
        return ChosenWay(best.run, None, measured)
    return ChosenWay(best.run, f"that is faster here: {measured.sentence}", measured)


def _times_ms(runs: Sequence[_Run], wait: Callable[[], None]) -> dict[_Run, float]:
    """The median of each, by turns; of two runs the second, whose threads are awake."""
    results: dict[_Run, list[float]] = {run: [] for run in runs}
    started = time.perf_counter()
    for number in range(_MOST_ROUNDS):
        if number >= _LEAST_ROUNDS and time.perf_counter() - started > _SECONDS:
            break
        for run in runs:
            run()
            wait()
            begun = time.perf_counter()
            run()
            wait()
            results[run].append((time.perf_counter() - begun) * 1e3)
    return {run: median(times) for run, times in results.items()}


def copied(value: Any) -> Any:
    """A result that later runs do not overwrite."""
    if isinstance(value, list):
        return [copied(one) for one in value]
    return value.clone() if hasattr(value, "untyped_storage") else value


def has_same_bits(one: Any, other: Any) -> bool:
    import torch

    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(has_same_bits, one, other))
    if not isinstance(one, torch.Tensor):
        return type(one) is type(other) and bool((one == other) if one is None else (one == other).all())
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(*(value.contiguous().reshape(-1).view(torch.uint8) for value in (one, other)))
