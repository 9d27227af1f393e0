"""Whose turn it is on a device: one user's jobs on this machine, one at a time, in the order in which they came.

A queue is a folder with a file, a ticket, for each job that runs or waits.
Numbers are given out one at a time, and whoever holds a ticket keeps its file
locked (`file_lock.py`), so that the turn of a process that dies ends with it. The
folder lies where temporary files do, since a lock is one machine's: a home may
be shared by several. WORKBENCH_TURNS names another folder. Other users' jobs
are not waited for. A GPU is known by its index: where CUDA_VISIBLE_DEVICES
differs between processes, one index means different GPUs.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.run.worker.file_lock import is_locked, lock
from workbench.run.worker.process import RunError

_LOOK_S = 0.05  # between two looks at who is before
_NUMBERING = "numbering"  # locked by whoever takes a number, for as long as that takes


def place_of(device: str) -> str:
    """The device by its full name: "cuda" is "cuda:0". Any other word goes to the CPU's process, which refuses it."""
    if device == "cuda":
        return "cuda:0"
    return device if re.fullmatch(r"cuda:\d+", device) else "cpu"


def waiting_words(before: int, device: str) -> str:
    return f"waiting for its turn, {before:,} {'job' if before == 1 else 'jobs'} before it on {device}"


@contextmanager
def turn(queue: str, on_wait: Callable[[int], None]) -> Iterator[None]:
    """Be the first of this user's on this machine in the queue of that name inside the block.

    on_wait: hears at every look how many are still before; what it raises
             leaves the queue.
    Raises RunError where the folder of the queue cannot be used.
    """
    root = _root()
    with _usable(root):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)  # first, since `parents` have not the mode
    folder = root / queue.replace(":", "")
    with _usable(folder):
        ticket = _take_ticket(folder)
    with ticket:
        try:
            while before := _count_before(ticket):
                on_wait(before)
                time.sleep(_LOOK_S)
            yield
        finally:
            ticket.path.unlink(missing_ok=True)


class _Ticket:
    """A place in the queue, ours as long as its file is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = int(path.name)
        self._file = open(path, "x")  # noqa: SIM115  closed by __exit__
        lock(self._file)

    def __enter__(self) -> _Ticket:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _root() -> Path:
    owner = "" if sys.platform == "win32" else f"-{os.getuid()}"  # on Windows that folder is the user's own
    return Path(os.environ.get("WORKBENCH_TURNS") or Path(tempfile.gettempdir()) / f"graph-workbench{owner}")


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"The run cannot wait for its turn: the folder {folder} cannot be used ({error.strerror or error}); "
            "set WORKBENCH_TURNS to a folder that can be written.",
            "process",
        ) from None


def _take_ticket(folder: Path) -> _Ticket:
    """The last place. Its file is locked before anybody can come behind it and look at it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with open(folder / _NUMBERING, "w") as numbering:
        lock(numbering)
        last = max((int(path.name) for path in _tickets(folder)), default=0)
        return _Ticket(folder / str(last + 1))


def _count_before(ticket: _Ticket) -> int:
    with _usable(ticket.path.parent):
        return sum(_is_held(path) for path in _tickets(ticket.path.parent) if int(path.name) < ticket.number)


def _tickets(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.isdecimal()]


def _is_held(path: Path) -> bool:
    """False for a ticket whose process is gone; it is taken away."""
    try:
        file = open(path)  # noqa: SIM115  closed below
    except FileNotFoundError:
        return False
    with file:
        if is_locked(file):
            return True
        path.unlink(missing_ok=True)
        return False
