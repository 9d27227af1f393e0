"""Finds the fastest of several functions that compute a group, by short interleaved runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

_MIN_ROUNDS, _MAX_ROUNDS = 5, 30  # after a warm-up round
_SHORT_BUDGET_S, _BUDGET_S = 0.03, 0.5  # time limits of rounds after _MIN_ROUNDS, and after the second


def fastest_ms(runs: Sequence[Callable[[], Any]], wait: Callable[[], None] = lambda: None) -> list[float]:
    """Milliseconds of the fastest run of each. wait: returns when the device is idle."""
    best = [math.inf] * len(runs)
    begin = time.perf_counter()
    for round_ in range(_MAX_ROUNDS + 1):
        passed = time.perf_counter() - begin
        if (round_ > 2 and passed > _BUDGET_S) or (round_ > _MIN_ROUNDS and passed > _SHORT_BUDGET_S):
            break
        for i, run in enumerate(runs):
            wait()
            start = time.perf_counter()
            run()
            wait()
            time_ms = (time.perf_counter() - start) * 1e3
            best[i] = min(best[i], time_ms) if round_ else best[i]
    return best
