"""Long work that can be cancelled and goes on when its page is left or reloaded.

A job runs in a thread and belongs to the open model, not to a run of the page's script: whichever page, tab or
reload shows the model finds it again by its key. Work that measures is queued per device; other work runs at once.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from workbench.run.worker.client import Worker
from workbench.run.worker.device_queue import place_of, turn, waiting_words

_ENDING_S = 2.0  # a cancelled job is waited for, since it may keep what it has
_NUMBERS = itertools.count(1)

_T = TypeVar("_T")
Report = Callable[[str, float | None], None]


class Stopped(BaseException):
    """Raised inside work in the background when it was cancelled or replaced."""


class Job(Generic[_T]):
    """A job in its own thread, once started.

    Each device of this machine runs one measuring job at a time, in order of arrival.

    number: unique among all jobs.
    title:  what it does, for the user and for those who wait behind it.
    device: where it measures; None: it measures nothing, and runs at once.
    wanted: what was asked for; a job for something else takes the place of this one.
    shown:  the last report, words and a share from 0 to 1 or None.
    finish: set it to let the work end soon and keep what it has; None for work that keeps nothing.
    began:  when it began to work, by `time.monotonic`; None while it waits for its device.
    """

    def __init__(
        self,
        work: Callable[[Report], _T],
        worker: Worker,
        device: str | None = None,
        title: str = "",
        wanted: Hashable = None,
        finish: threading.Event | None = None,
    ) -> None:
        self.number = next(_NUMBERS)
        self.title, self.wanted, self.started = title, wanted, time.monotonic()
        self.finish = finish
        self.began: float | None = None
        self.shown: tuple[str, float | None] = ("starting", None)
        self._work, self._worker = work, worker
        self._place = None if device is None else place_of(device)
        self._stopped = threading.Event()
        self._outcome: dict[str, Any] = {}
        self._thread = threading.Thread()

    def start(self, after: Job[Any] | None = None) -> Job[_T]:
        """Begin, once the job `after` has ended; returns this job."""
        self._thread = threading.Thread(target=self._run, args=(after,), daemon=True)
        self._thread.start()
        return self

    @property
    def is_finishing(self) -> bool:
        """Whether it was asked to end with what it has."""
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
            if self._place is None:
                self._outcome["result"] = self._begin()
                return
            with turn(f"app-{self._place}", self._wait, self.title):
                self._report("starting")
                self._outcome["result"] = self._begin()
        except BaseException as error:  # handed to the page's thread, which raises it
            self._outcome["error"] = error

    def _begin(self) -> _T:
        self.began = time.monotonic()
        return self._work(self._report)

    def _wait(self, ahead: Any) -> None:
        assert self._place is not None
        self._report(waiting_words(ahead, self._place))

    def _report(self, words: str, share: float | None = None) -> None:
        if self._stopped.is_set():
            raise Stopped
        self.shown = words, share


@dataclass
class Jobs:
    """The jobs of one open model by key, running or ended with a result that no page has taken yet."""

    by_key: dict[str, Job[Any]] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    _stopped: dict[str, Job[Any]] = field(default_factory=dict)  # the last one, which may still be ending

    def start(self, key: str, job: Job[Any]) -> None:
        """Let a job take the place of the last one of that key, and start it when that has ended."""
        self.stop(key)
        self.by_key[key] = job
        job.start(after=self._stopped.pop(key, None))

    def stop(self, key: str) -> None:
        if key in self.by_key:
            self._stopped[key] = self.by_key.pop(key)
            self._stopped[key].stop()

    def cancel(self, key: str) -> None:
        """Stop the job because the user asked for it; the page says so until the next one starts."""
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
