"""Long work with progress and cancel.

The work runs in a thread; the page shows how far it is. Any click, the Cancel
button above all, makes Streamlit stop the page's script: that stops the work.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st

from workbench.run.client import Worker

T = TypeVar("T")
Report = Callable[[str, float | None], None]

_SHOW_AFTER_S = 0.6
_POLL_S = 0.1
_TURN = threading.Lock()  # one piece of work at a time uses the worker; cancel reaches none but its own


class _Stopped(BaseException):
    """Raised inside the work when the page was left or Cancel was pressed."""


def run_with_progress(title: str, work: Callable[[Report], T], worker: Worker, key: str) -> T:
    """Run `work`, which reports (words, share from 0 to 1 or None), and return what it returns.

    What the work raises is raised here.
    """
    events: queue.Queue[tuple[str, float | None]] = queue.Queue()
    outcome: dict[str, Any] = {}
    stopped, running = threading.Event(), threading.Event()

    def report(words: str, share: float | None = None) -> None:
        if stopped.is_set():
            raise _Stopped
        events.put((words, share))

    def body() -> None:
        try:
            with _TURN:
                running.set()
                report("starting")
                outcome["result"] = work(report)
        except BaseException as error:  # handed to the page's thread, which raises it
            outcome["error"] = error
        finally:
            running.clear()

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(_SHOW_AFTER_S)
    if thread.is_alive():
        _watch(title, thread, events, stopped, running, worker, key)
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


def _watch(
    title: str,
    thread: threading.Thread,
    events: queue.Queue,
    stopped: threading.Event,
    running: threading.Event,
    worker: Worker,
    key: str,
) -> None:
    place = st.empty()
    with place.container(border=True):
        left, right = st.columns([6, 1], vertical_alignment="center")
        right.button("Cancel", key=f"cancel_{key}", on_click=_note_cancel, args=(key,))
        shown: tuple[str, float | None] = ("waiting for its turn", None)
        bar = left.progress(0.0, text=f"{title}: {shown[0]}")
    started = time.monotonic()
    try:
        while thread.is_alive():
            while not events.empty():
                shown = events.get()
            seconds = time.monotonic() - started
            bar.progress(min(shown[1] or 0.0, 1.0), text=f"{title}: {shown[0]} ({seconds:,.0f} s)")
            thread.join(_POLL_S)
    finally:
        if thread.is_alive():
            stopped.set()
            if running.is_set():
                worker.cancel()
        else:
            place.empty()


def _note_cancel(key: str) -> None:
    st.session_state[f"cancelled_{key}"] = True


def was_cancelled(key: str) -> bool:
    return bool(st.session_state.get(f"cancelled_{key}"))


def forget_cancel(key: str) -> None:
    st.session_state.pop(f"cancelled_{key}", None)
