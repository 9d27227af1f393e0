"""Lanes: what running operators side by side could gain, lanes over time, beside the graph."""

from __future__ import annotations

import json
from threading import Event
from typing import Any

import streamlit as st

from workbench.api import DEFAULT_TARGET
from workbench.charts.lanes import lanes_chart
from workbench.errors import UserError
from workbench.ir import Graph
from workbench.layout.profile import load_profile
from workbench.run.measurement.lane_times import LANE_ROUNDS, RanOnLanes, lane_variants, ran_on_lanes
from workbench.streams.analysis import StreamsAnalysis, find_lanes
from workbench.ui.screens.memory_page import AS_LOADED, clicked_in, graphs_of
from workbench.ui.screens.run_page import worker_devices
from workbench.ui.state.graph_views import shown_graph
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.record_runs import measure_here
from workbench.ui.state.session import Opened, worker
from workbench.ui.state.shown_view import seen_in
from workbench.ui.state.work import Job, Report
from workbench.ui.widgets.graph_view import graph_view, selection
from workbench.ui.widgets.numbers import above_table, download_button, show_table, shown_csv
from workbench.ui.widgets.parts import header, opened_here, show_error
from workbench.ui.widgets.progress import result_if_any

_GRAPH = 520  # pixels of height


def lanes_page() -> None:
    opened = opened_here()
    if opened is None:
        return
    header(opened)
    graphs = graphs_of(opened)
    of = st.selectbox("Graph", list(graphs), key=f"lanes_of_{opened.number}") if len(graphs) > 1 else AS_LOADED
    graph = graphs[of]
    ran = _measured(opened, of, graph)
    streams_analysis: StreamsAnalysis = opened.plans.get(
        ("lanes", id(graph), id(ran)), lambda: find_lanes(graph, None if ran is None else ran.times_us)
    )
    key = f"lanes_graph_{opened.number}_{of}"
    picture, beside = st.columns(2, gap="medium")
    with picture:
        _picture(opened, streams_analysis, ran, key)
    with beside:
        _graph(opened, of, graph, key)


def _measured(opened: Opened, of: str, graph: Graph) -> RanOnLanes | None:
    """What was measured for this graph, on this page, if anything was."""
    kept = f"lanes_measured_{opened.number}_{of}"
    devices, press = st.columns([6, 1], vertical_alignment="center")
    names = [one["device"] for one in worker_devices()]
    if len(names) > 1:
        device = devices.selectbox("Device", names, key=f"{kept}_device")
    else:
        device = names[0]
        devices.caption(f"Operators can be measured on {device}, one by one and on lanes.")
    if press.button("Measure", key=f"{kept}_button", width="stretch"):
        finish = Event()

        def work(report: Report) -> None:
            measurement = measure_here(opened, lane_variants(graph), device, report, finish, repeat=LANE_ROUNDS)
            opened.on_lanes[of] = graph, ran_on_lanes(measurement)

        opened.jobs.start("lanes", Job(work, worker(), device, f"Measuring lanes of {opened.title}", finish=finish))
    try:
        result_if_any(opened.jobs, "lanes", "The measurement was cancelled; what is shown stays.")
    except UserError as error:
        show_error(error)
    measured, ran = opened.on_lanes.get(of, (None, None))
    return ran if measured is graph else None


def _picture(opened: Opened, streams_analysis: StreamsAnalysis, ran: RanOnLanes | None, key: str) -> None:
    sentences = streams_analysis.sentences if ran is None else (*streams_analysis.sentences, ran.sentence)
    for sentence in sentences:
        st.caption(markdown_escaped(f"{sentence[0].upper()}{sentence[1:].removesuffix('.')}."))
    if not streams_analysis.schedule.runs:
        return
    seen = seen_in(key).id
    st.plotly_chart(
        lanes_chart(streams_analysis, seen),
        key=f"lanes_chart_{opened.number}",
        on_select="rerun",
        selection_mode="points",
    )
    st.caption("The dotted line is the end of the longest path through the graph: no schedule ends before it.")
    rows = _rows(streams_analysis)
    words, as_csv, as_json = above_table([6, 2, 2])
    words.caption("Operators in the order of their launch")
    download_button(as_csv, "CSV", shown_csv(rows), "lanes.csv", "lanes_csv")
    download_button(as_json, "JSON", json.dumps(streams_analysis.to_json(), indent=1), "lanes.json", "lanes_json")
    show_table(rows, {"start (us)": 2, "end (us)": 2})


def _rows(streams_analysis: StreamsAnalysis) -> list[dict[str, Any]]:
    operators = streams_analysis.problem.operators
    return [
        {
            "operator": operators[run.operator].op,
            "name": operators[run.operator].name,
            "lane": run.lane,
            "start (us)": run.start_us,
            "end (us)": run.end_us,
            "bound by": "arithmetic" if streams_analysis.schedule.dependencies.computing[run.operator] else "memory",
        }
        for run in streams_analysis.schedule.runs
    ]


def _graph(opened: Opened, of: str, graph: Graph, key: str) -> None:
    """A click on a bar shows its operator; a click on an operator frames its bar."""
    shown = shown_graph(opened, of, graph, load_profile(DEFAULT_TARGET))
    clicked = clicked_in(f"lanes_chart_{opened.number}")
    if clicked and st.session_state.get(f"{key}_revealed") != clicked:
        st.session_state[f"{key}_revealed"] = clicked
        shown.reveal({"id": clicked})
    graph_view(key, shown, _GRAPH, follow=selection)
