"""Waiting until the threads of a run sleep: those of OpenMP and of ONNX Runtime spin for 8 to 40 ms after it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

_TASKS = Path("/proc/self/task")  # of Linux
_LOOK_S, _LONGEST_S = 0.001, 0.5
_LONG_LOOK_S, _BUSY_S = 0.04, 0.001


def wait_for_sleep() -> None:
    """Wait until no thread of this process runs but the calling one; half a second at most."""
    ends = time.monotonic() + _LONGEST_S
    while _others_run() and time.monotonic() < ends:
        time.sleep(_LOOK_S)


def _others_run() -> bool:
    """By the threads' states where the system tells them, else by the CPU time over a longer look.

    A system may add the time of a thread that runs only at its clock's ticks, 1 to 16 ms apart: a short look at the
    CPU time sees a spinning thread half of the time.
    """
    if _TASKS.exists():
        own = str(threading.get_native_id())
        return any(task.name != own and _runs(task) for task in _TASKS.iterdir())
    taken = time.process_time()
    time.sleep(_LONG_LOOK_S)
    return time.process_time() - taken > _BUSY_S


def _runs(task: Path) -> bool:
    try:
        stat = (task / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # it ended
        return False
    return stat.rpartition(")")[2].split()[0] == "R"  # after the name, which may hold spaces; proc_pid_stat(5)
