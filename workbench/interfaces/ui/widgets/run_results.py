"""The results of a measurement: tables and charts of variants, their operators and their memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from workbench.backends.profiling.ceilings import Roofs
from workbench.backends.profiling.profile_result import OperatorRun
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import MeasuredHere, Opened
from workbench.interfaces.ui.widgets.kernels import kernels_of
from workbench.interfaces.ui.widgets.numbers import (
    comparison,
    download_button,
    measured_cells,
    measured_columns,
    say_failures,
    show_table,
    shown_csv,
)
from workbench.interfaces.ui.widgets.time_changes import show_time_changes
from workbench.ir import Graph
from workbench.presentation.charts.operators import counted_operators, roofline_chart, strip_chart
from workbench.presentation.charts.variants import latency_chart, memory_chart
from workbench.presentation.view.groups import scope_of
from workbench.run.measurement.formatting import (
    compared_backends,
    compared_pipelines,
    fastest_variant,
    figures,
    machine_text,
)
from workbench.run.measurement.measurement_result import MeasuredVariant
from workbench.run.measurement.notes import busy_notes
from workbench.run.measurement.trace import trace_document

_SHOWN_REASONS = 5  # reasons for which nodes fell back to ONNX Runtime
_FIELD_AND_BUTTON = [6, 1]  # widths of a field and of the button beside it


def results(opened: Opened, measured: MeasuredHere, optimize: Any) -> None:
    """Draw the results of a measurement."""
    measurement = measured.measurement
    ran = measurement.ran
    if fastest := fastest_variant(ran):
        st.markdown(f"Fastest here: {comparison(*fastest)}")
    for compared in compared_pipelines(ran):
        st.markdown(comparison(*compared))
    if backends := compared_backends(ran):
        sentences = " ".join(comparison(*compared) for compared in backends)
        st.caption(f"Backends and precisions compared: {sentences}")
    for label, variant in ran.items():
        if variant.streams is not None:
            st.caption(markdown_escaped(f"{label}: {variant.streams.sentence}."))
    say_failures(measurement.failures.items())
    for note in measurement.notes:
        st.caption(markdown_escaped(note))
    rows = [{"variant": label, **measured_cells(figures(variant))} for label, variant in ran.items()]
    show_table(rows, first=("variant", *measured_columns(rows), "error against ONNX Runtime"))
    names = ["Where the time went", "Latency and memory", "Operators", "Memory at the peak"]
    with_kernels = {label: variant for label, variant in ran.items() if variant.kernels}
    changes, charts, operators, memory, *more = st.tabs([*names, "Kernels"] if with_kernels else names, key="run_tabs")
    with changes:
        show_time_changes(opened, measured, optimize)
    with charts:
        _charts(ran)
    with operators:
        _operators(opened, measured)
    with memory:
        _at_peak(ran)
    for tab in more:
        with tab:
            kernels_of(with_kernels)
    machine, as_csv, as_json, as_trace = st.columns([9, 2, 2, 3], vertical_alignment="center")
    machine.caption(markdown_escaped(machine_text(measurement.machine)))
    download_button(as_csv, "CSV", shown_csv(rows), "run.csv", "run_csv")
    download_button(as_json, "JSON", json.dumps(measurement.to_json(), indent=1), "run.json", "run_json")
    trace = json.dumps(trace_document(measurement, measured.graphs))
    download_button(as_trace, "Trace (Perfetto)", trace, "trace.json", "run_trace")
    kinds = dict.fromkeys((v.memory.counted, v.memory.kind) for v in ran.values())
    st.caption(markdown_escaped("Peak memory covers " + "; ".join(f"{short}: {kind}" for short, kind in kinds) + "."))


def _charts(variants: Mapping[str, MeasuredVariant]) -> None:
    left, right = st.columns(2)
    with left:
        if busy_notes(variants):
            st.caption("The machine was busy, so the latencies are not drawn beside each other.")
        else:
            st.caption("Latency: all repetitions, quartiles and median")
            times = {label: variant.times_ms for label, variant in variants.items()}
            st.plotly_chart(latency_chart(times), key="latency")
    with right:
        timelines = {label: variant.memory.timeline for label, variant in variants.items()}
        if any(timelines.values()):
            st.caption("Memory while each operator runs, without weights")
            st.plotly_chart(memory_chart(timelines), key="memory")
        else:
            st.caption("This backend reports only the peak, not the memory of each operator.")


# ---- operators ---------------------------------------------------------------------------


def _operators(opened: Opened, measured: MeasuredHere) -> None:
    variants = measured.measurement.ran
    choose, as_csv = st.columns(_FIELD_AND_BUTTON, vertical_alignment="bottom")
    label = choose.selectbox("Variant", list(variants), key="operators_of", persist_state="session")
    variant, graph = variants[label], measured.graphs.get(label)
    operators = _with_bodies(variant.operators, graph)
    st.markdown(markdown_escaped(variant.difference))
    _say_fallbacks(variant.fallbacks)
    scopes = {} if graph is None else {node.name: scope_of(node) for node in graph.nodes}
    under_scopes = ", under the exporter's scopes" if any(scopes.values()) else ""
    on_graph = opened.history is not None and measured.spec == opened.spec
    colour_hint = " To see the times on the graph, choose Latency above the graph of Optimize." if on_graph else ""
    st.caption(f"When each operator ran{under_scopes}.{colour_hint}")
    st.plotly_chart(strip_chart(operators, scopes, variant.launching_ms), key="strip")
    _roofline(operators, measured.measurement.ceilings[variant.dtype])
    total = variant.sum_ms or 1.0
    rows = [_operator_row(op, total) for op in sorted(operators, key=lambda op: -op.time_ms)]
    st.caption("All operators, the slowest first")
    show_table(
        rows, _OPERATOR_DECIMALS, first=("operator", "name", "time (ms)", "share (%)", "share of the roofline (%)")
    )
    download_button(as_csv, "CSV", shown_csv(rows), "operators.csv", "operators_csv")


def _with_bodies(operators: Sequence[OperatorRun], graph: Graph | None) -> list[OperatorRun]:
    """The operators, where the names of If, Loop and Scan say that their times include their bodies."""
    with_bodies = set() if graph is None else {node.name for node in graph.nodes if node.bodies}
    return [replace(op, op=f"{op.op} with its body") if op.name in with_bodies else op for op in operators]


def _say_fallbacks(fallbacks: Mapping[str, str]) -> None:
    if not fallbacks:
        return
    reasons = "; ".join(f"{what}: {why}" for what, why in list(fallbacks.items())[:_SHOWN_REASONS])
    st.caption(markdown_escaped(f"Fell back: {reasons}" + (" ..." if len(fallbacks) > _SHOWN_REASONS else "")))


def _roofline(operators: Sequence[OperatorRun], roofs: Roofs | None) -> None:
    with_flops = counted_operators(operators)
    if roofs is None:
        st.caption("The device's peak rates could not be measured, so there is no roofline.")
        return
    if not with_flops:
        st.caption("No operator of this backend's profile has a known count of operations, so there is no roofline.")
        return
    share = sum(op.time_ms for op in with_flops) / (sum(op.time_ms for op in operators) or 1.0)
    st.caption(
        "Roofline: each mark is an operator, and its size is the operator's time. The roofs are measured on this "
        "device, the slanted one with operands larger than the caches; operands of a mark above it are in a cache. "
        f"{len(with_flops):,} of {len(operators):,} operators have a known count of operations; "
        f"they take {100 * share:.1f} % of the time."
    )
    st.plotly_chart(roofline_chart(with_flops, roofs), key="roofline")


_OPERATOR_DECIMALS = {
    "time (ms)": 4,
    "share (%)": 1,
    "GFLOP/s": 1,
    "GB/s": 1,
    "share of the roofline (%)": 1,
    "allocated (kB)": 1,
}


def _operator_row(op: OperatorRun, total_ms: float) -> dict[str, Any]:
    seconds = op.time_ms / 1e3
    flops, bandwidth = (amount / seconds if amount and seconds else None for amount in (op.flops, op.bytes))
    share, allocated = op.of_roof, op.allocated_bytes
    return {
        "operator": op.op,
        "name": op.name,
        "time (ms)": op.time_ms,
        "share (%)": 100 * op.time_ms / total_ms,
        "GFLOP/s": None if flops is None else flops / 1e9,
        "GB/s": None if bandwidth is None else bandwidth / 1e9,
        "share of the roofline (%)": None if share is None else 100 * share,
        "allocated (kB)": None if allocated is None else allocated / 1e3,
    }


# ---- memory ------------------------------------------------------------------------------


def _at_peak(variants: Mapping[str, MeasuredVariant]) -> None:
    known = {label: variant.memory.at_peak for label, variant in variants.items() if variant.memory.at_peak}
    if not known:
        st.caption("This backend does not report which values are live at the peak.")
        return
    choose, as_csv = st.columns(_FIELD_AND_BUTTON, vertical_alignment="bottom")
    label = choose.selectbox("Variant", list(known), key="peak_of", persist_state="session")
    peak, weights = known[label], variants[label].memory.weights_bytes
    size = sum(value.bytes for value in peak.values) + peak.others_bytes
    st.markdown(
        markdown_escaped(
            f"While {peak.op} '{peak.name}' runs, inputs and computed values take {size / 1e6:,.3f} MB; "
            f"weights take another {weights / 1e6:,.3f} MB."
        )
    )
    rows = [
        {
            "value": value.value,
            "size (MB)": value.bytes / 1e6,
            "made by": value.made_by or "input of the model",
            "kept for": value.read_last_by or "the end: the caller holds it",
        }
        for value in peak.values
    ]
    if peak.others_bytes:
        rows.append({"value": "others", "size (MB)": peak.others_bytes / 1e6, "made by": "", "kept for": ""})
    show_table(rows, {"size (MB)": 3})
    download_button(as_csv, "CSV", shown_csv(rows), "memory_at_peak.csv", "peak_csv")
