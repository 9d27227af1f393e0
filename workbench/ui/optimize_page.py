"""Optimize: passes and strategy at the left; steps, and the graph before and after the chosen one, at the right."""

from __future__ import annotations

import streamlit as st

from workbench.errors import UserError
from workbench.layout.profile import load_profile
from workbench.rewrite import History
from workbench.ui.controls import controls
from workbench.ui.moments import moment_of
from workbench.ui.panes import GRAPH, VIEWS, show_graphs, show_rewrites, show_texts
from workbench.ui.parts import command_of, header, legend, opened_here, plain, show_error
from workbench.ui.session import Opened, Spec, history_of, worker
from workbench.ui.steps import choose_moment, choose_node, choose_step, go_to, step_table
from workbench.ui.work import Report, forget_cancel, run_with_progress, was_cancelled


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
    _notes(opened, history)
    step_table(opened, history)
    _views(opened, history)


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


def _notes(opened: Opened, history: History) -> None:
    if opened.verifier.settled:
        settled = ", ".join(f"{name} = {size}" for name, size in opened.verifier.settled.items())
        st.caption(plain(f"The model does not run with the dims as bound; it was run with {settled}, found by trying."))
    for index, step in enumerate(history.steps):
        if step.proof:
            st.caption(plain(f"Step {index}, {step.title}: {step.proof}."))
    failed = history.failed
    if failed is not None:
        index, broken = history.steps.index(failed), failed.broken_by
        sentence = "" if failed.verdict is None else failed.verdict.sentence
        culprit = "" if broken is None else f" Rewrite {broken + 1:,} of {len(failed.rewrites):,} broke it: "
        culprit += "" if broken is None else failed.rewrites[broken].sentence
        show_error(f"Step {index}, {failed.title}: NOT EQUAL to the original. {sentence}{culprit}")
        if broken is not None:
            st.button("Show that rewrite", key="show_broken", on_click=go_to, args=(opened, index, broken + 1))
    elif history.unverified is not None and history.unverified.verdict is not None:
        st.warning(plain(history.unverified.verdict.sentence))


def _views(opened: Opened, history: History) -> None:
    """The chosen step: which moment of it, and one of its three views."""
    target = load_profile(history.target)
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
    choice, key = st.columns([2, 5], vertical_alignment="center")
    with choice:
        view = st.segmented_control(
            "View",
            VIEWS,
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
    height = 496 - 24 * min(len(history), 9) - (20 if about else 0)
    if view == GRAPH:
        show_graphs(moment, target, focus, height)
    elif view == "Rewrites":
        show_rewrites(opened, index, step, height)
    else:
        show_texts(moment, height)
