"""Optimize: passes and strategy on the left; steps, and the graph before and after the chosen one, on the right."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from workbench.errors import UserError
from workbench.external.tool_pass import ToolFacts
from workbench.rewrite import History
from workbench.ui.state.address import (
    node_in_address,
    write_left_out,
    write_pipeline,
    write_seen,
    write_verification,
)
from workbench.ui.state.checking import EACH, OFF
from workbench.ui.state.commands import command_of
from workbench.ui.state.graph_views import shown_history
from workbench.ui.state.histories import checking_of, history_of
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.session import Opened, Spec, worker
from workbench.ui.state.shown_view import seen_in
from workbench.ui.state.snapshots import moment_of
from workbench.ui.state.work import Report, forget_cancel, was_cancelled
from workbench.ui.widgets.controls import chosen_preset, chosen_verification, controls
from workbench.ui.widgets.graph_view import graph_view, moment
from workbench.ui.widgets.panes import GRAPH, TIMES, WHY_NOT, show_rewrites, show_texts, show_times, views_of
from workbench.ui.widgets.parts import header, opened_here, say_settled, show_error
from workbench.ui.widgets.progress import run_with_progress
from workbench.ui.widgets.reports import report_button
from workbench.ui.widgets.steps import (
    STEP,
    choose_moment,
    choose_step,
    chosen_moment,
    height_of_steps,
    show_chosen_moment,
    step_table,
    stepped_to,
)
from workbench.ui.widgets.verdicts import ALERT, LINE, show_verdicts
from workbench.ui.widgets.why_not import show_why_not

_LEAST = 180  # pixels of height that a pane needs
_CHOICE = 66  # pixels of the field for the step, in views that cannot choose it themselves


def optimize_page() -> None:
    opened = opened_here()
    if opened is None:
        return
    spec = replace(controls(), left_out=opened.left_out)
    how = chosen_verification()
    top, command = st.columns([5, 1], vertical_alignment="center")
    with top:
        header(opened)
    with command, st.popover("Copy as command", width="stretch"):
        as_model = command_of(opened, spec, verified=how != OFF)
        as_page = command_of(opened, spec, "report.html", verb="report", verified=how != OFF)
        st.code(as_model, language="bash", wrap_lines=True)
        st.caption("This view as one HTML file:")
        st.code(as_page, language="bash", wrap_lines=True)
        if opened.history is not None and opened.spec == spec:
            report_button(opened, opened.history, spec)
    history = _history(opened, spec)
    if history is None or opened.spec is None:
        return
    with st.container():  # keeps the view below in its place, not remounted, when a note disappears
        taken = _notes(opened, history, how)
    seen = seen_in(_view_key(opened))
    stepped_to(opened, history, seen)
    step_table(opened, history)
    _views(opened, history, opened.spec, taken)
    write_seen(chosen_moment(opened, history), node_in_address() if seen.moment is None else seen.id)
    write_pipeline(spec.pipeline, spec.target, spec.mode, chosen_preset())
    write_verification(how, EACH)
    write_left_out(opened.left_out)


def _view_key(opened: Opened) -> str:
    return f"graph_{opened.number}"


def _history(opened: Opened, spec: Spec) -> History | None:
    """The history of the pipeline; if the user cancelled it, of the passes that were done, "as loaded" being none."""
    if (
        opened.spec != spec
        and was_cancelled(opened.jobs, "pipeline")
        and st.session_state.get("cancelled_spec") == spec
    ):
        done = 0 if opened.spec is None else len(opened.spec.pipeline.passes)
        words, button = st.columns([6, 1], vertical_alignment="center")
        words.info(
            f"The pipeline was cancelled after {done} of {len(spec.pipeline.passes)} passes; what they did is shown. "
            "Change a setting, or run the rest.",
            icon=":material/block:",
        )
        again = (opened.jobs, "pipeline")
        button.button("Run the rest", type="primary", width="stretch", on_click=forget_cancel, args=again)
        return opened.history
    forget_cancel(opened.jobs, "pipeline")
    st.session_state["cancelled_spec"] = spec

    def work(report: Report) -> History:
        return history_of(opened, spec, report)

    if opened.history is not None and opened.spec == spec:
        return opened.history
    try:
        return run_with_progress(opened.jobs, "pipeline", "Pipeline", work, worker(), wanted=spec)
    except UserError as error:
        show_error(error)
        return None


def _notes(opened: Opened, history: History, how: str) -> int:
    """Draw the notes on the history above its table; returns their approximate height in pixels."""
    taken = LINE if say_settled(opened) else 0
    for index, step in enumerate(history.steps):
        message = markdown_escaped(f"Step {index}, {step.title}: {step.conclusion}.")
        if isinstance(step.facts, ToolFacts) and step.facts.failed:
            taken += ALERT
            st.warning(message, icon=":material/error:")
        elif step.conclusion:
            taken += LINE
            st.caption(message)
    checking = checking_of(opened, history, st.session_state.get(STEP) or len(history) - 1, how)
    return taken + show_verdicts(opened, history, checking, how)


def _views(opened: Opened, history: History, spec: Spec, taken: int) -> None:
    """Draw one view of the chosen step. taken: pixels used above it."""
    row = st.container(horizontal=True, vertical_alignment="center")
    index = st.session_state[STEP]
    views = views_of(history[index])
    if st.session_state.get("view") not in (None, *views):
        st.session_state["view"] = GRAPH
    with row:
        view = st.segmented_control(
            "View",
            views,
            default=GRAPH,
            required=True,
            key="view",
            label_visibility="collapsed",
            format_func=lambda name: name if name != "Rewrites" else f"Rewrites ({len(history[index].rewrites):,})",
            persist_state="session",
        )
    height = max(606 - height_of_steps(history) - taken, _LEAST)
    if view == GRAPH:
        shown = shown_history(opened, history, spec)
        show_chosen_moment(opened, history, shown)
        graph_view(_view_key(opened), shown, height, follow=moment)
        return
    height -= _CHOICE
    with row:
        index = choose_step(opened, history)
    step = history[index]
    if view == TIMES:
        show_times(step, height)
    elif view == WHY_NOT:
        show_why_not(opened, history, spec, index, height)
    elif view == "Rewrites":
        show_rewrites(opened, index, step, height)
    else:
        with row:
            rewrites = choose_moment(opened, index, len(step.rewrites))
        show_texts(moment_of(opened, history, index, rewrites), height)
