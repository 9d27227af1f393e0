"""The page Compare: the original beside the result, or the open model beside another file.

A card says what differs in numbers, the list on the left what differs in kind, and the graph where.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.state.address import other_in_address, write_other
from workbench.interfaces.ui.state.commands import against_command_of, command_of
from workbench.interfaces.ui.state.graph_views import shown_pair, shown_whole
from workbench.interfaces.ui.state.histories import checking_of
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened, OtherModel, Spec, open_other, open_other_in_address, refuse
from workbench.interfaces.ui.state.shown_view import Shown
from workbench.interfaces.ui.state.snapshots import difference_digest, moment_of_files, moment_of_whole
from workbench.interfaces.ui.state.uploads import keep_upload, save_upload
from workbench.interfaces.ui.widgets.controls import chosen_verification
from workbench.interfaces.ui.widgets.digest_panel import changes_panel, difference_panel
from workbench.interfaces.ui.widgets.files_card import files_card
from workbench.interfaces.ui.widgets.gain_card import gain_card
from workbench.interfaces.ui.widgets.graph_view import graph_view
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.parts import header, opening, warnings
from workbench.interfaces.ui.widgets.tables import table
from workbench.interfaces.ui.widgets.verdicts import is_watched, watch
from workbench.rewrite import History

_GRAPH_HEIGHT = 530  # pixels on a screen of 768 pixels
_CLOSED = "other_closed"  # key in the session: the number of the open model whose other file the user closed


def compare_page(optimize: Any = None) -> None:
    """Draw the page. optimize: the page Optimize, which makes the result."""
    opened = optimized_here()
    if opened is None:
        return
    top, whole, upload, path, command = st.columns([5, 2, 2, 2, 2], vertical_alignment="center")
    with top:
        header(opened)
    if opened.other is None and other_in_address() and st.session_state.get(_CLOSED) != opened.number:
        opening(partial(open_other_in_address, opened, other_in_address()), "Comparing")
    _choose_other(opened, upload, path)
    other, history, spec = opened.other, opened.history, opened.spec
    if other is not None and history is not None:
        whole.button("Original and result", width="stretch", key="compare_whole", on_click=_close_other, args=(opened,))
    with command.popover("As command", width="stretch"):
        if other is None and spec is not None:
            text = command_of(opened, spec, "report.html", verb="report")
        else:
            text = against_command_of(opened)
        st.code(text, language="bash", wrap_lines=True)
    if other is not None:
        write_other(other.address)
        _compared(opened, other)
        return
    write_other("")
    if history is not None and spec is not None:
        _original_and_result(opened, history, spec, optimize)
        return
    st.caption("Optimize the open model to see its result beside it. Or upload another model, or enter its path.")
    if optimize is not None:
        st.page_link(optimize)


def _choose_other(opened: Opened, upload: Any, path: Any) -> None:
    """Draw the two ways to name another file; each closes when the file is open."""
    number = "" if opened.other is None else opened.other.number
    with (
        upload.popover("Upload another", width="stretch", key=f"other_upload_{number}"),
        st.form(f"upload_form_{number}", border=False),
    ):
        files = st.file_uploader(
            "The other model, with its external data files if it has any",
            accept_multiple_files=True,
            key=f"other_{opened.number}_{number}",
        )
        if st.form_submit_button("Compare") and files:
            other = save_upload(files)
            if opening(partial(open_other, opened, str(other.models[0]), other.folder, other.key), "Comparing"):
                if fault := keep_upload(other):
                    refuse(fault)
                st.rerun()
    with (
        path.popover("Path of another", width="stretch", key=f"other_path_{number}"),
        st.form(f"path_form_{number}", border=False),
    ):
        entered = st.text_input("Path of another model on this machine", key=f"path_{opened.number}_{number}").strip()
        if st.form_submit_button("Compare") and entered and opening(partial(open_other, opened, entered), "Comparing"):
            st.rerun()


def _close_other(opened: Opened) -> None:
    opened.other = None
    st.session_state[_CLOSED] = opened.number


def _original_and_result(opened: Opened, history: History, spec: Spec, optimize: Any) -> None:
    how = chosen_verification()
    checking = checking_of(opened, history, len(history) - 1, how)
    gain_card(opened, history, how)
    changes = moment_of_whole(opened, history).changes
    lost, new = len(changes.removed), len(changes.added)
    kept = len(history.initial) - lost
    st.caption(f"{kept:,} nodes in both, {lost:,} only in the original, {new:,} only in the result.")
    with st.sidebar:
        is_chosen = changes_panel(opened, history, spec.profile)
        watched = is_watched(opened, history, checking)
        if watched is not None:
            watch(opened, watched)
    if is_chosen and optimize is not None:
        st.switch_page(optimize)
    graph_view(f"compared_{opened.number}", shown_whole(opened, history, spec), _GRAPH_HEIGHT)


def _compared(opened: Opened, other: OtherModel) -> None:
    warnings(other.graph.warnings)
    matched = other.correspondence
    row = files_card(opened, other)
    st.caption(markdown_escaped(f"{matched.sentence}."))
    _unmatched(row, opened, other)
    titles = (opened.title, other.title)
    moment = moment_of_files(opened, other)
    shown = shown_pair(opened, (other.number,), moment, titles, matched.sentence, opened.profile)
    with st.sidebar:
        _difference(opened, other, shown)
    graph_view(f"files_{other.number}", shown, _GRAPH_HEIGHT)


def _difference(opened: Opened, other: OtherModel, shown: Shown) -> None:
    """Draw the kinds of difference; the place that was chosen is shown in the graph."""
    try:
        digest = difference_digest(opened, other)
    except UserError as error:  # they have other inputs or outputs
        st.caption(markdown_escaped(f"The differences are not listed by kind: {error}."))
        return
    place = difference_panel(digest, opened.profile, other.number)
    if place is not None:
        shown.show_framed([*place.removed, *(other.shown_names[node] for node in place.inserted)])


def _unmatched(row: Any, opened: Opened, other: OtherModel) -> None:
    """Draw a table of the nodes without a counterpart, behind a button in `row`."""
    rows = [
        {"file": title, "operator": node.op, "node": node.name}
        for title, graph, unmatched in (
            (opened.title, opened.graph, other.correspondence.only_a),
            (other.title, other.graph, other.correspondence.only_b),
        )
        for node in map(graph.node, unmatched)
    ]
    if rows:
        with row.popover(f"Unmatched nodes ({len(rows):,})"):
            table(rows)
