"""The page Precision: which operators lose the accuracy in float16, bfloat16 or int8, beside the graph."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.screens.memory_page import graphs_of
from workbench.interfaces.ui.state.graph_views import shown_graph
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.session import Opened, worker
from workbench.interfaces.ui.state.work import Job, Report
from workbench.interfaces.ui.widgets.graph_view import graph_view
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.numbers import download_button, shown_csv
from workbench.interfaces.ui.widgets.parts import header, show_error
from workbench.interfaces.ui.widgets.progress import result_if_any
from workbench.interfaces.ui.widgets.tables import table
from workbench.ir import Graph
from workbench.presentation.view.node_numbers import Column, NodeNumbers
from workbench.run.precision_effects import (
    EFFECT_TYPES,
    Effect,
    by_loss,
    loss_sentence,
    loss_text,
    precision_effects,
    without_effect,
)

_GRAPH = 520  # pixels of height
_ROWS = 16
_TYPE_HELP = "int8: as ONNX Runtime's static quantizer does it, with a scale for each channel of a weight."
_COLUMNS = {
    "alone": st.column_config.TextColumn(
        alignment="right",
        help="Error of its results, relative to their largest magnitude, if this operator alone runs in the type.",
    ),
    "cumulative": st.column_config.TextColumn(
        alignment="right", help="The same if all operators before it run in the type too."
    ),
    "max |value|": st.column_config.NumberColumn(
        format="%.3g", help="Largest magnitude of its results in float32; float16 ends at 65,504."
    ),
}


@dataclass
class PrecisionEffects(ModelState):
    """What was measured, by the graph's name on screen and the type: the graph, its operators, and their colours."""

    measured: dict[tuple[str, str], tuple[Graph, Sequence[Effect], NodeNumbers]] = field(default_factory=dict)


def precision_page() -> None:
    opened = optimized_here()
    if opened is None:
        return
    header(opened)
    graphs = graphs_of(opened)
    of, narrow_column, press = st.columns([4, 2, 2], vertical_alignment="bottom")
    name = of.selectbox("Graph", list(graphs), key="precision_graph", bind="query-params")
    narrow = narrow_column.selectbox("Type", EFFECT_TYPES, key="precision_type", help=_TYPE_HELP, bind="query-params")
    graph = graphs[name]
    if press.button("Run in both types", type="primary", width="stretch", key="precision_run"):
        opened.jobs.start("precision", _job(opened, name, graph, narrow))
    try:
        result_if_any(opened.jobs, "precision", "The run was cancelled; earlier results stay.")
    except UserError as error:
        show_error(error)
    measured, effects, numbers = opened.state(PrecisionEffects).measured.get((name, narrow), (None, (), None))
    shown = shown_graph(opened, name, graph, opened.profile)
    if measured is not graph:
        st.caption("One run says what each operator loses in the type, by itself and with all before it.")
        shown.show_numbers(None)
        graph_view(_key(opened, name), shown, _GRAPH)
        return
    st.markdown(markdown_escaped(f"{loss_sentence(graph, effects, narrow)}."))
    shown.show_numbers(numbers)
    left, right = st.columns([5, 7], gap="medium")
    with left:
        _table(opened, name, graph, by_loss(effects), narrow)
    with right:
        graph_view(_key(opened, name), shown, _GRAPH, with_computed=True)


def _job(opened: Opened, name: str, graph: Graph, narrow: str) -> Job[None]:
    def work(report: Report) -> None:
        report(f"running each operator in float32 and in {narrow}", None)
        verifier = opened.verifier
        inputs = verifier.inputs_of(graph)
        effects = precision_effects(graph, narrow, inputs=inputs, worker=verifier.worker, on_progress=report)
        opened.state(PrecisionEffects).measured[name, narrow] = graph, effects, _numbers(effects, narrow)

    return Job(work, worker(), title=f"Accuracy of {opened.title} in {narrow}")


def _numbers(effects: Sequence[Effect], narrow: str) -> NodeNumbers:
    """The errors as colourings of the graph."""

    def column(title: str, error_of: Callable[[Effect], float]) -> Column:
        words = {effect.node: loss_text(error_of(effect), effect.max_abs) for effect in effects}
        return Column(title, "", {effect.node: error_of(effect) for effect in effects}, words, logarithmic=True)

    columns = (column("error alone", lambda e: e.alone), column("error cumulative", lambda e: e.cumulative))
    return NodeNumbers(f"Accuracy in {narrow}", f"relative, in {narrow}", columns)


def _table(opened: Opened, name: str, graph: Graph, effects: list[Effect], narrow: str) -> None:
    """Draw the operators, those first that lose most by themselves; a click on a row shows its node in the graph."""
    rows = [
        {
            "alone": loss_text(effect.alone, effect.max_abs),
            "cumulative": loss_text(effect.cumulative, effect.max_abs),
            "max |value|": effect.max_abs,
            "operator": effect.op,
            "node": effect.node,
        }
        for effect in effects
    ]

    def show(row: int) -> None:
        shown_graph(opened, name, graph, opened.profile).reveal({"id": effects[row].node})

    key = f"precision_table_{opened.number}_{name}_{narrow}"
    table(rows, _COLUMNS, max_rows=_ROWS, key=key, on_click=show)
    text, as_csv, as_json = st.columns([6, 2, 2], vertical_alignment="center")
    others = len(graph) - len(effects)
    text.caption(f"{others:,} of {len(graph):,} operators have no row: {without_effect(narrow)}." if others else "")
    download_button(as_csv, "CSV", shown_csv(rows), "precision.csv", "precision_csv")
    listed = json.dumps([effect.to_json() for effect in effects], indent=1)
    download_button(as_json, "JSON", listed, "precision.json", "precision_json")


def _key(opened: Opened, name: str) -> str:
    return f"precision_graph_{opened.number}_{name}"
