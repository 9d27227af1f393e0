"""Chooses between running operators concurrently and sequentially on this device."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from workbench.backends.profiling.profile_result import MeasuredStreams
from workbench.backends.torch.streams.launches import Launches
from workbench.backends.torch.streams.threads import ThreadedRun

_MIN_ROUNDS, _MAX_ROUNDS, _BUDGET_S = 3, 9, 4.0  # limits of interleaved timing
_ONE_STREAM = "there is only one stream, or one core"
_Run = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class StreamsRun:
    """A candidate way of running the kernel launches.

    is_concurrent: whether operators may run at the same time.
    threaded:      is closed if the run is not chosen; None on CUDA.
    """

    run: _Run
    is_concurrent: bool
    threaded: ThreadedRun | None = None

    def close(self) -> None:
        if self.threaded is not None:
            self.threaded.close()


@dataclass(frozen=True)
class ChosenRun:
    """The chosen run.

    sequential_reason: why it is sequential; None if it is concurrent.
    measured:          None if no concurrent run was timed.
    """

    run: _Run
    sequential_reason: str | None
    measured: MeasuredStreams | None = None


def threaded_runs(launches: Launches, cores: int) -> list[ThreadedRun]:
    """Candidates with one thread per stream, at most one per core; a kernel uses all cores or an equal share of them.

    A further candidate with one stream and the same share separates the gain of smaller kernels from that of streams.
    """
    threads = min(len(launches.schedule.streams), cores)
    if threads < 2:
        return []
    share = cores // threads
    return [ThreadedRun(launches, *counts) for counts in ((threads, cores), (threads, share), (1, share))]


def fastest(
    launches: Launches, plain: _Run, candidates: Sequence[StreamsRun], synchronize: Callable[[], None]
) -> ChosenRun:
    """The fastest run whose results equal those of `plain` to the last bit; `plain` if none is faster.

    synchronize: returns when the device is idle.
    """
    if not candidates:
        return ChosenRun(plain, _ONE_STREAM)
    expected = [copied(value) for value in plain().values()]
    exact = [candidate for candidate in candidates if all(map(has_same_bits, candidate.run().values(), expected))]
    exact.append(StreamsRun(plain, is_concurrent=False))
    times = _times_ms([candidate.run for candidate in exact], synchronize)

    def time_of(candidate: StreamsRun) -> float:
        return times[candidate.run]

    sequential = min((candidate for candidate in exact if not candidate.is_concurrent), key=time_of)
    concurrent = min((candidate for candidate in exact if candidate.is_concurrent), key=time_of, default=None)
    best = sequential if concurrent is None else min(sequential, concurrent, key=time_of)
    for candidate in candidates:
        if candidate is not best:
            candidate.close()
    if concurrent is None:
        return ChosenRun(best.run, "on several streams the results differ in their last bits")
    schedule, threaded = launches.schedule, concurrent.threaded
    measured = MeasuredStreams(
        len(schedule.streams),
        schedule.waits,
        0 if threaded is None else threaded.threads,
        0 if threaded is None else threaded.threads_of_kernel,
        time_of(sequential),
        time_of(concurrent),
    )
    if best is concurrent:
        return ChosenRun(best.run, None, measured)
    return ChosenRun(best.run, f"one stream is faster on this device: {measured.sentence}", measured)


def _times_ms(runs: Sequence[_Run], synchronize: Callable[[], None]) -> dict[_Run, float]:
    """The median time of each run, interleaved; the second of two runs counts, since its threads are awake."""
    results: dict[_Run, list[float]] = {run: [] for run in runs}
    begin = time.perf_counter()
    for number in range(_MAX_ROUNDS):
        if number >= _MIN_ROUNDS and time.perf_counter() - begin > _BUDGET_S:
            break
        for run in runs:
            run()
            synchronize()
            start = time.perf_counter()
            run()
            synchronize()
            results[run].append((time.perf_counter() - start) * 1e3)
    return {run: median(times) for run, times in results.items()}


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
