"""Verification of the steps: its progress, what failed, and what the user can do about it."""

from __future__ import annotations

import time

import streamlit as st

from workbench.rewrite import History
from workbench.ui.state.checking import END, OFF, Checking, is_compared
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.session import Opened
from workbench.ui.widgets.parts import show_error
from workbench.ui.widgets.progress import time_left
from workbench.ui.widgets.steps import go_to

LOOK_EVERY_S = 1.0  # interval at which the page updates the progress
LINE, ROW, ALERT = 26, 44, 98  # pixels of height: a caption, a line with a button, an alert of three lines


def show_verdicts(opened: Opened, history: History, checking: Checking | None, how: str) -> int:
    """Draw the verdicts and the progress; returns their approximate height in pixels. how: of HOW."""
    taken = _left_out(opened)
    if how == OFF and history[-1].verdict is None:
        st.caption("Verification is off: the result is not compared with the original.")
        taken += LINE
    message = checking or opened.checking
    if message is not None and message.history is history and message.is_watched and history.failed is None:
        with st.container(height=ROW, border=False):  # kept when all is compared, or the view would move
            _watch(opened, message)
        taken += ROW
    if history.failed is not None:
        _failure(opened, history)
        taken += ALERT
    elif history.unverified is not None and history.unverified.verdict is not None:
        st.warning(markdown_escaped(history.unverified.verdict.sentence))
        taken += ALERT
    return taken


def _watch(opened: Opened, checking: Checking) -> None:
    """A line with the progress; the page reruns when the last step is compared, and when all are."""
    if is_compared(checking.history, checking.how):
        st.caption(f"Verification: {_count(checking)}.")
        return
    if checking.is_done:
        words, button = st.columns([6, 1], vertical_alignment="center")
        why = checking.failure or "The comparison with the original was stopped."
        words.caption(markdown_escaped(f"{why} {_count(checking)}."))
        button.button("Continue", key="go_on_comparing", on_click=_forget, args=(opened,), width="stretch")
        return
    before = _known(checking)

    @st.fragment(run_every=LOOK_EVERY_S)
    def line() -> None:
        if _known(checking) != before:
            st.rerun()
        words, button = st.columns([6, 1], vertical_alignment="center")
        passed = time.monotonic() - checking.started
        times = f"{passed:,.0f} s{time_left(passed, checking.share)}"
        words.caption(markdown_escaped(f"Verification: {checking.words}; {_count(checking)} ({times})."))
        button.button("Stop", key="stop_comparing", on_click=checking.stop, width="stretch")

    line()


def _known(checking: Checking) -> tuple[bool, bool]:
    return checking.history[-1].verdict is not None, checking.is_done


def _count(checking: Checking) -> str:
    if checking.how == END:
        return "only the end is compared"
    return f"{checking.compared} of {len(checking.history)} steps have a verdict"


def _forget(opened: Opened) -> None:
    opened.checking = None


def _failure(opened: Opened, history: History) -> None:
    failed = history.failed
    assert failed is not None
    index, broken = history.steps.index(failed), failed.broken_by
    sentence = "" if failed.verdict is None else failed.verdict.sentence
    if broken is None:
        show_error(f"Step {index}, {failed.title}: NOT EQUAL to the original. {sentence}")
        return
    culprit = f"Rewrite {broken + 1:,} of {len(failed.rewrites):,} broke it: {failed.rewrites[broken].sentence}"
    words, buttons = st.columns([5, 1], vertical_alignment="center")
    with words:
        show_error(f"Step {index}, {failed.title}: NOT EQUAL to the original. {sentence} {culprit}")
    with buttons:
        st.button("Show it", key="show_broken", on_click=go_to, args=(opened, index, broken + 1), width="stretch")
        st.button(
            "Leave it out and continue",
            key="leave_out",
            on_click=_leave_out,
            args=(opened, history),
            help="Run the passes again without this rewrite.",
            width="stretch",
        )


def _leave_out(opened: Opened, history: History) -> None:
    if history.culprit is not None:
        opened.left_out = (*opened.left_out, history.culprit)


def _left_out(opened: Opened) -> int:
    if not opened.left_out:
        return 0
    words, button = st.columns([6, 1], vertical_alignment="center")
    message = "; ".join(str(out) for out in opened.left_out)
    words.caption(markdown_escaped(message[:1].upper() + message[1:]))
    button.button("Put back", key="put_back", on_click=_put_back, args=(opened,), width="stretch")
    return 2 * LINE


def _put_back(opened: Opened) -> None:
    opened.left_out = ()
