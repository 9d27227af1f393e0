"""Long work with progress and cancel, which goes on when its page is left or reloaded.

A job runs in a thread and belongs to the open model, not to a run of the page's script: whichever page, tab or
reload shows the model finds it again by its key. Work that measures is queued per device; other work runs at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import streamlit as st

from workbench.run.worker.client import Worker
from workbench.run.worker.device_queue import place_of, turn, waiting_words

_T = TypeVar("_T")
Report = Callable[[str, float | None], None]

_SHOW_AFTER_S = 0.6
_POLL_S = 0.1
_REDRAW_S = 0.5  # a browser on this machine disturbs measurements


class _Stopped(BaseException):
    """Raised inside the work when it was cancelled or replaced."""


class Job(Generic[_T]):
    """A job in its own thread; each device of this machine runs one measuring job at a time, in order of arrival.

    title:  what it does, for the user and for those who wait behind it.
    device: where it measures; None: it measures nothing, and runs at once.
    wanted: what was asked for; a job for something else takes the place of this one.
    shown:  the last report, words and a share from 0 to 1 or None.
    """

    def __init__(
        self,
        work: Callable[[Report], _T],
        worker: Worker,
        device: str | None = None,
        title: str = "",
        wanted: Hashable = None,
    ) -> None:
        self.title, self.wanted, self.started = title, wanted, time.monotonic()
        self.shown: tuple[str, float | None] = ("starting", None)
        self._work, self._worker = work, worker
        self._place = None if device is None else place_of(device)
        self._stopped = threading.Event()
        self._outcome: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

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
        return self._outcome["result"]

    def _run(self) -> None:
        try:
            if self._place is None:
                self._outcome["result"] = self._work(self._report)
                return
            with turn(f"app-{self._place}", self._wait, self.title):
                self._report("starting")
                self._outcome["result"] = self._work(self._report)
        except BaseException as error:  # handed to the page's thread, which raises it
            self._outcome["error"] = error

    def _wait(self, ahead: Any) -> None:
        assert self._place is not None
        self._report(waiting_words(ahead, self._place))

    def _report(self, words: str, share: float | None = None) -> None:
        if self._stopped.is_set():
            raise _Stopped
        self.shown = words, share


@dataclass
class Jobs:
    """The jobs of one open model by key, running or ended with a result that no page has taken yet."""

    by_key: dict[str, Job] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)

    def start(self, key: str, job: Job) -> None:
        """Let a job take the place of the last one of that key."""
        self.stop(key)
        self.by_key[key] = job

    def stop(self, key: str) -> None:
        if key in self.by_key:
            self.by_key.pop(key).stop()

    def cancel(self, key: str) -> None:
        """Stop the job because the user asked for it; the page says so until the next one starts."""
        self.stop(key)
        self.cancelled.add(key)

    def stop_all(self) -> None:
        for key in list(self.by_key):
            self.stop(key)


def run_with_progress(
    jobs: Jobs,
    key: str,
    title: str,
    work: Callable[[Report], _T],
    worker: Worker,
    *,
    wanted: Hashable = None,
    device: str | None = None,
) -> _T:
    """Run `work`, which reports (words, share from 0 to 1 or None), or go on with the job that does it already.

    wanted: what tells this request from another of the same key, such as the pipeline.
    device: where it measures; None: it measures nothing.
    Returns what the work returns, and raises what it raises. If the page is left meanwhile, the job goes on.
    """
    job = jobs.by_key.get(key)
    if job is None or job.wanted != wanted:
        jobs.start(key, Job(work, worker, device, title, wanted))
    return finished(jobs, key)


def finished(jobs: Jobs, key: str) -> Any:
    """The result of the job of that key, with its progress until it ends. Raises what the work raised."""
    job = jobs.by_key[key]
    if not job.is_done(within_s=_SHOW_AFTER_S):
        _watch(job, jobs, key)
    if jobs.by_key.get(key) is job:
        del jobs.by_key[key]
    return job.result()


def _watch(job: Job, jobs: Jobs, key: str) -> None:
    place = st.empty()
    with place.container(border=True):
        left, right = st.columns([6, 1], vertical_alignment="center")
        right.button("Cancel", key=f"cancel_{key}", on_click=jobs.cancel, args=(key,))
        bar = left.progress(0.0, text=f"{job.title}: {job.shown[0]}")
    redrawn = 0.0
    while not job.is_done(within_s=_POLL_S):
        passed = time.monotonic() - job.started
        if time.monotonic() - redrawn >= _REDRAW_S:
            words, share = job.shown
            bar.progress(min(share or 0.0, 1.0), text=f"{job.title}: {words} ({passed:,.0f} s)")
            redrawn = time.monotonic()
    place.empty()


def was_cancelled(jobs: Jobs, key: str) -> bool:
    return key in jobs.cancelled


def forget_cancel(jobs: Jobs, key: str) -> None:
    jobs.cancelled.discard(key)
