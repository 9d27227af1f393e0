"""Locks of files, each held until the file is closed or its process ends: flock(2), and its like on Windows."""

from __future__ import annotations

import sys
from typing import IO, Any


def lock(file: IO[Any]) -> None:
    """Hold the file alone; waits for whoever holds it, on Windows ten seconds at most. Raises OSError."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        return
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX)


def is_locked(file: IO[Any]) -> bool:
    """Does another open file hold it alone? Raises OSError where files cannot be locked."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # flock's word, and Windows'
        return True
    return False
