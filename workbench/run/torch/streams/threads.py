"""Launches on the CPU: threads that take the next operator that may run."""

from __future__ import annotations

import heapq
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from workbench.run.torch.streams.launches import Launches, run_named


class ThreadedRun:
    """Runs launches by so many threads, each of whose kernels may use so many threads of its own.

    torch's kernels release Python's lock while they compute. A thread takes, of the operators whose lane has come to
    them and whose waits are over, the first in the order of launches. If an operator fails, no other begins, and its
    error is raised when those that run have ended.
    """

    def __init__(self, launches: Launches, threads: int, threads_of_kernel: int) -> None:
        self.threads, self.threads_of_kernel = threads, threads_of_kernel
        self._launches = launches
        self._missing, self._users = _waiting(launches)
        self._pool = ThreadPoolExecutor(threads, "lane", initializer=_set_threads, initargs=(threads_of_kernel,))

    def run(self) -> tuple[Any, ...]:
        for node, write in self._launches.first:
            run_named(node, write)
        turn = _Turn(self._launches, self._missing, self._users)
        for working in [self._pool.submit(turn.work) for _ in range(self.threads)]:
            working.result()
        if turn.failed is not None:
            raise turn.failed
        return self._launches.arena.outputs

    def close(self) -> None:
        self._pool.shutdown()


class _Turn:
    """One run. Operators are known by their place in the order of launches."""

    def __init__(self, launches: Launches, missing: list[int], users: list[list[int]]) -> None:
        self.failed: Exception | None = None
        self._computing = launches.computing
        self._in_order = launches.in_order
        self._users = users
        self._missing = list(missing)
        self._ready = [place for place, count in enumerate(missing) if not count]
        self._left = len(missing)
        self._changed = threading.Condition()

    def work(self) -> None:
        with self._computing():
            while (place := self._next()) is not None:
                try:
                    self._in_order[place].run()
                except Exception as error:
                    self._fail(error)
                    return
                self._done(place)

    def _next(self) -> int | None:
        with self._changed:
            while not self._ready and self._left and self.failed is None:
                self._changed.wait()
            return heapq.heappop(self._ready) if self._ready and self.failed is None else None

    def _done(self, place: int) -> None:
        with self._changed:
            self._left -= 1
            for user in self._users[place]:
                self._missing[user] -= 1
                if not self._missing[user]:
                    heapq.heappush(self._ready, user)
            if not self._left:
                self._changed.notify_all()
            elif len(self._ready) > 1:  # this thread takes one itself
                self._changed.notify(len(self._ready) - 1)

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self.failed = self.failed or error
            self._changed.notify_all()


def _waiting(launches: Launches) -> tuple[list[int], list[list[int]]]:
    """For each place in the order of launches how many others it waits for, and which wait for it."""
    place = {launch.operator: i for i, launch in enumerate(launches.in_order)}
    missing, users = [], defaultdict(list)
    in_lane: dict[int, int] = {}
    for i, launch in enumerate(launches.in_order):
        before = {place[one] for one in launch.waits}
        if launch.lane in in_lane:
            before.add(in_lane[launch.lane])
        in_lane[launch.lane] = i
        missing.append(len(before))
        for one in before:
            users[one].append(i)
    return missing, [users[i] for i in range(len(missing))]


def _set_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)
