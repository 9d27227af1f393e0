"""Locks of files, each held until the file is closed or its process ends: flock(2), and its like on Windows."""

from __future__ import annotations

import sys
from typing import IO, Any


def lock(file: IO[Any]) -> None:
    """Hold the file alone; waits for whoever holds it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        return
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX)


def is_locked(file: IO[Any]) -> bool:
    """Does another open file hold it alone?"""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False
