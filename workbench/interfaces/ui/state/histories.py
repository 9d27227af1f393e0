"""The history of the open model's pipeline, and the comparison of its steps with the original.

A new list of passes reuses the leading steps that it shares with the previous list, also if that was cancelled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import streamlit as st

from workbench.backends.profiling.progress import ProgressCallback
from workbench.interfaces.ui.state.checking import AT_ONCE_S, Checking, is_compared
from workbench.interfaces.ui.state.gains import is_measured_now
from workbench.interfaces.ui.state.lru import Recent
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.session import Opened, OtherModel, Spec, stop_checking
from workbench.interfaces.ui.state.snapshots import Snapshots
from workbench.interfaces.ui.state.work import Report, Stopped
from workbench.pipeline import running as pipeline
from workbench.pipeline.pipeline import Pipeline
from workbench.pipeline.registry.contexts import pass_context
from workbench.pipeline.registry.pass_choice import FIX
from workbench.pipeline.run_limits import limits_of
from workbench.planning.layout.profile import Profile
from workbench.rewrite import Excluded, History, Pass, PassContext
from workbench.rewrite.core.limits import RuleLimits
from workbench.run.worker.process import CancelledError

_MAX_SIDE_HISTORIES = 4


def history_of(opened: Opened, spec: Spec, report: Report) -> History:
    """The history of `spec`, reusing the leading steps shared with the previous one; new steps have no verdict yet.

    report: is called with a text and the fraction done, from 0 to 1; may raise to stop. The open model then has the
            finished steps, as the history of a pipeline that ends there.
    """
    if opened.history is not None and opened.spec == spec:
        return opened.history
    stop_checking(opened)
    planned = pipeline.without(spec.pipeline, spec.excluded)
    history = _shared_history(opened, spec)
    history.excluded = list(spec.excluded)
    history.limits = limits_of(opened.graph, grow=spec.grow, keep=spec.keep, mode=spec.mode)
    try:
        for index in range(len(history) - 1, len(planned)):
            label, pass_ = planned[index]
            on_rewrite = pipeline.reporter(
                lambda at: report(f"{at.text}. {at.about}", at.share), index, len(planned), pass_
            )
            on_progress = _with_share(report, index / len(planned))
            exclude = pipeline.excluded_of(planned[index], spec.excluded)
            context = _context(opened, spec, history.limits, on_progress)
            pipeline.extend(history, pass_, context, on_rewrite, exclude=exclude, label=label)
    except (Stopped, CancelledError):
        done = len(history) - 1
        history = replace(history, graph=history.at(done))  # without the changes of the cancelled pass
        _set_history(opened, history, replace(spec, pipeline=_first_steps(spec, done)))
        raise
    _set_history(opened, history, spec)
    return history


@dataclass
class SideHistories(ModelState):
    """The most recent histories of further pipelines."""

    recent: Recent[History] = field(default_factory=lambda: Recent(_MAX_SIDE_HISTORIES))


def history_beside(opened: Opened, spec: Spec, title: str, report: Report, other: OtherModel | None = None) -> History:
    """The history of a further pipeline of the open model, which keeps its own; cached.

    title: of the pipeline, for the progress. report: as in `history_of`. other: whose history it is instead.
    """
    if other is None and spec == opened.spec and opened.history is not None:
        return opened.history
    key = spec, None if other is None else other.number
    return opened.state(SideHistories).recent.get(key, lambda: _run_beside(opened, spec, title, report, other))


def _run_beside(opened: Opened, spec: Spec, title: str, report: Report, other: OtherModel | None) -> History:
    graph = opened.graph if other is None else other.graph
    limits = limits_of(graph, grow=spec.grow, keep=spec.keep, mode=spec.mode)
    context = _context(opened, spec, limits, lambda text, _: report(text, None), has_its_inputs=other is None)
    on_progress = lambda at: report(f"{title}: {at.text}. {at.about}", at.share)  # noqa: E731
    return pipeline.run_pipeline(graph, spec.pipeline, context, on_progress=on_progress, excluded=spec.excluded)


def _context(
    opened: Opened, spec: Spec, limits: RuleLimits, on_progress: ProgressCallback, has_its_inputs: bool = True
) -> PassContext:
    """The context of passes. has_its_inputs: whether the graph runs on the inputs of the open model."""
    verifier = opened.verifier
    inputs = verifier.run_inputs if has_its_inputs else None
    return pass_context(spec.target, verifier.worker, on_progress, mode=spec.mode, run_inputs=inputs, limits=limits)


def checking_of(opened: Opened, history: History, shown: int, how: str) -> Checking | None:
    """The running comparison of the history with the original, started if needed; None if it is complete.

    None too while the gain is measured, which a comparison would disturb: the rest follows it.
    shown: the step on screen. how: of HOW, which steps are compared.
    """
    checking = opened.checking
    if checking is not None and checking.history is history and checking.how == how:
        checking.shown = shown
        return None if is_compared(history, how) and checking.is_done else checking
    stop_checking(opened)
    if is_compared(history, how) or is_measured_now(opened, history):
        return None
    opened.checking = Checking(opened.verifier, history, shown, how)
    with st.spinner("Comparing with the original"):
        opened.checking.wait(AT_ONCE_S)
    opened.checking.shows_progress = not is_compared(history, how)
    return opened.checking if opened.checking.shows_progress else None


def _set_history(opened: Opened, history: History, spec: Spec) -> None:
    opened.history, opened.spec = history, spec
    opened.forget_state(Snapshots)


def _with_share(report: Report, share: float) -> Callable[[str, float], None]:
    """A callback that reports a text with the share of the whole work."""
    return lambda message, _: report(message, share)


def _first_steps(spec: Spec, done: int) -> Pipeline:
    """The pipeline up to the step `done`, with the passes before it that are left out as a whole."""
    labels = [planned.label for planned in spec.pipeline.planned]
    ran = [planned.label for planned in pipeline.without(spec.pipeline, spec.excluded)]
    return spec.pipeline.first(labels.index(ran[done - 1]) + 1 if done else 0)


def _passes_that_run(spec: Spec) -> list[Pass]:
    """The passes that have a step: all except those that are left out as a whole."""
    return [planned.pass_ for planned in pipeline.without(spec.pipeline, spec.excluded)]


def _settings(spec: Spec) -> tuple[Profile, str, tuple[Excluded, ...], float, tuple[str, ...]]:
    """The settings that affect every step."""
    return spec.profile, spec.mode, spec.excluded, spec.grow, spec.keep


def _shared_history(opened: Opened, spec: Spec) -> History:
    """A history of the leading steps that the new list of passes shares with the previous one."""
    last, old = opened.history, opened.spec
    is_fixed = FIX in spec.pipeline.names
    if last is None or old is None or _settings(old) != _settings(spec) or is_fixed != (FIX in old.pipeline.names):
        graph = opened.verifier.with_running_dims(opened.graph) if is_fixed else opened.graph
        return pipeline.start(graph, spec.profile, spec.mode)
    before, requested = _passes_that_run(old), _passes_that_run(spec)
    count = 0
    while count < min(len(before), len(requested)) and before[count] == requested[count]:
        count += 1
    return History(last.initial, last.at(count), last.target, list(last.steps[: count + 1]), spec.mode)
