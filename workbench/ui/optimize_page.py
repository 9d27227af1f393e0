"""Optimize: passes and strategy at the left; steps, and the graph before and after the chosen one, at the right."""

from __future__ import annotations

import streamlit as st

from passes.layout_convert_layout import LayoutConvertLayout
from workbench.errors import UserError
from workbench.layout.profile import Profile
from workbench.rewrite import History, Step
from workbench.ui.controls import controls
from workbench.ui.moments import moment_of
from workbench.ui.panes import GRAPH, TIMES, show_graphs, show_rewrites, show_texts, show_times, views_of
from workbench.ui.parts import command_of, header, legend, opened_here, plain, show_error
from workbench.ui.session import Opened, Spec, history_of, worker
from workbench.ui.steps import choose_moment, choose_node, choose_step, go_to, shown_steps, step_table, table_height
from workbench.ui.work import Report, forget_cancel, run_with_progress, was_cancelled

# Pixels of height: a caption, an alert of three lines, and what a pane needs at the least.
_LINE, _ALERT, _LEAST = 26, 98, 180


def optimize_page() -> None:
    opened = opened_here()
    if opened is None:
        return
    spec = controls()
    top, command = st.columns([5, 1], vertical_alignment="center")
    with top:
        header(opened)
    with command, st.popover("Copy as command", width="stretch"):
        st.code(command_of(opened, spec), language="bash", wrap_lines=True)
    history = _history(opened, spec)
    if history is None:
        return
    taken = _notes(opened, history)
    step_table(opened, history)
    _views(opened, history, spec.profile, taken)


def _history(opened: Opened, spec: Spec) -> History | None:
    if opened.spec != spec and was_cancelled("pipeline") and st.session_state.get("cancelled_spec") == spec:
        st.info("The pipeline was cancelled. Change something, or run it again.", icon=":material/block:")
        if not st.button("Run pipeline", type="primary"):
            return None
    forget_cancel("pipeline")
    st.session_state["cancelled_spec"] = spec

    def work(report: Report) -> History:
        return history_of(opened, spec, report)

    if opened.history is not None and opened.spec == spec:
        return opened.history
    try:
        return run_with_progress("Pipeline", work, worker(), "pipeline")
    except UserError as error:
        show_error(error)
        return None


def _notes(opened: Opened, history: History) -> int:
    """What must be said of the history above its table; about how many pixels that takes."""
    taken = 0
    if opened.verifier.settled:
        taken += _LINE
        settled = ", ".join(f"{name} = {size}" for name, size in opened.verifier.settled.items())
        st.caption(plain(f"The model does not run with the dims as bound; it was run with {settled}, found by trying."))
    for index, step in enumerate(history.steps):
        if step.proof:
            taken += _LINE
            st.caption(plain(f"Step {index}, {step.title}: {step.proof}."))
    failed = history.failed
    if failed is not None:
        index, broken = history.steps.index(failed), failed.broken_by
        sentence = "" if failed.verdict is None else failed.verdict.sentence
        culprit = "" if broken is None else f" Rewrite {broken + 1:,} of {len(failed.rewrites):,} broke it: "
        culprit += "" if broken is None else failed.rewrites[broken].sentence
        words, button = st.columns([6, 1], vertical_alignment="center")
        with words:
            show_error(f"Step {index}, {failed.title}: NOT EQUAL to the original. {sentence}{culprit}")
        if broken is not None:
            button.button(
                "Show it", key="show_broken", on_click=go_to, args=(opened, index, broken + 1), width="stretch"
            )
        taken += _ALERT
    elif history.unverified is not None and history.unverified.verdict is not None:
        st.warning(plain(history.unverified.verdict.sentence))
        taken += _ALERT
    return taken


def _views(opened: Opened, history: History, target: Profile, taken: int) -> None:
    """The chosen step: which moment of it, and one of its three views; `taken`: pixels of what stands above."""
    which, done, where = st.columns([4, 4, 3], vertical_alignment="bottom")
    with which:
        index = choose_step(opened, history)
    step = history[index]
    with done:
        rewrites = choose_moment(opened, index, len(step.rewrites))
    moment = moment_of(opened, history, index, rewrites)
    about = step.rewrites[rewrites - 1].nodes if 0 < rewrites < len(step.rewrites) else ()
    with where:
        focus = choose_node(opened, moment, about)
    choice, boxes, key = st.columns([4, 2, 9], vertical_alignment="center")
    views = views_of(step)
    if st.session_state.get("view") not in (None, *views):
        st.session_state["view"] = GRAPH
    with choice:
        view = st.segmented_control(
            "View",
            views,
            default=GRAPH,
            required=True,
            key="view",
            label_visibility="collapsed",
            format_func=lambda name: name if name != "Rewrites" else f"Rewrites ({len(step.rewrites):,})",
            persist_state="session",
        )
    with key:
        legend(target)
    if about:
        st.caption(plain(f"Rewrite {rewrites:,}: {step.rewrites[rewrites - 1].sentence}"))
    table = table_height(len(shown_steps(history, index)))
    height = max(530 - table - (20 if about else 0) - taken, _LEAST)
    if view == GRAPH:
        with boxes:
            classes = _classes_wanted(step)
        show_graphs(moment, _aimed(step, target), focus, classes, height)
    elif view == TIMES:
        show_times(step, height)
    elif view == "Rewrites":
        show_rewrites(opened, index, step, height)
    else:
        show_texts(moment, height)


def _classes_wanted(step: Step) -> bool:
    """Are the boxes to say the class of the operator? At first only in the step that works by class."""
    by_class = step.pass_name == LayoutConvertLayout().name
    return st.toggle(
        "Classes",
        by_class,
        key="classes_of_convert_layout" if by_class else "classes",
        persist_state="session",
        help="Boxes say the layout of their result, or how much the layout means to the operator, as TVM tells them "
        "apart: layout-agnostic, lightly or heavily layout-sensitive.",
    )


def _aimed(step: Step, target: Profile) -> Profile:
    """The target as the step's options change it."""
    if step.pass_name != LayoutConvertLayout().name:
        return target
    return LayoutConvertLayout(**step.options).aim(target)
