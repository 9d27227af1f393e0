"""The page Open: the choice of a sample, an upload or a path; its summary, symbolic dims and graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

import streamlit as st
from streamlit.navigation.page import Page

from workbench.errors import UserError, counted
from workbench.formats.io.samples import Sample, samples
from workbench.interfaces.lessons import shipped_lessons
from workbench.interfaces.ui.server.origin_guard import listens_beyond_this_machine
from workbench.interfaces.ui.state.address import address_of
from workbench.interfaces.ui.state.graph_views import shown_graph
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.model_inputs import declare_layouts, use_inputs
from workbench.interfaces.ui.state.session import Opened, current, open_model, worker
from workbench.interfaces.ui.state.uploads import LIMIT_BYTES, forget_uploads, kept_uploads
from workbench.interfaces.ui.state.work import was_cancelled
from workbench.interfaces.ui.widgets.controls import begin_from_link, forget_samples_settings
from workbench.interfaces.ui.widgets.file_drop import open_files
from workbench.interfaces.ui.widgets.graph_view import graph_view
from workbench.interfaces.ui.widgets.parts import (
    header,
    opened_here,
    opening,
    pane,
    say_changed_dims,
    show_error,
    warnings,
)
from workbench.interfaces.ui.widgets.progress import run_with_progress
from workbench.interfaces.ui.widgets.steps import look_from_link
from workbench.interfaces.ui.widgets.tables import table
from workbench.interfaces.ui.widgets.units import in_units, short_count
from workbench.planning.layout.declared import declared_layouts, layouts_of_rank
from workbench.planning.layout.infer import TENSOR
from workbench.presentation.explanations.summary import Summary
from workbench.presentation.view.scopes import MAIN, all_graphs

_OPEN_GROUPS = 2  # the others are collapsed
_BOUND = "dims_bound"  # key in the session: the number of the model whose dims the user entered last
_TRY = "try_dims"  # key of the job that runs the model with them
_UPLOADS = "uploads_done"  # number of opened uploads; part of the field's key, so that each upload empties the field


_WELCOME = (
    "**Graph Workbench** opens a neural network, shows what every optimization does to its graph and why, checks that "
    "it still computes the same, measures what that gains, and exports it."
)
_FIRST = (
    "Choose a model here, or drop a file anywhere on this window; its graph is drawn beside. "
    "Then press **Next** at the top: 2 Optimize, 3 Measure, 4 Export. The pages after these four are tools."
)


def open_page(
    optimize: Page | None = None, pages: Mapping[str, Page] | None = None, lessons: Page | None = None
) -> None:
    """Draw the page.

    optimize: the page on which samples with passes open; None: they open here.
    pages:    other pages on which samples open, by their names in the list of samples.
    lessons:  the page Learn, for a link to it.
    """
    top = st.container()
    top.markdown(f"{_WELCOME} {_FIRST}")
    if lessons is not None:
        label = f"New here? Learn has {len(shipped_lessons())} lessons, each one idea on a graph of a few nodes."
        with top.container(key="learn_link"):
            st.page_link(lessons, label=label, icon=":material/school:")
    left, right = st.columns([2, 3], gap="medium")
    with left:
        _choose(optimize, pages or {})
    with top:  # shows why a link does not open
        opened = opened_here()
    if opened is None:
        return
    with right:
        _describe(opened)


def _choose(optimize: Page | None, pages: Mapping[str, Page]) -> None:
    sample, upload, path = st.tabs(["Samples", "Upload", "Path"])
    with sample, pane("samples", 570, border=False):
        for number, (group, entries) in enumerate(groupby(samples(), lambda sample: sample.group)):
            if number == 1:
                st.caption("Graphs of lessons: one idea each, opened with the passes and the profile that show it.")
            _cards(group, list(entries), optimize, pages, number < _OPEN_GROUPS)
    with upload:
        files = st.file_uploader(
            "A model (.onnx, .pt2, ONNX text), together with its external data files if it has any",
            accept_multiple_files=True,
            key=f"uploads_{st.session_state.setdefault(_UPLOADS, 0)}",
        )
        if files:
            st.session_state[_UPLOADS] += 1
            open_files(files)
            st.rerun()
        _kept_uploads()
    with path, st.form("path_form", border=False):
        entered = st.text_input("Path of a model on this machine", key="path")
        if st.form_submit_button("Open path"):
            forget_samples_settings()
            opening(lambda: open_model(entered.strip(), entered.strip().rpartition("/")[2] or "(no path)"))


def _kept_uploads() -> None:
    """Say what is kept of earlier uploads, with a button that removes it where one person uses the app."""
    kept = kept_uploads()
    limit = in_units(LIMIT_BYTES, "B")
    text = f"Uploads are kept on this machine, up to {limit}, so that links to them open in any tab"
    if not kept.number:
        st.caption(f"{text}.")
        return
    said, button = st.columns([5, 2], vertical_alignment="center")
    said.caption(f"{text}: {counted(kept.number, 'upload')}, {in_units(kept.bytes, 'B')}.")
    if not listens_beyond_this_machine():
        button.button("Remove them", key="forget_uploads", width="stretch", on_click=forget_uploads)


def _cards(
    group: str, entries: Sequence[Sample], optimize: Page | None, pages: Mapping[str, Page], is_open: bool
) -> None:
    """Draw a section with a card for each sample of a group."""
    with st.expander(f"{group} ({len(entries)})", key=f"samples_{group}", expanded=is_open):
        for entry in entries:
            with st.container(border=True, key=f"card_{entry.file.stem}"):
                text, button = st.columns([5, 1], vertical_alignment="center")
                text.markdown(f"**{markdown_escaped(entry.title)}**  \n:small[{markdown_escaped(entry.description)}]")
                if button.button("Open", key=f"sample_{entry.file.stem}", width="stretch"):
                    _open_sample(entry, optimize, pages)


def _open_sample(entry: Sample, optimize: Page | None, pages: Mapping[str, Page]) -> None:
    forget_samples_settings()
    done = opening(partial(open_model, str(entry.file), entry.title, entry.dims, opened_with=entry.shows))
    if done and entry.shows is not None and optimize is not None:
        begin_from_link()
        look_from_link()
        st.switch_page(optimize, query_params=address_of(entry.shows))
    if done and entry.page in pages:
        st.switch_page(pages[entry.page])


def _describe(opened: Opened) -> None:
    summary = opened.summary
    header(opened)
    warnings(opened.graph.warnings)
    numbers = st.container(horizontal=True, gap="large")
    numbers.metric("Nodes", f"{summary.nodes:,}", width="content")
    numbers.metric("Parameters", short_count(summary.parameters), width="content")
    numbers.metric("Weights", in_units(summary.weight_bytes, "B"), width="content")
    known = in_units(summary.flops, "FLOP")
    one_run = f"{known} and more" if summary.unknown_flops else known
    moved = f"They move {summary.elements_moved:,} elements."
    numbers.metric("One run", one_run, help=_unknown(summary), width="content")
    numbers.metric("Transposes", f"{summary.transposes:,}", help=moved, width="content")
    opset_help = f"Of the file. The graph is shown in opset {summary.opset}, and written in the lowest that it needs."
    numbers.metric("Opset", f"{summary.file_opset}", help=opset_help, width="content")
    with st.container():  # so that the view below is not mounted again when a message or a spinner disappears
        if opened.graph.dims:
            _dims_form(opened)
    tabs = ["Graph", f"Operators ({len(summary.operators):,})", "Inputs and outputs"]
    about, operators, values = st.tabs(tabs)
    with about:
        target = opened.profile
        inner = all_graphs(opened.graph)
        scope = st.selectbox("Graph shown", list(inner), key=f"inner_{opened.number}") if len(inner) > 1 else MAIN
        graph = inner[scope]
        height = (
            500 - (70 if len(inner) > 1 else 0) - (120 if opened.graph.dims else 0) - 60 * len(opened.graph.warnings)
        )
        graph_view(f"loaded_{opened.number}", shown_graph(opened, scope, graph, target), max(height, 300))
    with operators:
        if summary.not_native:
            st.caption(
                markdown_escaped(f"The torch executor runs these in ONNX Runtime: {', '.join(summary.not_native)}.")
            )
        rows = [{"operator": op, "count": count} for op, count in summary.operators.items()]
        table(rows, max_rows=15)
    with values:
        rows = [
            {"kind": kind, "name": v.name, "type": v.type, "runs with": v.bound, "layout": v.layout}
            for kind, described in (("input", summary.inputs), ("output", summary.outputs))
            for v in described
        ]
        table(rows)
        _layouts_form(opened)
        _inputs_form(opened)


def _layouts_form(opened: Opened) -> None:
    """Draw a form for inputs whose layout does not follow from the operators that read them."""
    declared = declared_layouts(opened.graph)
    entries = {value.name: value.layout for value in opened.summary.inputs}
    possible = {name: layouts_of_rank(opened.graph.rank_of(name)) for name in entries}
    undetermined = [
        name for name, layout in entries.items() if possible[name] and (layout == TENSOR or name in declared)
    ]
    if not undetermined:
        return
    with st.form(f"layouts_form_{opened.number}"):
        st.caption("The layout of these inputs does not follow from the operators that read them; you can declare it.")
        *columns, press = st.columns(5, vertical_alignment="bottom")
        chosen = {}
        for index, name in enumerate(undetermined):
            field, choices = columns[index % len(columns)], (TENSOR, *possible[name])
            now = choices.index(declared.get(name, TENSOR))
            chosen[name] = field.selectbox(markdown_escaped(name), choices, now, key=f"layout_{opened.number}_{name}")
        layouts = {name: layout for name, layout in chosen.items() if layout != declared.get(name, TENSOR)}
        if press.form_submit_button("Declare") and layouts and opening(lambda: declare_layouts(opened, layouts)):
            st.rerun()


def _inputs_form(opened: Opened) -> None:
    """Draw a form for the inputs on which the model is compared and measured."""
    now = f"your own '{opened.inputs}'" if opened.inputs else f"generated with seed {opened.seed}"
    st.caption(markdown_escaped(f"Inputs for comparing and measuring: {now}."))
    with st.form(f"inputs_form_{opened.number}"):
        file = st.file_uploader("Your own inputs: an .npz file with one array per input", key=f"npz_{opened.number}")
        left, right = st.columns([3, 1], vertical_alignment="bottom")
        seed = left.number_input("Seed of generated inputs", 0, 2**31 - 1, opened.seed, key=f"seed_{opened.number}")
        if right.form_submit_button("Use", width="stretch") and opening(lambda: use_inputs(opened, file, int(seed))):
            st.rerun()


def _unknown(summary: Summary) -> str:
    text = "Floating-point operations of one run; a multiply-add counts as two."
    if not summary.unknown_flops:
        return text
    return f"{text} {summary.unknown_flops:,} operators of unknown cost are not counted."


def _dims_form(opened: Opened) -> None:
    """Draw the fields for the symbolic dims of this model."""
    with st.form("dims_form"):
        st.caption("Symbolic dims: values for running and measuring. The exported file keeps them symbolic.")
        *columns, press = st.columns(5, vertical_alignment="bottom")
        values = {}
        for index, (name, size) in enumerate(opened.graph.dims.items()):
            field = columns[index % len(columns)].number_input(
                markdown_escaped(name), value=size, min_value=1, step=1, key=f"dim_{opened.number}_{name}"
            )
            values[name] = int(field)
        if press.form_submit_button("Bind") and values != dict(opened.graph.dims):
            source = opened.graph.source or opened.path
            reopen = partial(
                open_model, source, opened.title, values, opened.folder, opened.path, upload_key=opened.upload_key
            )
            if opening(reopen):
                st.session_state[_BOUND] = current().number
                st.rerun()
    if st.session_state.get(_BOUND) == opened.number:
        _try_dims(opened)


def _try_dims(opened: Opened) -> None:
    """Run the model once with the sizes that the user entered, and say here if it does not run with them."""
    if was_cancelled(opened.jobs, _TRY):
        st.caption("The run with these sizes was cancelled; Optimize runs the model again.")
        return
    run = lambda report: opened.verifier.reference  # noqa: E731
    try:
        run_with_progress(opened.jobs, _TRY, "Running once with these sizes", run, worker())
    except UserError as error:
        sizes = ", ".join(f"{name} = {size}" for name, size in opened.user_dims.items())
        reason = str(error).removeprefix("The run failed: ").rstrip(".")
        show_error(f"The model does not run with {sizes}; bind other sizes. {reason}.")
        return
    say_changed_dims(opened)
