"""The card above two files: nodes, bytes and latency of both, and whether they compute the same."""

from __future__ import annotations

import time
from typing import Any

import streamlit as st

from workbench.evidence.verification.files import compare_files
from workbench.interfaces.ui.state.gains import FILES_JOB, measure_files
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened, OtherModel, worker
from workbench.interfaces.ui.state.work import Job, Report, forget_cancel, was_cancelled
from workbench.interfaces.ui.widgets.gain_card import Waiting, card, take_ended, waiting_for_latency, watch_card
from workbench.presentation.explanations.gain import Figure, figures_of_files

_VERDICT_JOB = "verdict_of_files"  # key of a job
_RESULT = "result"  # the label of the verdict's figure


def files_card(opened: Opened, other: OtherModel) -> Any:
    """Draw the card, and start the comparison of the results if needed; returns its row, for further elements."""
    for key in (_VERDICT_JOB, FILES_JOB):
        take_ended(opened, key)
    if other.verdict is None and not was_cancelled(opened.jobs, _VERDICT_JOB):
        _compare(opened, other)
    row = st.container(horizontal=True, vertical_alignment="center", key="gain_card")
    with row:
        waiting = _waiting_for(opened)
        if waiting is not None:
            watch_card(lambda: _figures(opened, other), waiting)
            return row
        st.html(card(_figures(opened, other)))
        if other.verdict is None:
            st.button("Compare results", key="compare_results", on_click=_compare_again, args=(opened,))
        label = "Measure" if other.measured is None else "Measure again"
        st.button(label, key="measure_files", on_click=_measure, args=(opened, other))
    if other.verdict is not None:
        st.caption(markdown_escaped(other.verdict.sentence))
    return row


def _figures(opened: Opened, other: OtherModel) -> tuple[Figure, ...]:
    return figures_of_files(opened.summary, other.summary, other.verdict, other.measured)


def _compare(opened: Opened, other: OtherModel) -> None:
    """Compare the results in the background, for the files that are compared now."""
    running = opened.jobs.by_key.get(_VERDICT_JOB)
    if running is not None and running.request == other.number:
        return

    def work(report: Report) -> None:
        report("both on the same inputs", None)
        other.verdict = compare_files(opened.verifier, other.graph)

    opened.jobs.start(_VERDICT_JOB, Job(work, worker(), title="Comparing the results", request=other.number))


def _compare_again(opened: Opened) -> None:
    forget_cancel(opened.jobs, _VERDICT_JOB)


def _measure(opened: Opened, other: OtherModel) -> None:
    forget_cancel(opened.jobs, FILES_JOB)
    measure_files(opened, other)


def _waiting_for(opened: Opened) -> Waiting | None:
    """What the card waits for: first for the verdict, then for the latency; None for nothing."""
    comparing, measuring = (opened.jobs.by_key.get(key) for key in (_VERDICT_JOB, FILES_JOB))
    if comparing is not None:
        return Waiting(
            _RESULT,
            lambda: ("comparing...", f"{time.monotonic() - comparing.queued_at:,.0f} s"),
            lambda: opened.jobs.cancel(_VERDICT_JOB),
            lambda: comparing.is_done(within_s=0),
        )
    return None if measuring is None else waiting_for_latency(opened, FILES_JOB, measuring)
