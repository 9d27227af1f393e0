"""A queue per device for the jobs of one user on this machine: one at a time, in order of arrival.

A queue is a folder with a file, a ticket, for each running or waiting job.
Tickets are numbered, and their holders keep the files locked (`file_lock.py`), so
that the turn of a process that dies ends with it. The folder is in the user's
runtime folder (XDG_RUNTIME_DIR), else in the cache, with the name of the machine, since
machines may share a home; WORKBENCH_QUEUE names another one. It must belong to
the user alone, and no link in it is followed: others could otherwise replace a file by
a link, through which any file of the user would be overwritten. Jobs of other
users are not waited for. A GPU is identified by its index: if CUDA_VISIBLE_DEVICES
differs between processes, one index means different GPUs.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from workbench.run.worker.process import RunError
from workbench.support.file_lock import is_locked, lock
from workbench.support.files import cache_folder
from workbench.support.owned_folders import is_private

_POLL_S = 0.05  # between two checks of the queue
_MAX_TITLES = 3  # the most jobs ahead that are named
_NUMBERING = "numbering"  # the file that is locked while a ticket gets its number


def queue_of_device(device: str) -> str:
    """The queue of a device: "cuda:0" for "cuda". Unknown devices go to the CPU process, which rejects them."""
    if device == "cuda":
        return "cuda:0"
    return device if re.fullmatch(r"cuda:\d+", device) else "cpu"


def waiting_text(ahead: Sequence[str], device: str) -> str:
    """The number and titles of the jobs ahead on the device. ahead: their titles, "" for a job without one."""
    count, titles = len(ahead), [title for title in ahead if title]
    more = f" and {len(titles) - _MAX_TITLES:,} more" if len(titles) > _MAX_TITLES else ""
    listed = f": {', then '.join(titles[:_MAX_TITLES])}{more}" if titles else ""
    return f"waiting for its turn, {count:,} {'job' if count == 1 else 'jobs'} before it on {device}{listed}"


@contextmanager
def turn(queue: str, on_wait: Callable[[Sequence[str]], None], title: str = "") -> Iterator[None]:
    """Wait in the queue of that name; inside the block it is this job's turn.

    on_wait: is called repeatedly with the titles of the jobs ahead, the first one running; an exception it
             raises leaves the queue.
    title:   the title of this job, which jobs behind it see.
    Raises RunError if the folder of the queue cannot be used.
    """
    root = _root()
    _make_private(root)
    folder = root / queue.replace(":", "")
    _make_private(folder)
    with _usable(folder):
        ticket = _take_ticket(folder, title)
    with ticket:
        try:
            while ahead := _ahead_of(ticket):
                on_wait(ahead)
                time.sleep(_POLL_S)
            yield
        finally:
            ticket.path.unlink(missing_ok=True)


class _Ticket:
    """A position in the queue, valid as long as its file is open."""

    def __init__(self, path: Path, title: str) -> None:
        self.path = path
        self.number = int(path.name)
        self._file = _opened(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        lock(self._file)
        self._file.write(title)
        self._file.flush()

    def __enter__(self) -> _Ticket:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _root() -> Path:
    override = os.environ.get("WORKBENCH_QUEUE") or os.environ.get("WORKBENCH_TURNS")  # its former name
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if override:
        return Path(override)
    if runtime and Path(runtime).is_dir() and is_private(Path(runtime)):  # after sudo it may belong to another user
        return Path(runtime) / "graph-workbench"
    return cache_folder() / f"turns-{platform.node()}"


def _make_private(folder: Path) -> None:
    """Create the folder if it is missing. Raises RunError if other users can access it."""
    with _usable(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if is_private(folder):
            return
    raise RunError(
        f"The run cannot wait for its turn: the folder {folder} is a link, or other users may write or read it; "
        "remove it, or set WORKBENCH_QUEUE to a folder of your own with the mode 700.",
        "process",
    )


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"The run cannot wait for its turn: the folder {folder} cannot be used ({error.strerror or error}); "
            "set WORKBENCH_QUEUE to a folder that can be written.",
            "process",
        ) from None


def _take_ticket(folder: Path, title: str) -> _Ticket:
    """Take the last position; its file is locked before a later job can check it."""
    with _opened(folder / _NUMBERING, os.O_RDWR | os.O_CREAT) as numbering:
        lock(numbering)
        last = max((int(path.name) for path in _tickets(folder)), default=0)
        return _Ticket(folder / str(last + 1), title)


def _opened(path: Path, flags: int) -> IO[str]:
    """The file, open for reading and writing. Raises OSError, also for a link."""
    flags |= getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
    return open(os.open(path, flags, 0o600), "r+", encoding="utf-8", errors="replace")


def _ahead_of(ticket: _Ticket) -> list[str]:
    """The titles of the jobs ahead, in their order."""
    with _usable(ticket.path.parent):
        before = sorted((path for path in _tickets(ticket.path.parent) if int(path.name) < ticket.number), key=_number)
        titles = [_title_of(path) for path in before]
    return [title for title in titles if title is not None]


def _tickets(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.isdecimal()]


def _number(path: Path) -> int:
    return int(path.name)


def _title_of(path: Path) -> str | None:
    """The job's title if its process is alive, else None; the ticket of a dead one is removed."""
    try:
        file = _opened(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    with file:
        if is_locked(file):
            return file.read()
        path.unlink(missing_ok=True)
        return None
