"""Run: latency and memory of the original beside each step's result, on the GPU if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.rewrite import History
from workbench.run.measure import BACKENDS, DTYPES, measure_models
from workbench.ui.parts import header, opened_here, plain, show_error
from workbench.ui.session import Opened, worker
from workbench.ui.work import Report, forget_cancel, run_with_progress, was_cancelled
from workbench.view.charts import latency_chart, memory_chart

_ORIGINAL = "as loaded"
_SHOWN_REASONS = 5  # why nodes were left to ONNX Runtime


def run_page() -> None:
    opened = opened_here()
    if opened is None:
        return
    header(opened)
    try:
        found = devices()
    except UserError as error:
        show_error(error)
        st.button("Try again", key="devices_again")
        return
    _form(opened, found)
    if was_cancelled("measure"):
        st.info("The measurement was cancelled; what was measured before stays.", icon=":material/block:")
        forget_cancel("measure")
    if opened.measured:
        if opened.measured_spec != opened.spec:
            st.caption("Measured before the passes were changed; measure again for the steps as they are now.")
        _results(opened.measured)
    else:
        st.caption("Nothing is measured yet.")


@st.cache_data(show_spinner="Looking for devices")
def devices() -> list[dict[str, Any]]:
    """What the worker's machine can run on. Raises RunError where the worker does not answer."""
    return worker().request("devices")["devices"]


def _form(opened: Opened, found: list[dict[str, Any]]) -> None:
    choices = _choices(opened.history)
    names = [device["device"] for device in found]
    gpu = next((i for i, name in enumerate(names) if name.startswith("cuda")), None)
    if gpu is None:
        st.caption("There is no GPU here; runs are on the CPU.")
    if opened.history is None:
        st.caption("Nothing is optimized yet: Optimize gives steps to compare with.")
    with st.form("measure_form"):
        first, second, third, fourth = st.columns(4)
        device = first.selectbox("Device", names, index=gpu or 0, format_func=lambda n: _device_words(found, n))
        backend = second.selectbox("Backend", BACKENDS, help="Our torch executor, or ONNX Runtime.")
        dtype = third.selectbox("Precision", list(DTYPES))
        repeat = fourth.number_input("Repetitions", value=20, min_value=1, max_value=10_000, step=1)
        what, press = st.columns([6, 1], vertical_alignment="bottom")
        last = list(choices)[-1]
        labels = what.multiselect("Measure, by turns", list(choices), default=list(dict.fromkeys([_ORIGINAL, last])))
        go = press.form_submit_button("Measure", type="primary", width="stretch")
    if not go:
        return
    if not labels:
        show_error("Nothing is chosen to measure; choose at least one step.")
        return

    def work(report: Report) -> dict[str, Any]:
        report("computing the reference in ONNX Runtime", 0.0)
        verifier = opened.verifier
        inputs, reference = verifier.inputs, verifier.reference

        def heard(event: Mapping[str, Any]) -> None:
            report(event["stage"], event["done"] / max(event["total"], 1))

        return measure_models(
            {label: _graph(opened, choices[label]) for label in labels},
            inputs=inputs,
            device=device,
            backend=backend,
            dtype=dtype,
            repeat=int(repeat),
            reference=reference,
            worker=worker(),
            on_progress=heard,
        )

    try:
        opened.measured = run_with_progress("Measuring", work, worker(), "measure")
        opened.measured_spec = opened.spec
    except UserError as error:
        show_error(error)


def _choices(history: History | None) -> dict[str, int]:
    """The original, and each step that changed something."""
    steps = {} if history is None else {f"{i} {s.pass_name}": i for i, s in enumerate(history.steps) if s.changed}
    return {_ORIGINAL: 0, **steps}


def _graph(opened: Opened, index: int) -> Any:
    return opened.graph if opened.history is None or index == 0 else opened.history.at(index)


def _device_words(found: list[dict[str, Any]], name: str) -> str:
    device = next(d for d in found if d["device"] == name)
    return f"{name}: {device['name']}, {device['memory_bytes'] / 1e9:,.0f} GB"


def _results(found: Mapping[str, Any]) -> None:
    variants = found["variants"]
    first = next(iter(variants))
    for label, variant in variants.items():
        if label != first:
            st.markdown(f"**{plain(label)}** is {plain(speed_words(variant))} **{plain(first)}**.")
    if found["notes"]:
        st.caption(plain(" ".join(found["notes"])))
    rows = [_row(label, variant) for label, variant in variants.items()]
    st.dataframe(rows, hide_index=True, row_height=26, column_config=_COLUMNS)
    charts, operators = st.tabs(["Latency and memory", "Operators by time"])
    left, right = charts.columns(2)
    with left:
        st.caption("Latency: every repetition, quartiles and median")
        st.plotly_chart(latency_chart(variants), key="latency")
    with right:
        st.caption(f"Memory: {plain(next(iter(variants.values()))['memory']['kind'])}")
        if any(variant["memory"].get("timeline") for variant in variants.values()):
            st.plotly_chart(memory_chart(variants), key="memory")
        else:
            st.caption("This backend gives the peak only, not the memory of each operator.")
    with operators:
        _operators(variants)
    machine = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    st.caption(
        plain(
            f"{machine['device_name']}, {machine['threads']} threads; {versions}; {found['dtype']}, {found['backend']}"
        )
    )


_COLUMNS = {
    **{
        name: st.column_config.NumberColumn(format="%.3f")
        for name in ("median (ms)", "min (ms)", "p90 (ms)", "p99 (ms)", "ratio")
    },
    **{name: st.column_config.NumberColumn(format="%.2f") for name in ("peak memory (MB)", "weights (MB)")},
}


def _row(label: str, variant: Mapping[str, Any]) -> dict[str, Any]:
    memory, largest = variant["memory"], (variant["error"] or {}).get("max_rel_error")
    weights = memory.get("weights_bytes")
    return {
        "variant": label,
        "median (ms)": variant["median_ms"],
        "min (ms)": variant["min_ms"],
        "p90 (ms)": variant["p90_ms"],
        "p99 (ms)": variant["p99_ms"],
        "ratio": variant["ratio"],
        "95 % between": f"{variant['ratio_low']:.2f} and {variant['ratio_high']:.2f}",
        "peak memory (MB)": memory["peak_bytes"] / 1e6,
        "weights (MB)": None if weights is None else weights / 1e6,
        "error against ONNX Runtime": "-" if largest is None else f"{largest:.1e}",
    }


def speed_words(variant: Mapping[str, Any]) -> str:
    """ "1.19x faster (95 % between 1.15x and 1.22x) than"; a ratio is of medians, this variant's to the first's."""
    ratio, low, high = variant["ratio"], variant["ratio_low"], variant["ratio_high"]
    if low <= 1 <= high:
        return f"not clearly faster or slower (ratio {ratio:.2f}, 95 % between {low:.2f} and {high:.2f}) than"
    if ratio < 1:
        return f"{1 / ratio:.2f}x faster (95 % between {1 / high:.2f}x and {1 / low:.2f}x) than"
    return f"{ratio:.2f}x slower (95 % between {low:.2f}x and {high:.2f}x) than"


def _operators(variants: Mapping[str, Any]) -> None:
    st.caption("Operators by time, in a run of its own that times each")
    tabs = st.tabs([plain(label) for label in variants])
    for tab, variant in zip(tabs, variants.values(), strict=True):
        if variant["fallbacks"]:
            reasons = "; ".join(f"{node}: {why}" for node, why in list(variant["fallbacks"].items())[:_SHOWN_REASONS])
            words = f"{len(variant['fallbacks']):,} nodes were left to ONNX Runtime: {reasons}"
            tab.caption(plain(words + (" ..." if len(variant["fallbacks"]) > _SHOWN_REASONS else "")))
        total = sum(op["time_ms"] for op in variant["operators"]) or 1.0
        ranked = sorted(variant["operators"], key=lambda op: -op["time_ms"])
        rows = [
            {
                "operator": op["op"],
                "name": op["name"],
                "time (ms)": round(op["time_ms"], 4),
                "share (%)": round(100 * op["time_ms"] / total, 1),
            }
            for op in ranked
        ]
        tab.dataframe(rows, hide_index=True, row_height=26, height=300)
