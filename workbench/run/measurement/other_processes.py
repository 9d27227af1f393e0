"""How much of the machine's cores other processes take while something is measured: times are then of them too."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psutil

TOLERATED = 0.25  # cores; what a system does by itself, and the process that asked for the measurement
_IDLE = ("idle", "iowait", "guest", "guest_nice")  # guests' time is in that of users too
_LEAST_S = 0.1  # of CPU time over all cores: below it the counters, which tick every 10 ms, say too little


@dataclass(frozen=True)
class OtherProcesses:
    """The mean number of cores that other processes used during a measurement.

    cores: used by them. idle: used by nobody. of: that this process may use. threads: of one of our operators.
    """

    cores: float
    idle: float
    of: int
    threads: int

    @property
    def is_contended(self) -> bool:
        """Whether they left too few cores for our threads, which then wait for each other.

        Where no core was idle they may have wanted more than they got.
        """
        left = max(0, self.of - self.threads)
        return self.cores > TOLERATED and (self.cores > left + TOLERATED or self.idle < TOLERATED)


class Watch:
    """Counts from its beginning. Our processes are this one and those that it started."""

    def __init__(self) -> None:
        self._cores = _our_cores()
        self._begun = self._taken()

    def seen(self, threads: int) -> OtherProcesses | None:
        """None if the time is too short, or the system counts nothing."""
        spent, idle, ours = (after - before for after, before in zip(self._taken(), self._begun, strict=True))
        if spent + idle < _LEAST_S:
            return None
        count = len(self._cores)
        share = count / (spent + idle)
        return OtherProcesses(max(0.0, spent - ours) * share, idle * share, count, threads)

    def _taken(self) -> tuple[float, float, float]:
        """Seconds since the system's start: of the cores in use, idle, and of our processes."""
        every = psutil.cpu_times(percpu=True)
        cores = [every[core] for core in self._cores if core < len(every)]
        idle = sum(core.idle + getattr(core, "iowait", 0.0) for core in cores)
        spent = sum(getattr(core, name) for core in cores for name in core._fields if name not in _IDLE)
        return spent, idle, _of_ours()


def other_processes_from_json(results: Mapping[str, Any] | None) -> OtherProcesses | None:
    return None if results is None else OtherProcesses(**results)


def _our_cores() -> list[int]:
    count = os.cpu_count() or 1
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(count))


def _of_ours() -> float:
    """CPU seconds of this process and its children, with those that have ended."""
    this = psutil.Process()
    seconds = 0.0
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile; its parent counts it
            seconds += sum(process.cpu_times()[:4])  # user, system, and both of children that ended
    return seconds
