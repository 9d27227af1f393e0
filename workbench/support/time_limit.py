"""A limit of time for code of others that runs in this thread, by the timer of the process (POSIX, the main thread)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class OutOfTime(BaseException):
    """The limit was reached; raised wherever the code is."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises OutOfTime in the code inside when it has run for so many seconds."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
