"""Which of several ways to compute a group is the fastest: short runs by turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

_ROUNDS = 5  # by turns, after one to warm up
_BUDGET_S = 0.5  # for the rounds, after the first two


def fastest_ms(runs: Sequence[Callable[[], Any]], wait: Callable[[], None] = lambda: None) -> list[float]:
    """Milliseconds of the fastest run of each. wait: returns when the device has done all."""
    best = [math.inf] * len(runs)
    ends = time.perf_counter() + _BUDGET_S
    for turn in range(_ROUNDS + 1):
        if turn > 2 and time.perf_counter() > ends:
            break
        for i, run in enumerate(runs):
            wait()
            start = time.perf_counter()
            run()
            wait()
            taken = (time.perf_counter() - start) * 1e3
            best[i] = min(best[i], taken) if turn else best[i]
    return best
