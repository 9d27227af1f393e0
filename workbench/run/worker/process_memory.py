"""How far this process's memory grows while something runs."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil


def growth(run: Callable[[], Any]) -> int:
    """Bytes that the resident memory grew by at most while `run` ran."""
    before = _reset_peak()
    run()
    return max(0, peak() - before)


def _reset_peak() -> int:
    """Forget the process's peak and return what it holds now, in bytes (proc(5), clear_refs; malloc_trim(3))."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc: what earlier models left free goes back to the system, or growth would hide in it
        trim(0)
    with suppress(OSError):  # not Linux, see `peak`
        Path("/proc/self/clear_refs").write_text("5")
    result: int = psutil.Process().memory_info().rss
    return result


def peak() -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # not Linux: what is left when the run is over
        result: int = psutil.Process().memory_info().rss
        return result
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
