"""Long work with progress and cancel.

The work is queued and runs in a thread; the page shows its progress. Any click,
such as on Cancel, makes Streamlit stop the page's script, which stops the work or
removes it from the queue.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
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
    """Raised inside the work when the page was left or Cancel was pressed."""


class Job(Generic[_T]):
    """A job in its own thread; each device of this machine runs one job at a time, in order of arrival.

    Whole jobs are queued, since passes also disturb measurements; within a job
    each run waits for the device itself.

    shown: the last report, words and a share from 0 to 1 or None.
    """

    def __init__(self, work: Callable[[Report], _T], worker: Worker, device: str) -> None:
        self.shown: tuple[str, float | None] = ("starting", None)
        self._work, self._worker, self._place = work, worker, place_of(device)
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
            with turn(f"app-{self._place}", lambda before: self._report(waiting_words(before, self._place))):
                self._report("starting")
                self._outcome["result"] = self._work(self._report)
        except BaseException as error:  # handed to the page's thread, which raises it
            self._outcome["error"] = error

    def _report(self, words: str, share: float | None = None) -> None:
        if self._stopped.is_set():
            raise _Stopped
        self.shown = words, share


def run_with_progress(title: str, work: Callable[[Report], _T], worker: Worker, key: str, device: str = "cpu") -> _T:
    """Run `work`, which reports (words, share from 0 to 1 or None), and return what it returns.

    device: where it measures; work for other devices may run at the same time.
    Raises what the work raises.
    """
    job = Job(work, worker, device)
    if not job.is_done(within_s=_SHOW_AFTER_S):
        _watch(title, job, key)
    return job.result()


def _watch(title: str, job: Job, key: str) -> None:
    place = st.empty()
    with place.container(border=True):
        left, right = st.columns([6, 1], vertical_alignment="center")
        right.button("Cancel", key=f"cancel_{key}", on_click=_note_cancel, args=(key,))
        bar = left.progress(0.0, text=f"{title}: {job.shown[0]}")
    started = time.monotonic()
    redrawn = 0.0
    done = False
    try:
        while not done:
            passed = time.monotonic() - started
            if passed - redrawn >= _REDRAW_S:
                words, share = job.shown
                bar.progress(min(share or 0.0, 1.0), text=f"{title}: {words} ({passed:,.0f} s)")
                redrawn = passed
            done = job.is_done(within_s=_POLL_S)
    finally:
        if done:
            place.empty()
        else:
            job.stop()


def _note_cancel(key: str) -> None:
    st.session_state[f"cancelled_{key}"] = True


def was_cancelled(key: str) -> bool:
    return bool(st.session_state.get(f"cancelled_{key}"))


def forget_cancel(key: str) -> None:
    st.session_state.pop(f"cancelled_{key}", None)
