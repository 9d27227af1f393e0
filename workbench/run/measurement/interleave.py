"""Runs several variants by turns, so that a busy moment affects them all, until their medians are known."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workbench.run.measurement.statistics import is_stable

_LEAST, _MOST = 10, 200
_BUDGET_S = 20.0
COLD_RUNS = 9
_CHECKED_EVERY = 5  # turns, since the statistics take time too


@dataclass(frozen=True)
class Repetitions:
    """The number of runs of each variant.

    warmup: runs before the first that counts. least, most: runs that count;
    in between, the medians and `budget_s`, the seconds of runs that count, decide.
    """

    warmup: int
    least: int = _LEAST
    most: int = _MOST
    budget_s: float = _BUDGET_S


def repetitions(repeat: int | None, warmup: int) -> Repetitions:
    """Exactly `repeat` runs, or as many as needed."""
    return Repetitions(warmup) if repeat is None else Repetitions(warmup, repeat, repeat)


def by_turns(
    runs: Mapping[str, Callable[[], float]],
    count: Repetitions,
    step: Callable[[str], None] = lambda stage: None,
    clock: Callable[[], float] = time.monotonic,
    is_enough: Callable[[], bool] = lambda: False,
) -> dict[str, list[float]]:
    """The times of all runs in milliseconds, taken by turns; all lists have the same length.

    runs: label -> a function that runs once and returns the milliseconds.
    is_enough: asked after each turn; if true, the runs so far are all, at least one of each.
    """
    for _ in range(count.warmup):
        if is_enough():
            break
        for run in runs.values():
            run()
            step("warming up")
    times: dict[str, list[float]] = {label: [] for label in runs}
    ends = clock() + count.budget_s
    for turn in range(1, count.most + 1):
        for label, run in runs.items():
            times[label].append(run())
            step(f"run {turn} of at most {count.most}" if count.least < count.most else f"run {turn} of {count.most}")
        if is_enough():
            break
        if turn >= count.least and (clock() > ends or (turn % _CHECKED_EVERY == 0 and _all_stable(times))):
            break
    return times


def _all_stable(times: Mapping[str, list[float]]) -> bool:
    return all(is_stable(taken) for taken in times.values())
