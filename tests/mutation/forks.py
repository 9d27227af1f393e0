"""Functions in processes of their own, forks of this one: what they return, or that they did not end well."""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

MORE_MEMORY = 8 * 2**30  # bytes of address space that a limited fork may ask for
Key = TypeVar("Key", bound=Hashable)
Task = Callable[[], Any]


def in_forks(tasks: Iterator[tuple[Key, Task]], at_once: int) -> Iterator[tuple[Key, Any]]:
    """What each task returns, as they end; None for one that raised, was killed, or reached its limit.

    The next task is asked for when it can start, and is forked at once.
    """
    running: dict[int, tuple[Key, int, bytearray]] = {}
    is_last = False
    while running or not is_last:
        while not is_last and len(running) < at_once:
            task = next(tasks, None)
            is_last = task is None
            if task is not None:
                pid, end = _start(task[1])
                running[end] = (task[0], pid, bytearray())
        for end in select.select(list(running), [], [])[0] if running else ():
            if chunk := os.read(end, 2**16):
                running[end][2].extend(chunk)
                continue
            key, pid, data = running.pop(end)
            os.close(end)
            os.waitpid(pid, 0)
            with suppress(ProcessLookupError):  # processes that it has left
                os.killpg(pid, signal.SIGKILL)
            yield key, pickle.loads(data) if data else None


def alone(task: Task) -> Any:
    """What the task returns in a fork, which leaves no trace in this process."""
    ((_, result),) = in_forks(iter([("", task)]), 1)
    if result is None:
        raise RuntimeError(f"{task} did not end well")
    return result


def limit(seconds: float) -> None:
    """End this process after so many seconds of CPU from now, ten times as many on the clock, or with too much memory."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(10 * (int(seconds) + 1))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory = pages * resource.getpagesize() + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (memory, resource.RLIM_INFINITY))


def _start(task: Task) -> tuple[int, int]:
    """The process, and where its result is read."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    try:
        os.setpgid(0, 0)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(task(), pipe)
    finally:
        os._exit(0)
