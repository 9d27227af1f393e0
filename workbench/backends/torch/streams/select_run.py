"""Chooses between running operators concurrently and sequentially on this device."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from workbench.backends.profiling.profile_result import MeasuredStreams
from workbench.planning.streams.scheduling import Schedule

_MIN_ROUNDS, _MAX_ROUNDS, _BUDGET_S = 3, 9, 4.0  # limits of interleaved timing
_Run = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class ChosenRun:
    """The chosen run.

    sequential_reason: why it is sequential; None if it is concurrent.
    measured:          None if the concurrent run was not timed.
    """

    run: _Run
    sequential_reason: str | None
    measured: MeasuredStreams | None = None


def faster(schedule: Schedule, sequential: _Run, concurrent: _Run, synchronize: Callable[[], None]) -> ChosenRun:
    """The concurrent run, if it is faster and its results equal those of the sequential one to the last bit.

    schedule:    of the concurrent run. synchronize: returns when the device is idle.
    """
    expected = [copied(value) for value in sequential().values()]
    if not all(map(has_same_bits, concurrent().values(), expected)):
        return ChosenRun(sequential, "on several streams the results differ in their last bits")
    times = _times_ms([sequential, concurrent], synchronize)
    measured = MeasuredStreams(len(schedule.streams), schedule.waits, *times)
    if measured.is_faster:
        return ChosenRun(concurrent, None, measured)
    return ChosenRun(sequential, f"one stream is faster on this device: {measured.sentence}", measured)


def _times_ms(runs: Sequence[_Run], synchronize: Callable[[], None]) -> list[float]:
    """The median time of each run, interleaved; the second of two runs counts, since the device is then awake."""
    results: list[list[float]] = [[] for _ in runs]
    begin = time.perf_counter()
    for number in range(_MAX_ROUNDS):
        if number >= _MIN_ROUNDS and time.perf_counter() - begin > _BUDGET_S:
            break
        for run, times in zip(runs, results, strict=True):
            run()
            synchronize()
            start = time.perf_counter()
            run()
            synchronize()
            times.append((time.perf_counter() - start) * 1e3)
    return [median(times) for times in results]


def copied(value: Any) -> Any:
    """A copy of a result, which later runs do not overwrite."""
    if isinstance(value, list):
        return [copied(one) for one in value]
    return value.clone() if hasattr(value, "untyped_storage") else value


def has_same_bits(one: Any, other: Any) -> bool:
    """Whether two results, tensors or lists of tensors, are equal to the last bit."""
    import torch

    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(has_same_bits, one, other))
    if not isinstance(one, torch.Tensor):
        return type(one) is type(other) and bool((one == other) if one is None else (one == other).all())
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(*(value.contiguous().reshape(-1).view(torch.uint8) for value in (one, other)))
