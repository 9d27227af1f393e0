"""Extract: a part of the open model as a model of its own, with real inputs; opened, optimized, and put back."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from workbench.api import DEFAULT_TARGET
from workbench.errors import UserError, counted
from workbench.layout.profile import load_profile
from workbench.reduction.extract import BeginsElsewhereError
from workbench.ui.state.extracting import Extracted, PutBack, bounds_of, extract_part, open_part, put_part_back
from workbench.ui.state.graph_views import shown_graph
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.session import Opened, open_model, worker
from workbench.ui.state.shown_view import seen_in
from workbench.ui.state.work import Job, forget_cancel
from workbench.ui.widgets.downloads import as_download
from workbench.ui.widgets.graph_view import graph_view, selection
from workbench.ui.widgets.parts import header, opened_here, opening, show_error
from workbench.ui.widgets.progress import result_if_any
from workbench.view.scopes import MAIN

_CUT, _BACK = "extract", "put_back"
_CANCELLED, _ALONE = "It was cancelled.", "Only this"


def extract_page(optimize: Any) -> None:
    """optimize: the page on which an opened part is optimized."""
    opened = opened_here()
    if opened is None:
        return
    header(opened)
    left, right = st.columns([1, 2], gap="medium")
    view = f"extract_{opened.number}"
    shown = shown_graph(opened, MAIN, opened.graph, load_profile(DEFAULT_TARGET))
    with right:
        graph_view(view, shown, 560, follow=selection)
    with left:
        if opened.part_of is not None:
            _of_whole(opened)
        selected = seen_in(view).id
        begins, ends = bounds_of(opened.graph, shown.view.root, selected)
        _choose(opened, selected, begins, ends)
        try:
            opened.extracted = result_if_any(opened.jobs, _CUT, _CANCELLED) or opened.extracted
        except BeginsElsewhereError as error:
            show_error(error)
            words = f"Begin at {', '.join(error.sources)}"
            key = _keys(opened)[0]
            st.button(markdown_escaped(words), key="begin_better", on_click=_set, args=(key, list(error.sources)))
        except UserError as error:
            show_error(error)
        if opened.extracted is not None:
            _extracted(opened, opened.extracted, optimize)


def _choose(opened: Opened, selected: str, begins: list[str], ends: list[str]) -> None:
    """Where the part begins and ends, by selection or by name; and the button that cuts it out."""
    keys = _keys(opened)
    words = "Click a box: a part begins at what it reads, or ends at what it makes. A group is a part by itself."
    st.caption(markdown_escaped(f"Selected: {selected}") if begins or ends else words)
    one, two, three = st.columns(3)
    for place, label, values, enough in (
        (one, "Begin here", (begins, []), begins),
        (two, "End here", ([], ends), ends),
        (three, _ALONE, (begins, ends), ends),
    ):
        args = (keys, values, label == _ALONE)
        place.button(label, disabled=not enough, width="stretch", key=f"part_{label}", on_click=_take, args=args)
    sources, targets = (
        st.multiselect(
            words,
            st.session_state.get(key, []),
            key=key,
            accept_new_options=True,
            persist_state="session",
            placeholder=empty,
            help="Names of values; type one to add it.",
        )
        for words, key, empty in (
            ("It begins at", keys[0], "the model's inputs"),
            ("It ends at", keys[1], "click a box, or type a name"),
        )
    )
    weight: Literal["primary", "secondary"] = "primary" if targets else "secondary"
    if st.button("Cut it out", type=weight, disabled=not targets, width="stretch", key="cut_out"):
        forget_cancel(opened.jobs, _CUT)
        opened.extracted = None
        work = partial(extract_part, opened, sources, targets)
        opened.jobs.start(_CUT, Job(work, worker(), title="Cutting the part out"))


def _keys(opened: Opened) -> tuple[str, str]:
    """Of the fields for where a part of this model begins and ends."""
    return f"part_begins_{opened.number}", f"part_ends_{opened.number}"


def _set(key: str, values: list[str]) -> None:
    st.session_state[key] = values


def _take(keys: tuple[str, str], values: tuple[list[str], list[str]], alone: bool) -> None:
    """Add the values to those that are chosen; alone: in place of them."""
    for key, more in zip(keys, values, strict=True):
        before = [] if alone else st.session_state.get(key, [])
        st.session_state[key] = list(dict.fromkeys([*before, *more]))


def _extracted(opened: Opened, part: Extracted, optimize: Any) -> None:
    cut = part.cut
    between = f"It reads {', '.join(cut.inputs) or 'nothing'} and makes {', '.join(cut.outputs)}."
    st.markdown(f"**{counted(cut.nodes, 'node')}** of {cut.of:,}. {markdown_escaped(between)}")
    if cut.failure is not None:
        st.warning(markdown_escaped(f"Its inputs were not recorded, since the model does not run here: {cut.failure}"))
    model, numbers, use = st.columns(3)
    _download(model, "Model", part.model)
    if cut.has_inputs:
        _download(numbers, "Inputs", part.inputs)
    if use.button("Open it", key="open_part", width="stretch") and opening(partial(open_part, opened, part)):
        st.switch_page(optimize)


def _download(place: Any, label: str, file: Path) -> None:
    """A button for a file with what belongs to it: external data has the file's name and more."""
    files = sorted(file.parent.glob(f"{file.name}*"))
    place.download_button(
        label,
        lambda: as_download(files),
        file.name if len(files) == 1 else f"{file.name}.zip",
        "application/octet-stream",
        icon=":material/download:",
        key=f"download_{label}",
        width="stretch",
        on_click="ignore",
    )


# ---- the way back ------------------------------------------------------------------------


def _of_whole(opened: Opened) -> None:
    """What the open part was cut out of; puts it back as Optimize left it."""
    whole = opened.part_of
    assert whole is not None
    as_is = "as it was cut out" if opened.history is None else "as it is on Optimize"
    with st.container(border=True):
        begins = ", ".join(whole.sources) or "its inputs"
        st.markdown(markdown_escaped(f"A part of {whole.title}, from {begins} to {', '.join(whole.targets)}; {as_is}."))
        if st.button("Put it back", type="primary", width="stretch", key="put_it_back"):
            forget_cancel(opened.jobs, _BACK)
            opened.put_back = None
            opened.jobs.start(_BACK, Job(partial(put_part_back, opened), worker(), title="Putting the part back"))
        try:
            opened.put_back = result_if_any(opened.jobs, _BACK, _CANCELLED) or opened.put_back
        except UserError as error:
            show_error(error)
        if opened.put_back is not None:
            _put_back(opened, opened.put_back)


def _put_back(opened: Opened, back: PutBack) -> None:
    assert opened.part_of is not None
    st.markdown(markdown_escaped(f"The whole has {back.put.words}."))
    say = st.error if back.verdict.ok is False else st.success if back.verdict.ok else st.warning
    say(markdown_escaped(back.verdict.sentence))
    if back.verdict.ok is False:
        return
    save, use = st.columns(2)
    _download(save, "Whole", back.model)
    title = opened.part_of.title
    again = partial(
        open_model, str(back.model), f"{title}, part put back", opened.part_of.dims, back.folder, "whole.onnx"
    )
    if use.button("Open the whole", key="open_whole", width="stretch") and opening(again):
        st.rerun()
