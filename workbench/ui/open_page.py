"""Open: a sample, an upload or a path; what it is; its symbolic dims; its graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from workbench.errors import UserError
from workbench.layout.infer import infer_layouts
from workbench.layout.profile import load_profile
from workbench.loading.samples import samples
from workbench.summary import Summary
from workbench.ui.parts import header, legend, picture, plain, show_error, summary_of, warnings
from workbench.ui.session import Opened, current, open_model, open_uploads
from workbench.view.picture import draw


def open_page() -> None:
    left, right = st.columns([2, 3], gap="large")
    with left:
        _choose()
    try:
        opened = current()
    except UserError as error:
        show_error(error)
        return
    with right:
        _describe(opened)


def _choose() -> None:
    sample, upload, path = st.tabs(["Samples", "Upload", "Path"])
    with sample, st.container(height=520, border=False):
        for entry in samples():
            with st.container(border=True):
                words, button = st.columns([4, 1], vertical_alignment="center")
                words.markdown(f"**{plain(entry.title)}**  \n{plain(entry.description)}")
                if button.button("Open", key=f"sample_{entry.file.stem}"):
                    _opening(partial(open_model, str(entry.file), entry.title, entry.dims))
    with upload:
        files = st.file_uploader(
            "A model (.onnx, .pt2, ONNX text), with its external data files if it has any",
            accept_multiple_files=True,
            key="uploads",
        )
        if st.button("Open upload", disabled=not files):
            _opening(lambda: open_uploads(files))
    with path, st.form("path_form", border=False):
        entered = st.text_input("Path of a model on this machine", key="path")
        if st.form_submit_button("Open path"):
            _opening(lambda: open_model(entered.strip(), entered.strip().rpartition("/")[2] or "(no path)"))


def _opening(action: Callable[[], None]) -> None:
    """Open; a file that does not open is a sentence, and what was open stays."""
    try:
        with st.spinner("Opening"):
            action()
    except UserError as error:
        show_error(error)


def _describe(opened: Opened) -> None:
    summary = summary_of(opened.graph)
    header(opened, summary)
    warnings(opened.graph.warnings)
    first, second, third, fourth = st.columns(4)
    first.metric("Nodes", f"{summary.nodes:,}")
    second.metric("Parameters", f"{summary.parameters / 1e6:,.2f} M", help=f"{summary.weight_bytes / 1e6:,.2f} MB")
    third.metric("One run", f"{summary.flops / 1e9:,.2f} GFLOP", help=_unknown(summary))
    fourth.metric("Opset", f"{summary.opset}")
    if opened.graph.dims:
        _dims_form(opened)
    about, operators, graph = st.tabs(["Graph", "Operators", "Inputs and outputs"])
    with about:
        target = load_profile("cuda")
        legend(target)
        layouts = infer_layouts(opened.graph)
        picture(opened.title, draw(opened.graph, layouts, target), height=480)
    with operators:
        rows = [{"operator": op, "count": count} for op, count in summary.operators.items()]
        st.dataframe(rows, hide_index=True, height=420)
    with graph:
        rows = [
            {"kind": kind, "name": v.name, "type": v.type, "runs with": v.bound, "layout": v.layout}
            for kind, values in (("input", summary.inputs), ("output", summary.outputs))
            for v in values
        ]
        st.dataframe(rows, hide_index=True)


def _unknown(summary: Summary) -> str | None:
    if not summary.unknown_flops:
        return "Floating-point operations of one run; a multiply-add counts two."
    return f"{summary.unknown_flops:,} operators of unknown cost are not counted."


def _dims_form(opened: Opened) -> None:
    with st.form("dims_form"):
        st.caption("Symbolic dims: values for running and measuring. The exported file keeps them symbolic.")
        columns = st.columns(min(len(opened.graph.dims), 4))
        values = {}
        for index, (name, size) in enumerate(opened.graph.dims.items()):
            column = columns[index % len(columns)]
            values[name] = int(column.number_input(plain(name), value=size, min_value=1, step=1, key=f"dim_{name}"))
        if st.form_submit_button("Bind") and values != dict(opened.graph.dims):
            source = opened.graph.source or opened.path
            _opening(lambda: open_model(source, opened.title, values, opened.folder, opened.path))
            st.rerun()
