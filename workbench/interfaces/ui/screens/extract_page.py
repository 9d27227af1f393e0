"""The page Extract: cuts a part out of the open model, with recorded inputs; opens it, and puts it back."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from workbench.errors import UserError, counted
from workbench.evidence.reduction.extract import OtherSourcesError
from workbench.interfaces.ui.state.extracting import (
    EXTRACT_FROM,
    Extracted,
    ExtractedParts,
    PutBack,
    bounds_of,
    extract_part,
    open_part,
    put_part_back,
)
from workbench.interfaces.ui.state.graph_views import shown_graph
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened, open_model, worker
from workbench.interfaces.ui.state.shown_view import Shown, seen_in
from workbench.interfaces.ui.state.work import Job, forget_cancel
from workbench.interfaces.ui.widgets.downloads import as_download
from workbench.interfaces.ui.widgets.graph_view import graph_view, selection
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.parts import header, opening, show_error
from workbench.interfaces.ui.widgets.progress import result_if_any
from workbench.presentation.view.scopes import MAIN

_CUT, _BACK = "extract", "put_back"
_CANCELLED, _ONLY_THIS = "It was cancelled.", "Only this"


def extract_page(optimize: Any) -> None:
    """optimize: the page on which an opened part is optimized."""
    opened = optimized_here()
    if opened is None:
        return
    header(opened)
    left, right = st.columns([1, 2], gap="medium")
    view = f"extract_{opened.number}"
    shown = shown_graph(opened, MAIN, opened.graph, opened.profile)
    asked = _begin_with(opened, shown)
    with right:
        graph_view(view, shown, 560, follow=selection)
    with left:
        if opened.part_of is not None:
            _whole_part(opened)
        selected = asked or seen_in(view).id
        begins, ends = bounds_of(opened.graph, shown.view.root, selected)
        _choose(opened, selected, begins, ends)
        extraction = opened.state(ExtractedParts)
        try:
            extraction.cut = result_if_any(opened.jobs, _CUT, _CANCELLED) or extraction.cut
        except OtherSourcesError as error:
            show_error(error)
            label = f"Begin at {', '.join(error.sources)}"
            key = _keys(opened)[0]
            st.button(
                markdown_escaped(label), key="begin_better", on_click=_set_values, args=(key, list(error.sources))
            )
        except UserError as error:
            show_error(error)
        if extraction.cut is not None:
            _extracted(opened, extraction.cut, optimize)


def _begin_with(opened: Opened, shown: Shown) -> str:
    """Show the box that was selected on Optimize, and take it as the part; its id, or "" if there was none."""
    asked: str = st.session_state.pop(EXTRACT_FROM, "")
    if not asked:
        return ""
    begins, ends = bounds_of(opened.graph, shown.view.root, asked)
    if not ends:
        text = "What you selected is not in the model as it was opened, of which a part is cut out: select a box here."
        st.info(text, icon=":material/info:")
        return ""
    shown.reveal({"id": asked})
    _add_values(_keys(opened), (begins, ends), replaces=True)
    return asked


def _choose(opened: Opened, selected: str, begins: list[str], ends: list[str]) -> None:
    """Draw the fields for the ends of the part, set by selection or by name, and the button that cuts it out."""
    keys = _keys(opened)
    hint = "Click a box: the part begins at values that it reads, or ends at those that it computes. A group is a part."
    st.caption(markdown_escaped(f"Selected: {selected}") if begins or ends else hint)
    first, second, third = st.columns(3)
    for column, label, values, values_here in (
        (first, "Begin here", (begins, []), begins),
        (second, "End here", ([], ends), ends),
        (third, _ONLY_THIS, (begins, ends), ends),
    ):
        args = (keys, values, label == _ONLY_THIS)
        column.button(
            label, disabled=not values_here, width="stretch", key=f"part_{label}", on_click=_add_values, args=args
        )
    sources, targets = (
        st.multiselect(
            label,
            st.session_state.get(key, []),
            key=key,
            accept_new_options=True,
            persist_state="session",
            placeholder=empty,
            help="Names of values; type one to add it.",
        )
        for label, key, empty in (
            ("It begins at", keys[0], "the model's inputs"),
            ("It ends at", keys[1], "click a box, or type a name"),
        )
    )
    button_type: Literal["primary", "secondary"] = "primary" if targets else "secondary"
    if st.button("Cut it out", type=button_type, disabled=not targets, width="stretch", key="cut_out"):
        forget_cancel(opened.jobs, _CUT)
        opened.state(ExtractedParts).cut = None
        work = partial(extract_part, opened, sources, targets)
        opened.jobs.start(_CUT, Job(work, worker(), title="Cutting the part out"))


def _keys(opened: Opened) -> tuple[str, str]:
    """The keys of the fields for the ends of the part."""
    return f"part_begins_{opened.number}", f"part_ends_{opened.number}"


def _set_values(key: str, values: list[str]) -> None:
    st.session_state[key] = values


def _add_values(keys: tuple[str, str], values: tuple[list[str], list[str]], replaces: bool) -> None:
    """Add the values to the fields. replaces: remove the present values."""
    for key, added in zip(keys, values, strict=True):
        present = [] if replaces else st.session_state.get(key, [])
        st.session_state[key] = list(dict.fromkeys([*present, *added]))


def _extracted(opened: Opened, part: Extracted, optimize: Any) -> None:
    cut = part.cut
    between = f"It reads {', '.join(cut.inputs) or 'nothing'} and computes {', '.join(cut.outputs)}."
    st.markdown(f"**{counted(cut.nodes, 'node')}** of {cut.whole_nodes:,}. {markdown_escaped(between)}")
    if cut.failure is not None:
        st.warning(markdown_escaped(f"Its inputs were not recorded, since the model does not run here: {cut.failure}"))
    model, numbers, use = st.columns(3)
    _download(model, "Model", part.model)
    if cut.has_inputs:
        _download(numbers, "Inputs", part.inputs)
    if use.button("Open it", key="open_part", width="stretch") and opening(partial(open_part, opened, part)):
        st.switch_page(optimize)


def _download(column: Any, label: str, file: Path) -> None:
    """Draw a button that downloads a file, with its external data, whose names begin with the file's name."""
    files = sorted(file.parent.glob(f"{file.name}*"))
    column.download_button(
        label,
        lambda: as_download(files),
        file.name if len(files) == 1 else f"{file.name}.zip",
        "application/octet-stream",
        icon=":material/download:",
        key=f"download_{label}",
        width="stretch",
        on_click="ignore",
    )


# ---- putting the part back ---------------------------------------------------------------


def _whole_part(opened: Opened) -> None:
    """Draw the whole model of the open part, and the button that puts the part back as it is on Optimize."""
    whole, extraction = opened.part_of, opened.state(ExtractedParts)
    assert whole is not None
    state = "as it was cut out" if opened.history is None else "as it is on Optimize"
    with st.container(border=True):
        begins = ", ".join(whole.sources) or "its inputs"
        st.markdown(markdown_escaped(f"A part of {whole.title}, from {begins} to {', '.join(whole.targets)}; {state}."))
        if st.button("Put it back", type="primary", width="stretch", key="put_it_back"):
            forget_cancel(opened.jobs, _BACK)
            extraction.put_back = None
            opened.jobs.start(_BACK, Job(partial(put_part_back, opened), worker(), title="Putting the part back"))
        try:
            extraction.put_back = result_if_any(opened.jobs, _BACK, _CANCELLED) or extraction.put_back
        except UserError as error:
            show_error(error)
        if extraction.put_back is not None:
            _put_back(opened, extraction.put_back)


def _put_back(opened: Opened, back: PutBack) -> None:
    assert opened.part_of is not None
    st.markdown(markdown_escaped(f"The whole has {back.put.summary}."))
    show = st.error if back.verdict.ok is False else st.success if back.verdict.ok else st.warning
    show(markdown_escaped(back.verdict.sentence))
    if back.verdict.ok is False:
        return
    save, use = st.columns(2)
    _download(save, "Whole", back.model)
    title = opened.part_of.title
    open_whole = partial(
        open_model, str(back.model), f"{title}, part put back", opened.part_of.dims, back.folder, "whole.onnx"
    )
    if use.button("Open the whole", key="open_whole", width="stretch") and opening(open_whole):
        st.rerun()
