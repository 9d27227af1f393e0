"""The page Streams: what concurrent operators could gain, and the schedule of the streams beside the graph."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.screens.memory_page import AS_OPENED, clicked_in, graphs_of
from workbench.interfaces.ui.screens.run_page import worker_devices
from workbench.interfaces.ui.state.graph_views import shown_graph
from workbench.interfaces.ui.state.lru import Recent
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.record_runs import measure_here
from workbench.interfaces.ui.state.session import Opened, worker
from workbench.interfaces.ui.state.shown_view import seen_in
from workbench.interfaces.ui.state.work import Job, Report
from workbench.interfaces.ui.widgets.graph_view import graph_view, selection
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.numbers import above_table, download_button, show_table, shown_csv
from workbench.interfaces.ui.widgets.parts import header, show_error
from workbench.interfaces.ui.widgets.progress import result_if_any
from workbench.ir import Graph
from workbench.planning.streams.analysis import StreamsAnalysis, analyze_streams
from workbench.planning.streams.problem import GPU_MODEL
from workbench.presentation.charts.streams import streams_chart
from workbench.run.measurement.stream_times import STREAM_ROUNDS, RanOnStreams, ran_on_streams, stream_variants

_GRAPH = 520  # pixels of height
_MAX_ANALYSES = 6


@dataclass
class StreamsOfModel(ModelState):
    """Analyses of graphs, and their measurements by the graph's name on screen."""

    outlives_inputs = True

    analyses: Recent[StreamsAnalysis] = field(default_factory=lambda: Recent(_MAX_ANALYSES))
    ran: dict[str, tuple[Graph, RanOnStreams | None]] = field(default_factory=dict)


def streams_page() -> None:
    opened = optimized_here()
    if opened is None:
        return
    header(opened)
    graphs = graphs_of(opened)
    graph_name = AS_OPENED
    if len(graphs) > 1:
        graph_name = st.selectbox("Graph", list(graphs), len(graphs) - 1, key="streams_graph", bind="query-params")
    graph = graphs[graph_name]
    ran = _measured(opened, graph_name, graph)
    key = f"streams_graph_{opened.number}_{graph_name}"
    if ran is None and not _takes_model():
        _graph(opened, graph_name, graph, key)
        return
    analysis = opened.state(StreamsOfModel).analyses.get(
        (id(graph), id(ran)), lambda: analyze_streams(graph, None if ran is None else ran.times_us)
    )
    picture_column, graph_column = st.columns(2, gap="medium")
    with picture_column:
        _schedule(opened, analysis, ran, key)
    with graph_column:
        _graph(opened, graph_name, graph, key)


def _takes_model() -> bool:
    """Whether times of a modelled GPU are shown before any is measured: where there is a GPU, or if the user asks."""
    if any(device["device"].startswith("cuda") for device in worker_devices()):
        return True
    text, choice = st.columns([6, 2], vertical_alignment="center")
    text.caption(f"Measure the operators here to see their schedule, or take the times of a model of {GPU_MODEL.name}.")
    return choice.toggle(f"Model of {GPU_MODEL.name}", key="streams_model", bind="query-params")


def _measured(opened: Opened, graph_name: str, graph: Graph) -> RanOnStreams | None:
    """Draw the button that measures the graph on streams; returns the last measurement, or None."""
    key = f"streams_measured_{opened.number}_{graph_name}"
    devices, press = st.columns([6, 1], vertical_alignment="center")
    names = [device["device"] for device in worker_devices()]
    if len(names) > 1:
        device = devices.selectbox("Device", names, key=f"{key}_device")
    else:
        device = names[0]
        devices.caption(f"Operators can be measured on {device}, one by one and on streams.")
    if press.button("Measure", key=f"{key}_button", width="stretch"):
        finish = Event()

        def work(report: Report) -> None:
            measurement = measure_here(opened, stream_variants(graph), device, report, finish, repeat=STREAM_ROUNDS)
            opened.state(StreamsOfModel).ran[graph_name] = graph, ran_on_streams(measurement)

        opened.jobs.start("streams", Job(work, worker(), device, f"Measuring streams of {opened.title}", finish=finish))
    try:
        result_if_any(opened.jobs, "streams", "The measurement was cancelled; the shown numbers stay.")
    except UserError as error:
        show_error(error)
    measured, ran = opened.state(StreamsOfModel).ran.get(graph_name, (None, None))
    return ran if measured is graph else None


def _schedule(opened: Opened, analysis: StreamsAnalysis, ran: RanOnStreams | None, key: str) -> None:
    sentences = analysis.sentences if ran is None else (ran.sentence, *analysis.sentences)
    for sentence in sentences:
        st.caption(markdown_escaped(f"{sentence[0].upper()}{sentence[1:].removesuffix('.')}."))
    if not analysis.schedule.runs:
        return
    seen = seen_in(key).id
    st.plotly_chart(
        streams_chart(analysis, seen),
        key=f"streams_chart_{opened.number}",
        on_select="rerun",
        selection_mode="points",
    )
    st.caption("The dotted line is the end of the longest path through the graph; no schedule ends before it.")
    rows = _rows(analysis)
    text, as_csv, as_json = above_table([6, 2, 2])
    text.caption("Operators in the order of their launch")
    download_button(as_csv, "CSV", shown_csv(rows), "streams.csv", "streams_csv")
    download_button(as_json, "JSON", json.dumps(analysis.to_json(), indent=1), "streams.json", "streams_json")
    show_table(rows, {"start (us)": 2, "end (us)": 2})


def _rows(analysis: StreamsAnalysis) -> list[dict[str, Any]]:
    operators = analysis.problem.operators
    return [
        {
            "operator": operators[run.operator].op,
            "name": operators[run.operator].name,
            "stream": run.stream,
            "start (us)": run.start_us,
            "end (us)": run.end_us,
            "bound by": "arithmetic" if analysis.schedule.dependencies.computing[run.operator] else "memory",
        }
        for run in analysis.schedule.runs
    ]


def _graph(opened: Opened, graph_name: str, graph: Graph, key: str) -> None:
    """Draw the graph; a click on a bar shows its operator, a click on an operator frames its bar."""
    shown = shown_graph(opened, graph_name, graph, opened.profile)
    clicked = clicked_in(f"streams_chart_{opened.number}")
    if clicked and st.session_state.get(f"{key}_revealed") != clicked:
        st.session_state[f"{key}_revealed"] = clicked
        shown.reveal({"id": clicked})
    graph_view(key, shown, _GRAPH, follow=selection)
