"""The page Optimize: on the left what changed, and the controls; on the right the gain, and the graph at a step."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.state.address import node_in_address, write_seen
from workbench.interfaces.ui.state.checking import OFF, Checking
from workbench.interfaces.ui.state.commands import command_of
from workbench.interfaces.ui.state.extracting import EXTRACT_FROM
from workbench.interfaces.ui.state.graph_views import shown_history, shown_whole
from workbench.interfaces.ui.state.histories import checking_of
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened, Spec
from workbench.interfaces.ui.state.shown_view import seen_in
from workbench.interfaces.ui.state.snapshots import moment_of
from workbench.interfaces.ui.state.work import forget_cancel, was_cancelled
from workbench.interfaces.ui.widgets.controls import NO_PARTS, Parts, chosen_verification, controls, write_settings
from workbench.interfaces.ui.widgets.digest_panel import digest_panel
from workbench.interfaces.ui.widgets.gain_card import gain_card
from workbench.interfaces.ui.widgets.graph_view import PageActions, graph_view, moment
from workbench.interfaces.ui.widgets.linked_pipeline import PIPELINE, history_with_progress
from workbench.interfaces.ui.widgets.panes import (
    GRAPH,
    STEP_TABLE,
    TIMES,
    WHY_NOT,
    show_rewrites,
    show_texts,
    show_times,
    views_of,
)
from workbench.interfaces.ui.widgets.parts import header, opened_here, say_changed_dims, show_error
from workbench.interfaces.ui.widgets.pass_list import switch_over, switches
from workbench.interfaces.ui.widgets.reports import report_button
from workbench.interfaces.ui.widgets.steps import (
    STEP,
    VIEW,
    ask_chosen_query,
    choose_default_step,
    choose_moment,
    choose_step,
    chosen_moment,
    is_whole,
    show_chosen_moment,
    show_places,
    step_table,
    stepped_to,
)
from workbench.interfaces.ui.widgets.verdicts import ALERT, LINE, is_watched, show_verdicts, watch
from workbench.interfaces.ui.widgets.why_not import show_why_not
from workbench.rewrite import History
from workbench.rewrite.external.tool_pass import ToolFacts

_MIN_HEIGHT = 180  # pixels
_GRAPH_HEIGHT = 616  # pixels below the card
_VIEW_CHOICE_HEIGHT = 16  # pixels that it takes from the graph; there is room below
_LINE_LENGTH, _NEXT_LINE = 170, 19  # of a note beside the sidebar on a screen of 1366 pixels: characters; pixels
_STEP_CHOICE_HEIGHT = 8  # pixels, in views that do not choose the step themselves


def optimize_page(parts: Parts = NO_PARTS) -> None:
    """Draw the page. parts: further pages to which it leads."""
    opened = opened_here()
    if opened is None:
        return
    changes = st.sidebar.container()
    spec = replace(controls(parts), excluded=opened.excluded)
    how = chosen_verification()
    header(opened)
    history = _history(opened, spec)
    if history is None or opened.spec is None:
        return
    card = st.container()
    with st.container():  # so that the view below is not mounted again when a note or a spinner disappears
        checking = checking_of(opened, history, st.session_state.get(STEP) or len(history) - 1, how)
        used_height = _notes(opened, history, how)
    with card, gain_card(opened, history, how), st.popover("As command"):  # the verdict may be new
        _commands(opened, history, spec, how)
    seen = seen_in(_view_key(opened))
    stepped_to(opened, history, seen)
    choose_default_step(opened, history)
    with changes:
        digest_panel(opened, history, opened.spec.profile)
        _progress(opened, is_watched(opened, history, checking))
    _views(opened, history, opened.spec, used_height, _actions(parts))
    moment_shown = None if is_whole() else chosen_moment(opened, history)
    write_seen(moment_shown, node_in_address() if seen.moment is None else seen.id)
    write_settings(opened, spec)


def _commands(opened: Opened, history: History, spec: Spec, how: str) -> None:
    """Draw the commands for the model and for this view as one HTML file, and the download of that file."""
    verified = how != OFF
    st.code(command_of(opened, spec, verified=verified), language="bash", wrap_lines=True)
    st.caption("This view as one HTML file:")
    report_command = command_of(opened, spec, "report.html", verb="report", verified=verified)
    st.code(report_command, language="bash", wrap_lines=True)
    if opened.spec == spec:
        report_button(opened, history, spec)


def _actions(parts: Parts) -> PageActions:
    def extract(id_: str) -> None:
        st.session_state[EXTRACT_FROM] = id_
        st.switch_page(parts.extract)

    return PageActions(switches(), switch_over, {} if parts.extract is None else {"Extract": extract})


def _view_key(opened: Opened) -> str:
    return f"graph_{opened.number}"


def _history(opened: Opened, spec: Spec) -> History | None:
    """The history of the pipeline; if the user cancelled it, of the finished passes. None on an error."""
    if opened.spec != spec and was_cancelled(opened.jobs, PIPELINE) and st.session_state.get("cancelled_spec") == spec:
        done = 0 if opened.spec is None else len(opened.spec.pipeline.passes)
        text, button = st.columns([6, 1], vertical_alignment="center")
        text.info(
            f"The pipeline was cancelled after {done} of {len(spec.pipeline.passes)} passes; their result is shown. "
            "Change a setting, or run the rest.",
            icon=":material/block:",
        )
        arguments = (opened.jobs, PIPELINE)
        button.button("Run the rest", type="primary", width="stretch", on_click=forget_cancel, args=arguments)
        return opened.history
    forget_cancel(opened.jobs, PIPELINE)
    st.session_state["cancelled_spec"] = spec
    if opened.history is not None and opened.spec == spec:
        return opened.history
    try:
        return history_with_progress(opened, spec)
    except UserError as error:
        show_error(error)
        return None


def _notes(opened: Opened, history: History, how: str) -> int:
    """Draw the notes on the history; returns their approximate height in pixels."""
    used_height = LINE if say_changed_dims(opened) else 0
    for index, step in enumerate(history.steps):
        message = markdown_escaped(f"Step {index}, {step.title}: {step.conclusion}.")
        if isinstance(step.facts, ToolFacts) and step.facts.failed:
            used_height += ALERT
            st.warning(message, icon=":material/error:")
        elif step.conclusion:
            used_height += LINE + len(message) // _LINE_LENGTH * _NEXT_LINE
            st.caption(message)
    return used_height + show_verdicts(opened, history, how)


def _progress(opened: Opened, comparing: Checking | None) -> None:
    """Draw the progress of the verification."""
    with st.container(key="verification_progress"):
        if comparing is None:
            st.empty()  # at once in place of the progress
        else:
            watch(opened, comparing)


def _views(opened: Opened, history: History, spec: Spec, used_height: int, actions: PageActions) -> None:
    """Draw one view of the chosen step. used_height: pixels above it."""
    height = max(_GRAPH_HEIGHT - used_height, _MIN_HEIGHT)
    if is_whole():
        whole = shown_whole(opened, history, spec)
        ask_chosen_query(whole)
        graph_view(f"whole_{opened.number}", whole, height, actions=actions)
        return
    row = st.container(horizontal=True, vertical_alignment="center")
    index = st.session_state[STEP]
    views = views_of(history[index])
    if st.session_state.get(VIEW) not in (None, *views):
        st.session_state[VIEW] = GRAPH
    with row:
        view = st.segmented_control(
            "View",
            views,
            default=GRAPH,
            required=True,
            key=VIEW,
            label_visibility="collapsed",
            format_func=lambda name: name if name != "Rewrites" else f"Rewrites ({len(history[index].rewrites):,})",
            persist_state="session",
        )
    height = max(height - _VIEW_CHOICE_HEIGHT, _MIN_HEIGHT)
    if view == GRAPH:
        shown = shown_history(opened, history, spec)
        show_chosen_moment(opened, history, shown)
        show_places(opened, history, shown)
        graph_view(_view_key(opened), shown, height, follow=moment, replaced_by=VIEW, actions=actions)
        return
    height -= _STEP_CHOICE_HEIGHT
    with row:
        index = choose_step(opened, history)
    step = history[index]
    if view == STEP_TABLE:
        step_table(opened, history, height)
    elif view == TIMES:
        show_times(step, height)
    elif view == WHY_NOT:
        show_why_not(opened, history, spec, index, height)
    elif view == "Rewrites":
        show_rewrites(opened, index, step, height)
    else:
        with row:
            rewrites = choose_moment(opened, index, len(step.rewrites))
        show_texts(moment_of(opened, history, index, rewrites), spec.profile, height)
