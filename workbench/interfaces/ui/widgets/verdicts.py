"""The verification of steps: its progress, and its failures with the user's choices."""

from __future__ import annotations

import time

import streamlit as st

from workbench.interfaces.ui.state.checking import END, OFF, Checking, is_compared
from workbench.interfaces.ui.state.gains import is_measured_now
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened
from workbench.interfaces.ui.widgets.parts import show_error
from workbench.interfaces.ui.widgets.pass_list import added_passes
from workbench.interfaces.ui.widgets.progress import time_left
from workbench.interfaces.ui.widgets.steps import go_to
from workbench.rewrite import History

LOOK_EVERY_S = 1.0  # interval of updates of the progress
LINE, ALERT = 26, 98  # heights in pixels: a caption, an alert of three lines


def show_verdicts(opened: Opened, history: History, how: str) -> int:
    """Draw the verdicts; returns their approximate height in pixels. how: one of HOW."""
    height = _excluded(opened)
    if how == OFF and history[-1].verdict is None:
        st.caption("Verification is off: the result is not compared with the original.")
        height += LINE
    if history.failed is not None and _is_excluded_unasked(opened, history):
        _exclude(opened, history)
        st.rerun()
    if history.failed is not None:
        _failure(opened, history)
        height += ALERT
    elif history.unverified is not None and history.unverified.verdict is not None:
        st.warning(markdown_escaped(history.unverified.verdict.sentence))
        height += ALERT
    return height


def is_watched(opened: Opened, history: History, checking: Checking | None) -> Checking | None:
    """The comparison whose progress is to be drawn; None if all is compared, if nothing is, or after a failure.

    None too while the gain is measured, which stops it until then.
    """
    shown = checking or opened.checking
    if (
        shown is None
        or is_measured_now(opened, history)
        or shown.history is not history
        or not shown.shows_progress
        or history.failed is not None
    ):
        return None
    return None if is_compared(shown.history, shown.how) else shown


def watch(opened: Opened, checking: Checking) -> None:
    """Draw a line with the progress; the page reruns when the last step has a verdict, and when all have one."""
    if checking.is_done:
        why = checking.failure or "The comparison with the original was stopped."
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(markdown_escaped(f"{why} {_count(checking)}."))
            st.button("Continue", key="go_on_comparing", on_click=_forget, args=(opened,))
        return
    before = _progress_state(checking)

    @st.fragment(run_every=LOOK_EVERY_S)
    def line() -> None:
        if _progress_state(checking) != before:
            st.rerun()
        passed = time.monotonic() - checking.started
        times = f"{passed:,.0f} s{time_left(passed, checking.share)}"
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(f"{_count(checking)} ({times})", help=markdown_escaped(f"Verification: {checking.activity}."))
            st.button("Stop", key="stop_comparing", on_click=checking.stop)

    line()


def _progress_state(checking: Checking) -> tuple[bool, bool]:
    return checking.history[-1].verdict is not None, checking.is_done


def _count(checking: Checking) -> str:
    if checking.how == END:
        return "only the end is verified"
    return f"{checking.compared} of {len(checking.history)} steps verified"


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
    text, buttons = st.columns([5, 1], vertical_alignment="center")
    with text:
        show_error(f"Step {index}, {failed.title}: NOT EQUAL to the original. {sentence} {culprit}")
    with buttons:
        st.button("Show it", key="show_broken", on_click=go_to, args=(opened, index, broken + 1), width="stretch")
        st.button(
            "Leave it out and continue",
            key="leave_out",
            on_click=_exclude,
            args=(opened, history),
            help="Run the passes again without this rewrite.",
            width="stretch",
        )


def _is_excluded_unasked(opened: Opened, history: History) -> bool:
    """Whether the rewrite that broke it is left out at once, as the command does for a preset, and the rest kept.

    Not in a list of passes that the user made, nor if one is wrong on purpose, nor after the user put one back.
    """
    if history.culprit is None or opened.keeps_failing or opened.spec is None or added_passes() != []:
        return False
    return not any(pass_.demonstration for pass_ in opened.spec.pipeline.passes)


def _exclude(opened: Opened, history: History) -> None:
    if history.culprit is not None:
        opened.excluded = (*opened.excluded, history.culprit)


def _excluded(opened: Opened) -> int:
    if not opened.excluded:
        return 0
    text, button = st.columns([6, 1], vertical_alignment="center")
    message = "; ".join(str(out) for out in opened.excluded)
    text.caption(markdown_escaped(message[:1].upper() + message[1:]))
    button.button("Put back", key="put_back", on_click=_put_back, args=(opened,), width="stretch")
    return 2 * LINE


def _put_back(opened: Opened) -> None:
    opened.excluded, opened.keeps_failing = (), True
