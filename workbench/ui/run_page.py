"""Run: latency and memory of the original beside each step's result, on the GPU if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.rewrite import History
from workbench.run.measure import measure_models
from workbench.ui.parts import header, plain, show_error
from workbench.ui.session import Opened, current, worker
from workbench.ui.work import Report, forget_cancel, run_with_progress, was_cancelled
from workbench.view.charts import latency_chart, memory_chart

_ORIGINAL = "as loaded"


def run_page() -> None:
    try:
        opened = current()
    except UserError as error:
        show_error(error)
        return
    header(opened)
    _form(opened)
    if was_cancelled("measure"):
        st.info("The measurement was cancelled; what was measured before stays.", icon=":material/block:")
        forget_cancel("measure")
    if opened.measured:
        _results(opened.measured)
    else:
        st.caption("Nothing is measured yet.")


@st.cache_data(show_spinner=False)
def devices() -> list[dict[str, Any]]:
    """What the worker's machine can run on."""
    return worker().request("devices")["devices"]


def _form(opened: Opened) -> None:
    choices = _choices(opened.history)
    found = devices()
    names = [device["device"] for device in found]
    gpu = next((i for i, name in enumerate(names) if name.startswith("cuda")), None)
    if gpu is None:
        st.caption("There is no GPU here; runs are on the CPU.")
    with st.form("measure_form"):
        first, second, third, fourth = st.columns(4)
        device = first.selectbox("Device", names, index=gpu or 0, format_func=lambda n: _device_words(found, n))
        backend = second.selectbox("Backend", ["torch", "onnxruntime"])
        dtype = third.selectbox("Precision", ["float32", "float16", "bfloat16"])
        repeat = fourth.number_input("Repetitions", value=20, min_value=1, max_value=10_000, step=1)
        last = list(choices)[-1]
        labels = st.multiselect("Measure", list(choices), default=list(dict.fromkeys([_ORIGINAL, last])))
        go = st.form_submit_button("Measure", type="primary")
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
    for note in found["notes"]:
        st.warning(plain(note))
    rows = [_row(label, variant) for label, variant in variants.items()]
    st.dataframe(rows, hide_index=True)
    first = next(iter(variants))
    for label, variant in variants.items():
        if label != first:
            st.markdown(f"**{plain(label)}** is {plain(speed_words(variant))} than **{plain(first)}**.")
    left, right = st.columns(2)
    with left:
        st.caption("Latency: every repetition, quartiles and median")
        st.plotly_chart(latency_chart(variants), key="latency")
    with right:
        st.caption(f"Memory: {plain(next(iter(variants.values()))['memory']['kind'])}")
        if any(variant["memory"].get("timeline") for variant in variants.values()):
            st.plotly_chart(memory_chart(variants), key="memory")
        else:
            st.caption("This backend gives the peak only, not the memory of each operator.")
    _operators(variants)
    machine = found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    st.caption(
        plain(
            f"{machine['device_name']}, {machine['threads']} threads; {versions}; {found['dtype']}, {found['backend']}"
        )
    )
    for label, variant in variants.items():
        if variant["fallbacks"]:
            words = "; ".join(f"{op}: {why}" for op, why in variant["fallbacks"].items())
            st.info(plain(f"{label}: left to ONNX Runtime: {words}"))


def _row(label: str, variant: Mapping[str, Any]) -> dict[str, Any]:
    memory, error = variant["memory"], variant["error"]
    return {
        "variant": label,
        "median (ms)": round(variant["median_ms"], 3),
        "min (ms)": round(variant["min_ms"], 3),
        "p90 (ms)": round(variant["p90_ms"], 3),
        "p99 (ms)": round(variant["p99_ms"], 3),
        "ratio": round(variant["ratio"], 3),
        "95 % between": f"{variant['ratio_low']:.2f} and {variant['ratio_high']:.2f}",
        "peak memory (MB)": round(memory["peak_bytes"] / 1e6, 2),
        "weights (MB)": None if memory.get("weights_bytes") is None else round(memory["weights_bytes"] / 1e6, 2),
        "error against ONNX Runtime": "" if error is None else f"{error['max_rel_error'] or 0:.1e}",
    }


def speed_words(variant: Mapping[str, Any]) -> str:
    """ "1.19x faster, 95 % between 1.15x and 1.22x"; a ratio is of medians, this variant's to the first's."""
    ratio, low, high = variant["ratio"], variant["ratio_low"], variant["ratio_high"]
    if ratio <= 1:
        return f"{1 / ratio:.2f}x faster (95 % between {1 / high:.2f}x and {1 / low:.2f}x)"
    return f"{ratio:.2f}x slower (95 % between {low:.2f}x and {high:.2f}x)"


def _operators(variants: Mapping[str, Any]) -> None:
    st.caption("Operators by time, in a run of its own that times each")
    tabs = st.tabs([plain(label) for label in variants])
    for tab, variant in zip(tabs, variants.values(), strict=True):
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
        tab.dataframe(rows, hide_index=True, height=300)
