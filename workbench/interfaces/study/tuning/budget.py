"""A limit on wall time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from workbench.interfaces.study.tuning.pipelines import TuneError

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_MAX_S = 7 * 24 * 3600.0
_SOFT = 0.9  # share of the budget after which no batch begins; a running batch has the rest to end


def parse_budget(text: str) -> float:
    """Seconds of "90s", "10m" or "1.5h". Raises TuneError with one sentence."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([smh])", text.strip())
    if match is None:
        raise TuneError(f"the budget is a time such as 90s, 10m or 1h, not '{text[:40]}'")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if not 0 < seconds <= _MAX_S:
        raise TuneError(f"the budget must be more than 0 and at most a week, not '{text[:40]}'")
    return seconds


class Budget:
    """A budget of wall time, which starts when it is created."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock, self._started = seconds, clock, clock()

    def part(self, share: float) -> Budget:
        """A budget of this share of the seconds, which started when this one did."""
        part = Budget(share * self.seconds, self._clock)
        part._started = self._started
        return part

    @property
    def spent_s(self) -> float:
        return self._clock() - self._started

    @property
    def left_s(self) -> float:
        return max(0.0, self.seconds - self.spent_s)

    @property
    def is_closed_to_batches(self) -> bool:
        """Whether no further batch may begin."""
        return self.spent_s >= _SOFT * self.seconds
