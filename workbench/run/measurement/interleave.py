"""Runs several variants interleaved, so that a busy moment affects all of them, until their medians are known."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workbench.run.measurement.statistics import is_stable

_MIN_RUNS, _MAX_RUNS = 10, 200
_BUDGET_S = 20.0
COLD_RUNS = 9
_CHECK_EVERY = 5  # iterations, since the statistics take time too


@dataclass(frozen=True)
class Repetitions:
    """The number of runs of each variant.

    warmup:   runs before the first that counts.
    min_runs: fewest runs that count.
    max_runs: most runs that count; fewer suffice if the medians are stable or `budget_s` seconds have passed.
    """

    warmup: int
    min_runs: int = _MIN_RUNS
    max_runs: int = _MAX_RUNS
    budget_s: float = _BUDGET_S


def repetitions(repeat: int | None, warmup: int) -> Repetitions:
    """Exactly `repeat` runs, or as many as needed."""
    return Repetitions(warmup) if repeat is None else Repetitions(warmup, repeat, repeat)


def interleaved(
    runs: Mapping[str, Callable[[], float]],
    count: Repetitions,
    step: Callable[[str], None] = lambda stage: None,
    clock: Callable[[], float] = time.monotonic,
    is_enough: Callable[[], bool] = lambda: False,
) -> dict[str, list[float]]:
    """The times of interleaved runs in milliseconds, by label; all lists have the same length.

    runs:      label -> a function that runs once and returns the milliseconds.
    is_enough: called after each iteration; if true, the measurement ends, with at least one run of each.
    """
    for _ in range(count.warmup):
        if is_enough():
            break
        for run in runs.values():
            run()
            step("warming up")
    times: dict[str, list[float]] = {label: [] for label in runs}
    ends = clock() + count.budget_s
    for iteration in range(1, count.max_runs + 1):
        for label, run in runs.items():
            times[label].append(run())
            at_most = "at most " * (count.min_runs < count.max_runs)
            step(f"run {iteration} of {at_most}{count.max_runs}")
        if is_enough():
            break
        if iteration >= count.min_runs and (clock() > ends or (iteration % _CHECK_EVERY == 0 and _all_stable(times))):
            break
    return times


def _all_stable(times: Mapping[str, list[float]]) -> bool:
    return all(is_stable(times_ms) for times_ms in times.values())
