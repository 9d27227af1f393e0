"""Waits until the threads of a run sleep; those of OpenMP and ONNX Runtime spin for 8 to 40 ms after it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

_TASKS = Path("/proc/self/task")  # the threads of this process, on Linux
_POLL_S, _MAX_WAIT_S = 0.001, 0.5
_SAMPLE_S, _BUSY_S = 0.04, 0.001


def wait_for_sleep() -> None:
    """Wait until no other thread of this process runs, at most half a second."""
    deadline = time.monotonic() + _MAX_WAIT_S
    while _others_run() and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _others_run() -> bool:
    """Whether other threads run: by their states if the system reports them, else by the CPU time of a sample.

    A system may update the CPU time only at clock ticks, 1 to 16 ms apart. A short sample would then miss a spinning
    thread half of the time.
    """
    if _TASKS.exists():
        this_thread = str(threading.get_native_id())
        return any(task.name != this_thread and _runs(task) for task in _TASKS.iterdir())
    before = time.process_time()
    time.sleep(_SAMPLE_S)
    return time.process_time() - before > _BUSY_S


def _runs(task: Path) -> bool:
    try:
        stat = (task / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # it ended
        return False
    return stat.rpartition(")")[2].split()[0] == "R"  # after the name, which may hold spaces; proc_pid_stat(5)
