"""The history of the open model's pipeline, and the comparison of its steps with the original.

The pipeline is cached by step: a new list of passes reuses the leading steps
that it shares with the last one and runs the rest; so does one that was cancelled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from workbench import pipeline
from workbench.contexts import pass_context
from workbench.layout.profile import Profile
from workbench.limits_of_run import limits_of
from workbench.pass_choice import FIX, choose
from workbench.rewrite import History, LeftOut
from workbench.run.worker.process import CancelledError
from workbench.ui.state.checking import AT_ONCE_S, Checking, is_compared
from workbench.ui.state.session import Opened, Spec, stop_checking
from workbench.ui.state.work import Report, Stopped

_Passes = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]  # as in `Spec`


def history_of(opened: Opened, spec: Spec, report: Report) -> History:
    """The history of `spec`, reusing the leading steps shared with the last one; new steps have no verdict yet.

    `report` is called with the progress, in words and as a share from 0 to 1, and may raise to stop:
    the open model then has the steps that are done, as the history of a pipeline that ends there.
    """
    if opened.history is not None and opened.spec == spec:
        return opened.history
    stop_checking(opened)
    chosen = choose([name for name, _ in spec.passes], options=spec.options)
    passes, sentences = pipeline.without(chosen, spec.left_out)
    history = _shared(opened, spec)
    history.left_out, history.limits = list(spec.left_out), limits_of(opened.graph, mode=spec.mode)
    try:
        for index in range(len(history) - 1, len(passes)):
            hear = pipeline.reporter(
                lambda at: report(f"{at.words}. {at.about}", at.share), index, len(passes), passes[index]
            )
            words = _within(report, index / len(passes))
            context = pass_context(spec.target, opened.verifier.worker, words, mode=spec.mode, limits=history.limits)
            pipeline.extend(history, passes[index], context, hear, leave_out=sentences)
    except (Stopped, CancelledError):
        done = len(history) - 1
        history = replace(history, graph=history.at(done))  # without what the last pass had begun
        _take(opened, history, replace(spec, passes=_that_run(spec)[:done]))
        raise
    _take(opened, history, spec)
    return history


def checking_of(opened: Opened, history: History, shown: int, how: str) -> Checking | None:
    """The comparison of the history with the original, started if needed; None if all is compared that is to be.

    how: of HOW, which steps are compared.
    """
    checking = opened.checking
    if checking is not None and checking.history is history and checking.how == how:
        checking.shown = shown
        return None if is_compared(history, how) and checking.is_done else checking
    stop_checking(opened)
    if is_compared(history, how):
        return None
    opened.checking = Checking(opened.verifier, history, shown, how)
    with st.spinner("Comparing with the original"):
        opened.checking.wait(AT_ONCE_S)
    opened.checking.is_watched = not is_compared(history, how)
    return opened.checking if opened.checking.is_watched else None


def _take(opened: Opened, history: History, spec: Spec) -> None:
    opened.history, opened.spec = history, spec
    opened.moments.clear()


def _within(report: Report, share: float) -> Callable[[str, float], None]:
    """Reports the words of a part of the work with the share of the whole."""
    return lambda words, _: report(words, share)


def _that_run(spec: Spec) -> _Passes:
    """The passes of which there is a step: all but those that are left out as a whole."""
    whole = {out.pass_name for out in spec.left_out if not out.sentence}
    return tuple((name, options) for name, options in spec.passes if name not in whole)


def _setting(spec: Spec) -> tuple[Profile, str, tuple[LeftOut, ...]]:
    """The settings that affect every step."""
    return spec.profile, spec.mode, spec.left_out


def _shared(opened: Opened, spec: Spec) -> History:
    """A history of the leading steps that the new list shares with the last one."""
    last, old = opened.history, opened.spec
    is_fixed = FIX in dict(spec.passes)
    if last is None or old is None or _setting(old) != _setting(spec) or is_fixed != (FIX in dict(old.passes)):
        graph = opened.verifier.with_running_dims(opened.graph) if is_fixed else opened.graph
        return pipeline.start(graph, spec.profile, spec.mode)
    before, wanted = _that_run(old), _that_run(spec)
    same = 0
    while same < min(len(before), len(wanted)) and before[same] == wanted[same]:
        same += 1
    return History(last.initial, last.at(same), last.target, list(last.steps[: same + 1]), spec.mode)
