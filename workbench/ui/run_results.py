"""What a measurement found: tables and charts of variants, of their operators, and of their memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from workbench.cli_bench import machine_words
from workbench.ui.parts import plain
from workbench.ui.session import Opened
from workbench.view.charts import latency_chart, memory_chart
from workbench.view.groups import scope_of
from workbench.view.operator_charts import roofline_chart, strip_chart

_SHOWN_REASONS = 5  # why nodes were left to ONNX Runtime
_ROW = 26  # pixels


def results(opened: Opened) -> None:
    """Everything that was measured last."""
    found = opened.measured
    ran = {label: variant for label, variant in found["variants"].items() if "failed" not in variant}
    first = next(iter(ran))
    for label, variant in ran.items():
        if label != first:
            st.markdown(f"**{plain(label)}** is {plain(speed_words(variant))} **{plain(first)}**.")
    for label, variant in found["variants"].items():
        if "failed" in variant:
            st.warning(plain(f"{label}: {variant['failed']}"), icon=":material/error:")
    if found["notes"]:
        st.caption(plain(" ".join(found["notes"])))
    rows = [_row(label, variant) for label, variant in ran.items()]
    st.dataframe(rows, hide_index=True, row_height=_ROW, column_config=_COLUMNS)
    charts, operators, memory = st.tabs(["Latency and memory", "Operators", "Memory at the peak"])
    with charts:
        _charts(ran)
    with operators:
        _operators(opened, ran, found["ceilings"])
    with memory:
        _at_peak(ran)
    st.caption(plain(machine_words(found["machine"])))


def _charts(variants: Mapping[str, Any]) -> None:
    left, right = st.columns(2)
    with left:
        st.caption("Latency: every repetition, quartiles and median")
        st.plotly_chart(latency_chart(variants), key="latency")
    with right:
        kinds = dict.fromkeys(variant["memory"]["kind"] for variant in variants.values())
        st.caption(f"Memory: {plain('; '.join(kinds))}")
        if any(variant["memory"].get("timeline") for variant in variants.values()):
            st.plotly_chart(memory_chart(variants), key="memory")
        else:
            st.caption("This backend gives the peak only, not the memory of each operator.")


_COLUMNS = {
    **{
        name: st.column_config.NumberColumn(format="%.3f")
        for name in ("median (ms)", "min (ms)", "p90 (ms)", "p99 (ms)", "ratio", "cold (ms)", "first result (s)")
    },
    **{
        name: st.column_config.NumberColumn(format="%.2f")
        for name in ("peak memory (MB)", "weights (MB)", "reserved (MB)", "process grew (MB)")
    },
}


def _row(label: str, variant: Mapping[str, Any]) -> dict[str, Any]:
    memory, largest = variant["memory"], (variant["error"] or {}).get("max_rel_error")
    row = {
        "variant": label,
        "median (ms)": variant["median_ms"],
        "min (ms)": variant["min_ms"],
        "p90 (ms)": variant["p90_ms"],
        "p99 (ms)": variant["p99_ms"],
        "ratio": variant["ratio"],
        "95 % between": f"{variant['ratio_low']:.2f} and {variant['ratio_high']:.2f}",
        "runs": len(variant["times_ms"]),
        "first result (s)": variant["first_result_s"],
        "peak memory (MB)": memory["peak_bytes"] / 1e6,
        "peak is of": memory["counted"],
        "weights (MB)": memory["weights_bytes"] / 1e6,
        "error against ONNX Runtime": "-" if largest is None else f"{largest:.1e}",
    }
    if variant["cold_median_ms"] is not None:
        row["cold (ms)"] = variant["cold_median_ms"]
    for key, name in (("reserved_bytes", "reserved (MB)"), ("process_bytes", "process grew (MB)")):
        if key in memory:
            row[name] = memory[key] / 1e6
    return row


def speed_words(variant: Mapping[str, Any]) -> str:
    """ "1.19x faster (95 % between 1.15x and 1.22x) than"; a ratio is of medians, this variant's to the first's."""
    ratio, low, high = variant["ratio"], variant["ratio_low"], variant["ratio_high"]
    if low <= 1 <= high:
        return f"not clearly faster or slower (ratio {ratio:.2f}, 95 % between {low:.2f} and {high:.2f}) than"
    if ratio < 1:
        return f"{1 / ratio:.2f}x faster (95 % between {1 / high:.2f}x and {1 / low:.2f}x) than"
    return f"{ratio:.2f}x slower (95 % between {low:.2f}x and {high:.2f}x) than"


def _operators(opened: Opened, variants: Mapping[str, Any], ceilings: Mapping[str, Mapping[str, float] | None]) -> None:
    label = st.selectbox("Variant", list(variants), key="operators_of", persist_state="session")
    variant = variants[label]
    fallbacks = variant["fallbacks"]
    if fallbacks:
        reasons = "; ".join(f"{what}: {why}" for what, why in list(fallbacks.items())[:_SHOWN_REASONS])
        st.caption(plain(f"Fell back: {reasons}" + (" ..." if len(fallbacks) > _SHOWN_REASONS else "")))
    st.caption(plain(variant["difference"]))
    graph = opened.measured_graphs.get(label)
    scopes = {} if graph is None else {node.name: scope_of(node) for node in graph.nodes}
    above = ", under the scopes that the exporter named" if any(scopes.values()) else ""
    st.caption(f"When each operator ran{above}")
    st.plotly_chart(strip_chart(variant["operators"], scopes), key="strip")
    roofs = ceilings[variant["dtype"]]
    roofline = None if roofs is None else roofline_chart(variant["operators"], roofs)
    if roofs is None:
        st.caption("What the device can do at most could not be measured, so there is no roofline.")
    elif roofline is None:
        st.caption("No operator of this backend's profile has a known count of operations, so there is no roofline.")
    else:
        st.caption("Roofline: each mark an operator, its size the time it takes; the roofs are measured on this device")
        st.plotly_chart(roofline, key="roofline")
    total = variant["sum_ms"] or 1.0
    ranked = sorted(variant["operators"], key=lambda op: -op["time_ms"])
    rows = [_operator_row(op, total, roofs) for op in ranked]
    height = min(300, _ROW * (len(rows) + 1) + 12)
    st.dataframe(rows, hide_index=True, row_height=_ROW, height=height, column_config=_OPERATOR_COLUMNS)


_OPERATOR_COLUMNS = {
    "time (ms)": st.column_config.NumberColumn(format="%.4f"),
    **{
        name: st.column_config.NumberColumn(format="%.1f")
        for name in ("share (%)", "GFLOP/s", "GB/s", "of the roof (%)", "allocated (kB)")
    },
}


def _operator_row(op: Mapping[str, Any], total_ms: float, roofs: Mapping[str, float] | None) -> dict[str, Any]:
    seconds = op["time_ms"] / 1e3
    flops, moved = (op.get(key) / seconds if op.get(key) and seconds else None for key in ("flops", "bytes"))
    shares = [
        reached / roofs[roof]
        for reached, roof in ((flops, "flops_per_s"), (moved, "bytes_per_s"))
        if roofs is not None and reached is not None
    ]
    allocated = op.get("allocated_bytes")
    return {
        "operator": op["op"],
        "name": op["name"],
        "time (ms)": op["time_ms"],
        "share (%)": 100 * op["time_ms"] / total_ms,
        "GFLOP/s": None if flops is None else flops / 1e9,
        "GB/s": None if moved is None else moved / 1e9,
        "of the roof (%)": 100 * max(shares) if shares else None,
        "allocated (kB)": None if allocated is None else allocated / 1e3,
    }


def _at_peak(variants: Mapping[str, Any]) -> None:
    known = {label: variant["memory"]["at_peak"] for label, variant in variants.items() if variant["memory"]["at_peak"]}
    if not known:
        st.caption("This backend does not tell what lives at its peak.")
        return
    label = st.selectbox("Variant", list(known), key="peak_of", persist_state="session")
    peak, weights = known[label], variants[label]["memory"]["weights_bytes"]
    size = sum(value["bytes"] for value in peak["values"]) + peak["others_bytes"]
    st.caption(
        plain(
            f"While {peak['op']} '{peak['name']}' runs, inputs and computed values take {size / 1e6:,.2f} MB, "
            f"weights {weights / 1e6:,.2f} MB besides."
        )
    )
    rows = [
        {
            "value": value["value"],
            "size (MB)": value["bytes"] / 1e6,
            "made by": value["made_by"] or "input of the model",
            "kept for": value["read_last_by"] or "the end: the caller holds it",
        }
        for value in peak["values"]
    ]
    if peak["others_bytes"]:
        rows.append({"value": "others", "size (MB)": peak["others_bytes"] / 1e6, "made by": "", "kept for": ""})
    st.dataframe(
        rows,
        hide_index=True,
        row_height=_ROW,
        column_config={"size (MB)": st.column_config.NumberColumn(format="%.3f")},
    )
