"""The progress of long work on the page, with its time and a button that cancels it."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import streamlit as st

from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.work import Job, Jobs, Report, forget_cancel, was_cancelled
from workbench.run.worker.client import Worker

_T = TypeVar("_T")
_SHOW_AFTER_S = 0.6
_POLL_S = 0.1
_REDRAW_S = 0.5  # not more often: each redraw of a browser on this machine takes CPU time from what is measured
_ESTIMATE_AFTER_S, _ESTIMATE_FROM = 3.0, 0.05  # seconds and share of work before which there is no estimate


def run_with_progress(
    jobs: Jobs,
    key: str,
    title: str,
    work: Callable[[Report], _T],
    worker: Worker,
    *,
    request: Hashable = None,
) -> _T:
    """Run `work` as a job, or continue with the running job of the same request; shows its progress.

    work:    takes a function for its reports: a text, and a share from 0 to 1 or None. The job is not
             queued for a device: a measurement is a `Job` with a device, whose result `result_if_any` takes.
    worker:  runs what the work requests; these requests end if the job is cancelled.
    request: what is to be computed, such as a pipeline; see `Job`.
    Returns what the work returns, and raises what it raises. If the user leaves the page, the job goes on.
    """
    job = jobs.by_key.get(key)
    if job is None or job.request != request:
        jobs.start(key, Job(work, worker, title=title, request=request))
    result: _T = finished(jobs, key)
    return result


def finished(jobs: Jobs, key: str) -> Any:
    """The result of the job of that key; shows its progress until it ends. Raises what the work raised."""
    job = jobs.by_key[key]
    if not job.is_done(within_s=_SHOW_AFTER_S):
        _watch(job, jobs, key)
    if jobs.by_key.get(key) is job:
        del jobs.by_key[key]
    return job.result()


def result_if_any(jobs: Jobs, key: str, cancelled: str) -> Any:
    """The result of the job of that key, as in `finished`; None without such a job.

    cancelled: the sentence that is shown once if the user has cancelled the job. Raises what the work raised.
    """
    if key in jobs.by_key:
        return finished(jobs, key)
    if was_cancelled(jobs, key):
        st.info(cancelled, icon=":material/block:")
        forget_cancel(jobs, key)
    return None


def _watch(job: Job[Any], jobs: Jobs, key: str) -> None:
    frame = st.empty()
    with frame.container(border=True):
        bar_column, button_column = st.columns([6, 1], vertical_alignment="center")
        label, about = ("Stop now", "It ends without a result.") if job.is_finishing else ("Cancel", None)
        # A run of the page may watch several jobs of one key. Streamlit keeps the arguments of every button.
        button, arguments = f"cancel_{key}_{job.number}", (weakref.ref(jobs), key)
        button_column.button(label, key=button, on_click=_cancel, args=arguments, help=about)
        bar = bar_column.progress(0.0, text=_progress_text(job))
    redrawn = 0.0
    while not job.is_done(within_s=_POLL_S):
        if time.monotonic() - redrawn >= _REDRAW_S:
            bar.progress(min(job.last_report[1] or 0.0, 1.0), text=_progress_text(job))
            redrawn = time.monotonic()
    frame.empty()


def _cancel(weak_jobs: weakref.ref[Jobs], key: str) -> None:
    jobs = weak_jobs()
    if jobs is not None:
        cancel_job(jobs, key)


def cancel_job(jobs: Jobs, key: str) -> None:
    """Ask the job to end with its results so far.

    Stop it at once if it cannot do that, if it has not begun, or if the user cancels a second time.
    """
    job = jobs.by_key.get(key)
    if job is None or job.finish is None or job.running_since is None or job.is_finishing:
        jobs.cancel(key)
    else:
        job.finish.set()


def _progress_text(job: Job[Any]) -> str:
    message, share = job.last_report
    now = time.monotonic()
    remaining = "" if job.running_since is None else time_left(now - job.running_since, share)
    message = f"ending, results so far are kept; {message}" if job.is_finishing else message
    return markdown_escaped(f"{job.title}: {message} ({now - job.queued_at:,.0f} s{remaining})")


def time_left(passed_s: float, share: float | None) -> str:
    """The estimated remaining time, such as ", about 40 s left"; "" while too little is done for an estimate.

    share: done in `passed_s` seconds.
    """
    if share is None or passed_s < _ESTIMATE_AFTER_S or not _ESTIMATE_FROM <= share < 1:
        return ""
    return f", about {max(passed_s * (1 / share - 1), 1):,.0f} s left"
