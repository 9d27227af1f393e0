"""The card with the gain of the optimization, each number with its evidence, and what it waits for."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.state.checking import OFF
from workbench.interfaces.ui.state.gains import JOB, gain_here, is_measured_automatically, measure_gain, measured_gain
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.record_runs import say_not_kept
from workbench.interfaces.ui.state.session import Opened
from workbench.interfaces.ui.state.work import Job, forget_cancel
from workbench.interfaces.ui.widgets.progress import cancel_job, time_left
from workbench.presentation.explanations.gain import Figure
from workbench.rewrite import History

LATENCY = "latency"  # the label of its figure
_POLL_INTERVAL_S = 1.5  # not more often, since a browser on this machine disturbs the measurement


@dataclass(frozen=True)
class Waiting:
    """What a card waits for.

    label: of the figure. state: in a word, and its detail. cancel: ends it; is_done: whether it has ended.
    """

    label: str
    state: Callable[[], tuple[str, str]]
    cancel: Callable[[], None]
    is_done: Callable[[], bool]


def gain_card(opened: Opened, history: History, how: str, *, measures: bool = True) -> Any:
    """Draw the card, and start a measurement if needed; returns its row, for another button.

    how: one of `checking.HOW`: which steps are compared with the original. The comparison of the last one comes before
         the measurement, that of the others after it.
    measures: whether it has a button that measures; the page Measure has its own.
    """
    take_ended(opened, JOB)
    running = opened.jobs.by_key.get(JOB)
    if running is not None and running.request not in (None, id(history)):  # None: the user chose what is measured
        opened.jobs.stop(JOB)
        running = None
    is_ready = history.failed is None and (how == OFF or history[-1].verdict is not None)
    if running is None and is_ready and is_measured_automatically(opened, history):
        measure_gain(opened, history)
        running = opened.jobs.by_key.get(JOB)
    waiting = _waiting_for(opened, history, running, is_ready)
    row = st.container(horizontal=True, vertical_alignment="center", key="gain_card")
    with row:
        if waiting is not None:
            watch_card(lambda: gain_here(opened, history).figures, waiting)
            return row
        is_measured = measured_gain(opened) is not None
        figures = gain_here(opened, history).figures
        st.html(card(figures if is_measured else with_value(figures, LATENCY, "not measured")))
        if history.failed is None and measures:
            label = "Measure again" if is_measured else "Measure"
            about = "Measures the original beside the result, interleaved, for some seconds."
            st.button(label, key="measure_gain", help=about, on_click=_start, args=(opened, history))
    return row


def _waiting_for(opened: Opened, history: History, running: Job[str] | None, is_ready: bool) -> Waiting | None:
    """What the card waits for: its measurement, or first the comparison with the original; None for nothing."""
    if running is not None:
        return waiting_for_latency(opened, JOB, running)
    checking = opened.checking
    if is_ready or history.failed is not None or checking is None or checking.is_done:
        return None
    if checking.history is not history or not is_measured_automatically(opened, history):
        return None
    return Waiting(
        LATENCY,
        lambda: ("waiting", f"for the verification ({time.monotonic() - checking.started:,.0f} s)"),
        checking.stop,
        lambda: checking.is_done or history[-1].verdict is not None,
    )


def waiting_for_latency(opened: Opened, key: str, job: Job[str]) -> Waiting:
    """Waiting for the job of that key, which measures the latency."""
    return Waiting(
        LATENCY,
        lambda: _measuring_state(job),
        lambda: cancel_job(opened.jobs, key),
        lambda: job.is_done(within_s=0),
    )


def _measuring_state(job: Job[str]) -> tuple[str, str]:
    """The state in a word, and its detail, such as "waiting", "waiting for its turn, 1 job before it on cpu (12 s)"."""
    message, share = job.last_report
    now = time.monotonic()
    left = "" if job.running_since is None else time_left(now - job.running_since, share)
    word = "waiting" if message.startswith("waiting") else "measuring..."
    message = f"ending, {message}" if job.is_finishing else message
    return word, f"{message} ({now - job.queued_at:,.0f} s{left})"


def with_value(figures: Sequence[Figure], label: str, value: str, detail: str = "") -> list[Figure]:
    """The figures with these words in place of one of them, which comes second if it is not there."""
    told = Figure(label, value, detail)
    if label in (figure.label for figure in figures):
        return [told if figure.label == label else figure for figure in figures]
    return [figures[0], told, *figures[1:]]


def _start(opened: Opened, history: History) -> None:
    forget_cancel(opened.jobs, JOB)
    measure_gain(opened, history)


def take_ended(opened: Opened, key: str) -> None:
    """Remove the job of that key if it has ended; one that failed is said, and not repeated automatically."""
    job = opened.jobs.by_key.get(key)
    if job is None or not job.is_done(within_s=0):
        return
    del opened.jobs.by_key[key]
    try:
        say_not_kept(job.result())
    except UserError as error:
        opened.jobs.cancelled.add(key)
        st.caption(markdown_escaped(f"{job.title} failed: {error}"))


@st.fragment(run_every=_POLL_INTERVAL_S)
def watch_card(figures: Callable[[], Sequence[Figure]], waiting: Waiting) -> None:
    """Draw a card with what it waits for and how far that is; the page runs again when that has ended."""
    if waiting.is_done():
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.html(card(with_value(figures(), waiting.label, *waiting.state())))
        st.button("Cancel", key=f"cancel_{waiting.label}", on_click=waiting.cancel)


def card(figures: Sequence[Figure]) -> str:
    """The figures side by side, as HTML."""
    return f'<div class="wb-card" role="group" aria-label="What was gained">{"".join(map(_cell, figures))}</div>'


def _cell(figure: Figure) -> str:
    kind = {True: " better", False: " worse", None: ""}[figure.better]
    caption = html.escape(figure.caption)
    return f'<div><b class="value{kind}">{html.escape(figure.value)}</b><span>{caption}</span></div>'
