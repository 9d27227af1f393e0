"""The cores that other processes use during a measurement, and so affect its times."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psutil

TOLERATED_CORES = 0.25  # used by the system itself and the process that requested the measurement
_IDLE = ("idle", "iowait", "guest", "guest_nice")  # the time of guests is also counted as user time
_MIN_CPU_S = 0.1  # over all cores; the counters tick every 10 ms and are too coarse for less


@dataclass(frozen=True)
class BackgroundLoad:
    """The mean number of cores that other processes used during a measurement.

    cores:   used by other processes.
    idle:    used by no process.
    of:      that this process may use.
    threads: that one operator of ours uses.
    """

    cores: float
    idle: float
    of: int
    threads: int

    @property
    def is_contended(self) -> bool:
        """Whether other processes left too few cores for our threads, which then wait for each other.

        If no core was idle, other processes may have needed more cores than they got.
        """
        spare = max(0, self.of - self.threads)
        return self.cores > TOLERATED_CORES and (self.cores > spare + TOLERATED_CORES or self.idle < TOLERATED_CORES)


class Watch:
    """Measures from its creation on. Our processes are this one and its descendants."""

    def __init__(self) -> None:
        self._cores = _usable_cores()
        self._start = self._cpu_seconds()

    def result(self, threads: int) -> BackgroundLoad | None:
        """The mean use of cores since the creation; None if the time is too short, or the system counts nothing."""
        spent, idle, own_seconds = (
            after - before for after, before in zip(self._cpu_seconds(), self._start, strict=True)
        )
        if spent + idle < _MIN_CPU_S:
            return None
        count = len(self._cores)
        share = count / (spent + idle)
        return BackgroundLoad(max(0.0, spent - own_seconds) * share, idle * share, count, threads)

    def _cpu_seconds(self) -> tuple[float, float, float]:
        """Seconds since the system's start: of used cores, of idle cores, and of our processes."""
        all_cores = psutil.cpu_times(percpu=True)
        cores = [all_cores[core] for core in self._cores if core < len(all_cores)]
        idle = sum(core.idle + getattr(core, "iowait", 0.0) for core in cores)
        spent = sum(getattr(core, name) for core in cores for name in core._fields if name not in _IDLE)
        return spent, idle, _own_seconds()


def background_load_from_json(results: Mapping[str, Any] | None) -> BackgroundLoad | None:
    return None if results is None else BackgroundLoad(**results)


def _usable_cores() -> list[int]:
    count = os.cpu_count() or 1
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(count))


def _own_seconds() -> float:
    """CPU seconds of this process and its descendants, including those that have ended."""
    this = psutil.Process()
    seconds = 0.0
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile; its parent counts it
            seconds += sum(process.cpu_times()[:4])  # user, system, and both of children that ended
    return seconds
