"""Times of functions in this process: once, or interleaved; and how a ratio of medians is written."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from workbench.run.measurement.statistics import Ratio

Result = TypeVar("Result")


def timed(run: Callable[[], Result]) -> tuple[Result, float]:
    """What the function returns, and the seconds that it took."""
    started = time.perf_counter()
    result = run()
    return result, time.perf_counter() - started


def interleaved(runs: Mapping[str, Callable[[], object]], rounds: int, warmup: int = 3) -> dict[str, list[float]]:
    """By name, the milliseconds of each run. Rounds have a random order; those of the warmup are not counted."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    order = list(runs)
    for number in range(warmup + rounds):
        random.shuffle(order)
        for name in order:
            seconds = timed(runs[name])[1]
            if number >= warmup:
                times[name].append(seconds * 1e3)
    return times


def with_interval(ratio: Ratio, digits: int = 2) -> str:
    """ "0.92 (0.91 to 0.94)": the ratio of two medians, with its 95 % interval."""
    return f"{ratio.ratio:.{digits}f} ({interval(ratio, digits, 'to')})"


def interval(ratio: Ratio, digits: int = 2, between: str = "and") -> str:
    return f"{ratio.ratio_low:.{digits}f} {between} {ratio.ratio_high:.{digits}f}"
