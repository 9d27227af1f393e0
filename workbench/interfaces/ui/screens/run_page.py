"""The page Measure: latency and memory of the original and of steps, on the GPU if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any

import streamlit as st

from workbench.backends.memory import in_bytes
from workbench.backends.torch.executor.compilers import compiler_note
from workbench.errors import UserError
from workbench.interfaces.ui.state.gains import JOB
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.record_runs import keep_measured, measure_here, pipeline_until, say_not_kept
from workbench.interfaces.ui.state.session import MeasuredHere, Opened, worker
from workbench.interfaces.ui.state.work import Job, Report, forget_cancel, was_cancelled
from workbench.interfaces.ui.widgets.controls import chosen_verification
from workbench.interfaces.ui.widgets.gain_card import gain_card
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.parts import header, say_changed_dims, show_error
from workbench.interfaces.ui.widgets.progress import finished
from workbench.interfaces.ui.widgets.published_figures import published_figures
from workbench.interfaces.ui.widgets.run_results import results
from workbench.presentation.explanations.gain import AFTER, BEFORE
from workbench.rewrite import History
from workbench.run.measurement.variants import BACKENDS, combined
from workbench.run.tolerances import DTYPES
from workbench.run.worker.client import RUN_LIMIT_S

DEFAULT_BACKENDS = {"cpu": ["onnxruntime"], "cuda": ["cuda-graphs"]}  # as the card measures


def run_page(optimize: Any = None) -> None:
    """Draw the page. optimize: the page Optimize, to which bars of the waterfall lead."""
    opened = optimized_here()
    if opened is None:
        return
    top = st.empty()
    with top:
        header(opened)
    card = st.container(key="place_of_card")
    result = devices_here()
    if result is None:
        return
    _form(opened, result)
    if opened.history is not None:
        with card:  # after the form, which may have measured
            gain_card(opened, opened.history, chosen_verification(), measures=False)
    with top:
        header(opened)  # again, since the run may have bound symbolic dims to other sizes
    cancelled = was_cancelled(opened.jobs, JOB)
    newest = next(reversed(opened.records.values()), None)
    measured = opened.measured or newest
    if cancelled:
        consequence = "nothing is measured yet" if measured is None else "earlier results are kept"
        st.info(f"The measurement was cancelled; {consequence}.", icon=":material/block:")
    if measured is not None:
        say_changed_dims(opened)
        if measured.spec != opened.spec:
            st.caption("Measured before the passes were changed; measure again to see the current steps.")
        results(opened, measured, optimize)
    elif not cancelled:
        st.caption("Nothing is measured here yet: Measure shows which operators and passes the time went to.")
    published_figures(opened)


@st.cache_data(show_spinner="Looking for devices")
def worker_devices() -> list[dict[str, Any]]:
    """The devices of the worker's machine. Raises RunError if the worker does not answer."""
    result: list[dict[str, Any]] = worker().request("devices")["devices"]
    return result


def devices_here() -> list[dict[str, Any]] | None:
    """The devices of the worker's machine; None if it does not answer, which is shown with a button to try again."""
    try:
        return worker_devices()
    except UserError as error:
        show_error(error)
        st.button("Try again", key="devices_again")
        return None


def _form(opened: Opened, devices: list[dict[str, Any]]) -> None:
    choices = _choices(opened.history)
    names = [device["device"] for device in devices]
    gpu = next((i for i, name in enumerate(names) if name.startswith("cuda")), None)
    if gpu is None:
        st.caption("No GPU was found; models run on the CPU.")
    if note := compiler_note(list(BACKENDS), names[gpu or 0]):
        st.caption(markdown_escaped(note))
    if opened.history is None:
        st.caption("Nothing is optimized yet: go to Optimize to get steps to compare with.")
    with st.form("measure_form"):
        first, second, third, fourth, fifth = st.columns([3, 3, 3, 2, 2], vertical_alignment="bottom")
        device = first.selectbox("Device", names, index=gpu or 0, format_func=lambda n: _device_label(devices, n))
        backends = second.multiselect(
            "Backends",
            list(BACKENDS),
            DEFAULT_BACKENDS["cpu" if gpu is None else "cuda"],
            help="; ".join(f"{k}: {v}" for k, v in BACKENDS.items()),
        )
        dtypes = third.multiselect("Precisions", list(DTYPES), ["float32"])
        repeat = fourth.number_input(
            "Repetitions",
            value=None,
            min_value=1,
            max_value=10_000,
            step=1,
            placeholder="until stable",
            help="If empty: 10 to 200, until every median is known to one percent or 20 s have passed.",
        )
        cold = fifth.toggle(
            "Also with cold cache", help="Adds runs before each of which the device's cache is emptied."
        )
        steps_column, limits, press = st.columns([7, 1, 1], vertical_alignment="bottom")
        last = list(choices)[-1]
        labels = steps_column.multiselect(
            "Measure, interleaved", list(choices), default=list(dict.fromkeys([BEFORE, last]))
        )
        time_limit, memory_limit = limits_form(limits)
        go = press.form_submit_button("Measure", type="primary", width="stretch")
    options = {
        "repeat": None if repeat is None else int(repeat),
        "cold": cold,
        "timeout_s": time_limit,
        "memory_limit_bytes": memory_limit,
    }
    if go:
        _start(opened, device, labels, backends, dtypes, choices, options)
    if JOB not in opened.jobs.by_key:
        return
    try:
        say_not_kept(finished(opened.jobs, JOB))
    except UserError as error:
        show_error(error)


def _start(
    opened: Opened,
    device: str,
    labels: list[str],
    backends: list[str],
    dtypes: list[str],
    choices: Mapping[str, int],
    options: Mapping[str, Any],
) -> None:
    """Start the measurement, which continues when the user leaves the page; the open model gets its results."""
    forget_cancel(opened.jobs, JOB)
    if not (labels and backends and dtypes):
        show_error("Nothing is chosen to measure; choose at least one step, one backend and one precision.")
        return
    graphs = {label: _graph(opened, choices[label]) for label in labels}
    variants = combined(graphs, backends, dtypes)

    spec = opened.spec
    steps = {id(graphs[label]): choices[label] for label in labels}
    pipelines = {label: pipeline_until(opened, steps[id(variant.graph)]) for label, variant in variants.items()}

    finish = Event()

    def work(report: Report) -> str:
        measurement = measure_here(opened, variants, device, report, finish, **options)
        graphs_of_variants = {label: variant.graph for label, variant in variants.items()}
        opened.take_measurement(MeasuredHere(spec, measurement, graphs_of_variants))
        return keep_measured(opened, measurement, pipelines)

    opened.jobs.start(JOB, Job(work, worker(), device, f"Measuring {opened.title}", finish=finish))


def limits_form(column: Any) -> tuple[float, int | None]:
    """Draw the fields for a job's limits; returns the time limit in seconds and the memory limit in bytes, or None."""
    with column.popover("Limits", width="stretch"):
        seconds = st.number_input("Time limit (s)", value=RUN_LIMIT_S, min_value=1.0, step=60.0)
        gigabytes = st.number_input("Memory limit (GB)", value=None, min_value=0.1, placeholder="no limit")
    return seconds, in_bytes(gigabytes)


def _choices(history: History | None) -> dict[str, int]:
    """For each label, the numbers of the steps that can be measured: the original, and steps that changed something."""
    changed = [] if history is None else [(index, step) for index, step in enumerate(history.steps) if step.changed]
    labels = [f"{index} {step.pass_name}" for index, step in changed[:-1]] + [AFTER]
    return {BEFORE: 0, **dict(zip(labels, (index for index, _ in changed), strict=False))}


def _graph(opened: Opened, index: int) -> Any:
    return opened.graph if opened.history is None or index == 0 else opened.history.at(index)


def _device_label(devices: list[dict[str, Any]], name: str) -> str:
    device = next(d for d in devices if d["device"] == name)
    return f"{name}: {device['name']}, {device['memory_bytes'] / 1e9:,.0f} GB"
