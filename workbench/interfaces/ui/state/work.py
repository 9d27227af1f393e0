"""Long work that can be cancelled and goes on when its page is left or reloaded.

A job runs in a thread and belongs to the open model, not to a run of the page's script: any page, tab or reload that
shows the model finds the job by its key. Work that measures is queued per device; other work runs at once. Once no tab
shows the model, and none has come back, the job ends at its next report.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from workbench.run.worker.client import Worker
from workbench.run.worker.device_queue import queue_of_device, turn, waiting_text

_ENDING_S = 2.0  # the time to wait for a cancelled job, which may store its results so far
_NUMBERS = itertools.count(1)

_T = TypeVar("_T")
Report = Callable[[str, float | None], None]


class Stopped(BaseException):
    """Raised in a job's thread when the job was cancelled or replaced."""


class Job(Generic[_T]):
    """A job in its own thread, once started.

    Each device of this machine runs one measuring job at a time, in order of arrival.

    number: unique among all jobs.
    title:   for the user, and for others who wait for the device.
    device:  where it measures; None: it measures nothing, and runs at once.
    request: what is to be computed, such as a pipeline; a job with another request replaces this one.
    last_report: a text, and a share from 0 to 1 or None.
    finish:  set it to end the work soon with its results so far; None for work without partial results.
    queued_at, running_since: when the job was made, and when its work began, in seconds by `time.monotonic`;
             `running_since` is None while it waits for its device.
    """

    def __init__(
        self,
        work: Callable[[Report], _T],
        worker: Worker,
        device: str | None = None,
        title: str = "",
        request: Hashable = None,
        finish: threading.Event | None = None,
    ) -> None:
        self.number = next(_NUMBERS)
        self.title, self.request, self.queued_at = title, request, time.monotonic()
        self.finish = finish
        self.running_since: float | None = None
        self.last_report: tuple[str, float | None] = ("starting", None)
        self._work, self._worker = work, worker
        self._queue = None if device is None else queue_of_device(device)
        self._stopped = threading.Event()
        self._outcome: dict[str, Any] = {}
        self._thread = threading.Thread()
        self.is_abandoned: Callable[[], bool] = lambda: False
        self.on_abandoned: Callable[[], None] = self.stop

    def start(self, after: Job[Any] | None = None) -> Job[_T]:
        """Start the job's thread, whose work begins when the job `after` has ended; returns this job."""
        self._thread = threading.Thread(target=self._run, args=(after,), daemon=True)
        self._thread.start()
        return self

    @property
    def is_finishing(self) -> bool:
        """Whether it was asked to end with its results so far."""
        return self.finish is not None and self.finish.is_set()

    def wait(self) -> None:
        self._thread.join()

    def is_done(self, within_s: float) -> bool:
        """Whether the job has ended; waits for that up to `within_s` seconds."""
        self._thread.join(within_s)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Stop this job, running or waiting, and no other."""
        self._stopped.set()
        self._worker.cancel(self._thread)

    def result(self) -> _T:
        """What the work returned. Raises what it raised."""
        self._thread.join()
        if "error" in self._outcome:
            raise self._outcome["error"]
        result: _T = self._outcome["result"]
        return result

    def _run(self, after: Job[Any] | None) -> None:
        if after is not None:
            after.wait()
        try:
            if self._queue is None:
                self._outcome["result"] = self._begin()
                return
            with turn(f"app-{self._queue}", self._wait, self.title):
                self._report("starting")
                self._outcome["result"] = self._begin()
        except BaseException as error:  # handed to the page's thread, which raises it
            self._outcome["error"] = error

    def _begin(self) -> _T:
        self.running_since = time.monotonic()
        return self._work(self._report)

    def _wait(self, ahead: Any) -> None:
        assert self._queue is not None
        self._report(waiting_text(ahead, self._queue))

    def _report(self, message: str, share: float | None = None) -> None:
        if self.is_abandoned():
            self.on_abandoned()
        if self._stopped.is_set():
            raise Stopped
        self.last_report = message, share


@dataclass
class Jobs:
    """The jobs of one open model, by key; an ended job stays until a page takes its result.

    is_abandoned: whether no tab shows the model any more; jobs ask it from their threads.
    """

    by_key: dict[str, Job[Any]] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    is_abandoned: Callable[[], bool] = lambda: False
    _stopped: dict[str, Job[Any]] = field(default_factory=dict)  # the previous job, which may still be ending

    def start(self, key: str, job: Job[Any]) -> None:
        """Stop the job of that key, and start this one when it has ended."""
        self.stop(key)
        self.by_key[key] = job

        def end() -> None:
            if self.by_key.get(key) is job:
                self.stop(key)
                self.cancelled.add(key)

        job.is_abandoned, job.on_abandoned = lambda: self.is_abandoned(), end
        job.start(after=self._stopped.pop(key, None))

    def stop(self, key: str) -> None:
        if key in self.by_key:
            self._stopped[key] = self.by_key.pop(key)
            self._stopped[key].stop()

    def cancel(self, key: str) -> None:
        """Stop the job for the user; the page says so until the next job starts."""
        self.stop(key)
        self.cancelled.add(key)
        if key in self._stopped:
            self._stopped[key].is_done(within_s=_ENDING_S)

    def stop_all(self) -> None:
        for key in list(self.by_key):
            self.stop(key)


def was_cancelled(jobs: Jobs, key: str) -> bool:
    return key in jobs.cancelled


def forget_cancel(jobs: Jobs, key: str) -> None:
    jobs.cancelled.discard(key)
