"""Which of several ways to compute a group is the fastest: short runs by turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

_FEW, _MANY = 5, 30  # rounds by turns, after one to warm up: more than a few while they are short
_SHORT_S, _BUDGET_S = 0.03, 0.5  # for the rounds after the few, and for those after the first two


def fastest_ms(runs: Sequence[Callable[[], Any]], wait: Callable[[], None] = lambda: None) -> list[float]:
    """Milliseconds of the fastest run of each. wait: returns when the device has done all."""
    best = [math.inf] * len(runs)
    begun = time.perf_counter()
    for turn in range(_MANY + 1):
        passed = time.perf_counter() - begun
        if (turn > 2 and passed > _BUDGET_S) or (turn > _FEW and passed > _SHORT_S):
            break
        for i, run in enumerate(runs):
            wait()
            start = time.perf_counter()
            run()
            wait()
            taken = (time.perf_counter() - start) * 1e3
            best[i] = min(best[i], taken) if turn else best[i]
    return best
