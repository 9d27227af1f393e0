"""Compare: the open model beside another file, such as another tool's output, and their differences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from workbench.api import DEFAULT_TARGET
from workbench.ir import Graph
from workbench.layout.profile import load_profile
from workbench.metrics import measurements_of
from workbench.ui.state.address import other_in_address, write_other
from workbench.ui.state.commands import against_command_of
from workbench.ui.state.graph_views import shown_pair
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.session import Opened, Other, open_other
from workbench.ui.state.snapshots import moment_of_files
from workbench.ui.state.uploads import save_uploads
from workbench.ui.widgets.graph_view import graph_view
from workbench.ui.widgets.parts import header, opened_here, opening, warnings
from workbench.ui.widgets.tables import table

_COLUMNS = {
    "file": st.column_config.TextColumn(width=420),
    **{
        name: st.column_config.NumberColumn(format="localized")
        for name in ("nodes", "corresponding", "only here", "transposes", "elements moved")
    },
}


def compare_page() -> None:
    opened = opened_here()
    if opened is None:
        return
    top, upload, path, command = st.columns([5, 2, 2, 2], vertical_alignment="center")
    with top:
        header(opened)
    with command.popover("Copy as command", width="stretch"):
        st.code(against_command_of(opened), language="bash", wrap_lines=True)
    with upload.popover("Upload another", width="stretch"), st.form("other_upload", border=False):
        files = st.file_uploader(
            "The other model, with its external data files if it has any",
            accept_multiple_files=True,
            key=f"other_{opened.number}",
        )
        if st.form_submit_button("Compare") and files:
            folder, model = save_uploads(files)
            opening(partial(open_other, opened, str(model), folder), "Comparing")
    with path.popover("Path of another", width="stretch"), st.form("other_path", border=False):
        entered = st.text_input("Path of another model on this machine").strip()
        if st.form_submit_button("Compare") and entered:
            opening(partial(open_other, opened, entered), "Comparing")
    if opened.other is None and other_in_address():
        opening(partial(open_other, opened, other_in_address()), "Comparing")
    if opened.other is None:
        st.caption("Upload another model, or enter its path, to see how it differs from the open one.")
        return
    write_other("" if opened.other.folder else opened.other.path)
    _compared(opened, opened.other)


def _unmatched(opened: Opened, other: Other) -> None:
    """A table of the nodes without a counterpart, by name."""
    rows = [
        {"file": title, "operator": node.op, "node": node.name}
        for title, graph, only in (
            (opened.title, opened.graph, other.found.only_a),
            (other.title, other.graph, other.found.only_b),
        )
        for node in map(graph.node, only)
    ]
    if rows:
        with st.popover(f"Unmatched nodes ({len(rows):,})"):
            table(rows)


def _row(title: str, graph: Graph, other: Other, only: Sequence[str]) -> dict[str, Any]:
    measured = measurements_of(graph)
    return {
        "file": title,
        "nodes": len(graph),
        "corresponding": len(other.found.pairs),
        "only here": len(only),
        "transposes": measured["transposes"],
        "elements moved": measured["elements_moved"],
    }


def _compared(opened: Opened, other: Other) -> None:
    warnings(other.graph.warnings)
    st.caption(markdown_escaped(f"{other.found.sentence}."))
    rows = [
        _row(opened.title, opened.graph, other, other.found.only_a),
        _row(other.title, other.graph, other, other.found.only_b),
    ]
    table(rows, _COLUMNS)
    _unmatched(opened, other)
    titles = (opened.title, other.title)
    moment = moment_of_files(opened, other)
    shown = shown_pair(opened, (other.number,), moment, titles, other.found.sentence, load_profile(DEFAULT_TARGET))
    graph_view(f"files_{other.number}", shown, 500)
