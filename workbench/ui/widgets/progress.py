"""The progress of long work on the page, with its time and a button that cancels it."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import streamlit as st

from workbench.run.worker.client import Worker
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.work import Job, Jobs, Report, forget_cancel, was_cancelled

_T = TypeVar("_T")
_SHOW_AFTER_S = 0.6
_POLL_S = 0.1
_REDRAW_S = 0.5  # a browser on this machine disturbs measurements
_ESTIMATE_AFTER_S, _ESTIMATE_FROM = 3.0, 0.05  # less work than this says nothing about the rest


def run_with_progress(
    jobs: Jobs,
    key: str,
    title: str,
    work: Callable[[Report], _T],
    worker: Worker,
    *,
    wanted: Hashable = None,
) -> _T:
    """Run `work`, which reports (words, share from 0 to 1 or None), or go on with the job that does it already.

    The work measures nothing: a job that does waits for its device, and its page starts it by itself.

    wanted: what tells this request from another of the same key, such as the pipeline.
    Returns what the work returns, and raises what it raises. If the page is left meanwhile, the job goes on.
    """
    job = jobs.by_key.get(key)
    if job is None or job.wanted != wanted:
        jobs.start(key, Job(work, worker, title=title, wanted=wanted))
    result: _T = finished(jobs, key)
    return result


def finished(jobs: Jobs, key: str) -> Any:
    """The result of the job of that key, with its progress until it ends. Raises what the work raised."""
    job = jobs.by_key[key]
    if not job.is_done(within_s=_SHOW_AFTER_S):
        _watch(job, jobs, key)
    if jobs.by_key.get(key) is job:
        del jobs.by_key[key]
    return job.result()


def result_if_any(jobs: Jobs, key: str, cancelled: str) -> Any:
    """The result of the job of that key, with its progress until it ends; None where there is no such job.

    cancelled: what is said, once, where the user cancelled it. Raises what the work raised.
    """
    if key in jobs.by_key:
        return finished(jobs, key)
    if was_cancelled(jobs, key):
        st.info(cancelled, icon=":material/block:")
        forget_cancel(jobs, key)
    return None


def _watch(job: Job[Any], jobs: Jobs, key: str) -> None:
    place = st.empty()
    with place.container(border=True):
        left, right = st.columns([6, 1], vertical_alignment="center")
        words, about = ("Drop it", "It ends without a result.") if job.is_finishing else ("Cancel", None)
        # A run of the page may watch several jobs of one key. Streamlit keeps the arguments of every button.
        button, which = f"cancel_{key}_{job.number}", (weakref.ref(jobs), key)
        right.button(words, key=button, on_click=_cancel, args=which, help=about)
        bar = left.progress(0.0, text=_words(job))
    redrawn = 0.0
    while not job.is_done(within_s=_POLL_S):
        if time.monotonic() - redrawn >= _REDRAW_S:
            bar.progress(min(job.shown[1] or 0.0, 1.0), text=_words(job))
            redrawn = time.monotonic()
    place.empty()


def _cancel(weak: weakref.ref[Jobs], key: str) -> None:
    """End the job: soon, with what it has, if it works already and can; else, and if asked again, at once."""
    jobs = weak()
    if jobs is None:
        return
    job = jobs.by_key.get(key)
    if job is None or job.finish is None or job.began is None or job.is_finishing:
        jobs.cancel(key)
    else:
        job.finish.set()


def _words(job: Job[Any]) -> str:
    words, share = job.shown
    now = time.monotonic()
    left = "" if job.began is None else time_left(now - job.began, share)
    words = f"ending, what it has is kept; {words}" if job.is_finishing else words
    return markdown_escaped(f"{job.title}: {words} ({now - job.started:,.0f} s{left})")


def time_left(passed_s: float, share: float | None) -> str:
    """ ", about 40 s left" for a share of the work done in that time; "" while that is too little to tell."""
    if share is None or passed_s < _ESTIMATE_AFTER_S or not _ESTIMATE_FROM <= share < 1:
        return ""
    return f", about {max(passed_s * (1 / share - 1), 1):,.0f} s left"
