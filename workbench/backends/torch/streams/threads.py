"""Runs launches on the CPU: threads take the next operator that may run."""

from __future__ import annotations

import heapq
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from workbench.backends.torch.streams.launches import Launches, run_named


class ThreadedRun:
    """Runs launches by `threads` threads; each kernel may use `threads_of_kernel` threads.

    torch's kernels release Python's lock while they compute. A thread takes the first launch, in order, whose
    predecessor on its stream and whose waits have ended. If an operator fails, no other begins, and the error is raised
    when the running ones have ended.
    """

    def __init__(self, launches: Launches, threads: int, threads_of_kernel: int) -> None:
        self.threads, self.threads_of_kernel = threads, threads_of_kernel
        self._launches = launches
        self._unfinished, self._users = _dependencies(launches)
        self._pool = ThreadPoolExecutor(threads, "stream", initializer=_set_threads, initargs=(threads_of_kernel,))

    def run(self) -> tuple[Any, ...]:
        for node, write in self._launches.prologue:
            run_named(node, write)
        execution = _Execution(self._launches, self._unfinished, self._users)
        for future in [self._pool.submit(execution.work) for _ in range(self.threads)]:
            future.result()
        if execution.failed is not None:
            raise execution.failed
        return self._launches.arena.outputs

    def close(self) -> None:
        self._pool.shutdown()


class _Execution:
    """One run. Operators are identified by their index in the order of launches."""

    def __init__(self, launches: Launches, missing: list[int], users: list[list[int]]) -> None:
        self.failed: Exception | None = None
        self._computing = launches.computing
        self._in_order = launches.in_order
        self._users = users
        self._unfinished = list(missing)
        self._ready = [index for index, count in enumerate(missing) if not count]
        self._remaining = len(missing)
        self._changed = threading.Condition()

    def work(self) -> None:
        with self._computing():
            while (index := self._next()) is not None:
                try:
                    self._in_order[index].run()
                except Exception as error:
                    self._fail(error)
                    return
                self._finish(index)

    def _next(self) -> int | None:
        with self._changed:
            while not self._ready and self._remaining and self.failed is None:
                self._changed.wait()
            return heapq.heappop(self._ready) if self._ready and self.failed is None else None

    def _finish(self, index: int) -> None:
        with self._changed:
            self._remaining -= 1
            for user in self._users[index]:
                self._unfinished[user] -= 1
                if not self._unfinished[user]:
                    heapq.heappush(self._ready, user)
            if not self._remaining:
                self._changed.notify_all()
            elif len(self._ready) > 1:  # this thread takes one of them
                self._changed.notify(len(self._ready) - 1)

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self.failed = self.failed or error
            self._changed.notify_all()


def _dependencies(launches: Launches) -> tuple[list[int], list[list[int]]]:
    """For each launch, by index: the number of launches for which it waits, and the launches that wait for it."""
    index = {launch.operator: i for i, launch in enumerate(launches.in_order)}
    missing, users = [], defaultdict(list)
    on_stream: dict[int, int] = {}
    for i, launch in enumerate(launches.in_order):
        before = {index[operator] for operator in launch.waits}
        if launch.stream in on_stream:
            before.add(on_stream[launch.stream])
        on_stream[launch.stream] = i
        missing.append(len(before))
        for operator in before:
            users[operator].append(i)
    return missing, [users[i] for i in range(len(missing))]


def _set_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)
