"""The growth of this process's memory during a run."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil


def rss_growth(run: Callable[[], Any]) -> int:
    """The peak growth of the resident memory during `run`, in bytes."""
    before = _reset_peak()
    run()
    return max(0, peak() - before)


def _reset_peak() -> int:
    """Reset the process's peak and return its resident bytes (proc(5), clear_refs; malloc_trim(3))."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc: return free memory to the system, since later growth would reuse it unseen
        trim(0)
    with suppress(OSError):  # not Linux, see `peak`
        Path("/proc/self/clear_refs").write_text("5")
    result: int = psutil.Process().memory_info().rss
    return result


def peak() -> int:
    """The peak of the resident memory since `_reset_peak`, in bytes."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # not Linux: the memory after the run
        result: int = psutil.Process().memory_info().rss
        return result
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
