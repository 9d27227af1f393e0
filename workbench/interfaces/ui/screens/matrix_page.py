"""The page Matrix: measures all combinations of models, steps or strategies, batch sizes, precisions and backends.

A stopped measurement can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import streamlit as st

from workbench.errors import UserError, counted
from workbench.formats.io import load_model
from workbench.formats.io.dims import symbols
from workbench.formats.io.samples import Sample, samples
from workbench.interfaces.api import optimize
from workbench.interfaces.study.cluster.jobs import OnThisMachine
from workbench.interfaces.study.sweep.blocks import Block, Matrix
from workbench.interfaces.study.sweep.matrix import as_csv, batch_sizes, matrix_notes, row_label, rows_of, run_matrix
from workbench.interfaces.study.sweep.named_sweeps import PLANS
from workbench.interfaces.study.sweep.record import forget_blocks
from workbench.interfaces.ui.screens.run_page import DEFAULT_BACKENDS, devices_here, limits_form
from workbench.interfaces.ui.state.commands import command_of
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.record_files import record_file
from workbench.interfaces.ui.state.session import Opened, worker
from workbench.interfaces.ui.state.work import Job, Report, forget_cancel, was_cancelled
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.numbers import (
    above_table,
    download_button,
    measured_cells,
    measured_columns,
    say_failures,
    show_table,
)
from workbench.interfaces.ui.widgets.parts import header, show_error
from workbench.interfaces.ui.widgets.progress import finished
from workbench.ir import Graph
from workbench.pipeline.command_text import optimize_text
from workbench.pipeline.registry.pass_registry import library
from workbench.presentation.charts.matrix import bars_chart, by_batch_chart
from workbench.run.measurement.variants import BACKENDS
from workbench.run.tolerances import DTYPES

_RECORDS = "matrices"
_ORIGINAL, _OPTIMIZED = "as loaded", "pipeline of Optimize"
_FORGET = "Finished blocks are not measured again; forget them to have Measure repeat them."


@dataclass
class MatrixResults(ModelState):
    """The blocks of the last matrix, as far as they are measured."""

    outlives_inputs = True

    blocks: list[Block] = field(default_factory=list)


def matrix_page() -> None:
    opened = optimized_here()
    if opened is None:
        return
    header(opened)
    devices = devices_here()
    if devices is None:
        return
    _form(opened, [device["device"] for device in devices])
    cancelled = was_cancelled(opened.jobs, "matrix")
    if cancelled:
        st.info(
            "The matrix was stopped; finished blocks are kept, and Measure continues with the others.",
            icon=":material/block:",
        )
        forget_cancel(opened.jobs, "matrix")
    if opened.state(MatrixResults).blocks:
        _results(opened)
    elif not cancelled:
        st.caption("Nothing is measured yet. Each model at each batch size is a block; its variants run interleaved.")


def _form(opened: Opened, names: list[str]) -> None:
    with st.form("matrix_form"):
        first, second, third = st.columns([4, 5, 3])
        networks = (s for s in samples() if s.shows is None and not s.page)  # whole networks only
        others = {sample.title: sample for sample in networks if sample.title != opened.title}
        other_titles = first.multiselect(
            "Other models", list(others), help="Samples, measured with the same strategies."
        )
        choices = [_ORIGINAL, *([] if opened.history is None else [_OPTIMIZED]), *library.compared_strategies()]
        steps = second.multiselect(
            "Steps and strategies", choices, default=[_ORIGINAL, choices[-1] if opened.history is None else _OPTIMIZED]
        )
        gpu = next((index for index, name in enumerate(names) if name.startswith("cuda")), None)
        device = third.selectbox("Device", names, gpu or 0)
        fourth, fifth, sixth, seventh, eighth = st.columns([2, 2, 4, 4, 2], vertical_alignment="bottom")
        free = symbols(opened.graph)
        none = "dimensions are fixed" if not free else "as bound"
        batches = fourth.text_input(
            "Batches", placeholder=none, disabled=not free, help="Batch sizes, such as 1, 8, 32."
        )
        batch_dim = fifth.selectbox("Batch dimension", free or ["-"], disabled=not free)
        backends = sixth.multiselect("Backends", list(BACKENDS), DEFAULT_BACKENDS["cpu" if gpu is None else "cuda"])
        dtypes = seventh.multiselect("Precisions", list(DTYPES), ["float32"])
        repeat = eighth.number_input("Repetitions", value=None, min_value=1, placeholder="until stable")
        text, limits, plan, press = st.columns([6, 1, 2, 2], vertical_alignment="center")
        seconds, memory_limit = limits_form(limits)
        text.caption(markdown_escaped("; ".join(f"{name}: {plan.title}" for name, plan in PLANS.items())))
        planned = plan.form_submit_button(f"Measure the plan {next(iter(PLANS))}", width="stretch")
        go = press.form_submit_button("Measure", type="primary", width="stretch")
    if go and not (steps and backends and dtypes):
        show_error("Nothing is chosen to measure; choose at least one step, one backend and one precision.")
        return

    def work(report: Report) -> None:
        report("preparing the models", 0.0)
        count = None if repeat is None else int(repeat)
        matrix = Matrix({}, backends=tuple(backends), dtypes=tuple(dtypes), device=device, repeat=count)
        matrix = replace(matrix, timeout_s=seconds, memory_limit_bytes=memory_limit, given=opened.user_dim_names)
        if planned:
            chosen = next(iter(PLANS.values()))
            matrix = replace(matrix, models=chosen.models(), batches=chosen.batches, dtypes=chosen.dtypes)
        else:
            models = {opened.title: _variants(opened, steps)}
            models |= {
                title: _variants_of_steps(_loaded(others[title]), steps, opened.profile.name) for title in other_titles
            }
            sizes = batch_sizes(batches)
            matrix = replace(matrix, models=models, batches=sizes, batch_dim=None if other_titles else batch_dim)
            paths = {opened.title: opened.path} | {title: str(others[title].file) for title in other_titles}
            matrix = replace(matrix, pipelines=_pipelines(opened, paths, steps))
        done: list[Block] = []
        for block in run_matrix(matrix, record_file(opened, _RECORDS), OnThisMachine(worker()), report):
            done.append(block)
            opened.state(MatrixResults).blocks = [*done]  # shown even if the other blocks are cancelled

    if go or planned:
        forget_cancel(opened.jobs, "matrix")
        opened.jobs.start("matrix", Job(work, worker(), device, f"Matrix of {opened.title}"))
    if "matrix" not in opened.jobs.by_key:
        return
    try:
        finished(opened.jobs, "matrix")
    except UserError as error:
        show_error(error)


def _variants(opened: Opened, steps: Sequence[str]) -> dict[str, Graph]:
    result = _variants_of_steps(opened.graph, steps, opened.profile.name)
    if _OPTIMIZED in steps and opened.history is not None:
        result[_OPTIMIZED] = opened.history.graph
    return {step: result[step] for step in steps}


def _variants_of_steps(graph: Graph, steps: Sequence[str], target: str) -> dict[str, Graph]:
    """The results of the steps on a graph, without the step for the pipeline of Optimize."""
    return {
        step: graph if step == _ORIGINAL else optimize(graph, layout=step, target=target).graph
        for step in steps
        if step != _OPTIMIZED
    }


def _pipelines(opened: Opened, paths: Mapping[str, str], steps: Sequence[str]) -> dict[tuple[str, str], str]:
    """For each model and step, the command that produces the variant."""
    results = {
        (title, step): optimize_text(path, layout=step)
        for title, path in paths.items()
        for step in steps
        if step not in (_ORIGINAL, _OPTIMIZED)
    }
    if opened.spec is not None:
        results[opened.title, _OPTIMIZED] = command_of(opened, opened.spec)
    return results


def _loaded(sample: Sample) -> Graph:
    return load_model(str(sample.file), sample.dims)


# ---- results -----------------------------------------------------------------------------


def _results(opened: Opened) -> None:
    blocks = opened.state(MatrixResults).blocks
    rows = rows_of(blocks)
    say_failures((row_label(row), row["failed"]) for row in rows if row["failed"])
    ran = [row for row in rows if not row["failed"]]
    if not ran:
        return
    text, again, as_table, as_json = above_table([5, 2, 1, 1])
    _forget(again, opened)
    text.caption(
        markdown_escaped(f"{counted(len(ran), 'variant')} in {counted(len(blocks), 'block')} on {ran[0]['device']}.")
    )
    download_button(as_table, "CSV", as_csv(rows), "matrix.csv", "matrix_csv")
    document = json.dumps([block.to_json() for block in blocks], indent=1)
    download_button(as_json, "JSON", document, "matrix.json", "matrix_json")
    for note in matrix_notes(blocks):
        st.caption(markdown_escaped(note))
    by_batch = len({row["batch"] for row in ran}) > 1
    rows = [_row(row) for row in ran]
    differing = [name for name in _SETTINGS if len({row.get(name) for row in rows}) > 1]
    show_table(rows, first=(*(differing or ["step"]), *measured_columns(rows)))
    st.caption("Median latency, and its 95 % interval")
    st.plotly_chart(bars_chart(ran), key="matrix_bars")
    if not by_batch:
        if symbols(opened.graph):
            st.caption("Enter several batch sizes to see latency and memory by batch.")
        return
    left, right = st.columns(2)
    with left:
        st.caption("Latency by batch")
        st.plotly_chart(by_batch_chart(ran, "median_ms", "median latency (ms)"), key="matrix_latency")
    with right:
        st.caption("Memory by batch")
        st.plotly_chart(by_batch_chart(ran, "peak_bytes", "peak memory (MB)", 1e6), key="matrix_memory")


def _forget(column: Any, opened: Opened) -> None:
    """Draw a button behind a confirmation, since measuring the blocks again takes as long as before."""
    results = opened.state(MatrixResults)
    with column.popover(f"Forget {counted(len(results.blocks), 'block')}", width="stretch"):
        st.write(_FORGET)
        if not st.button("Forget these blocks", type="primary", key="matrix_forget"):
            return
        try:
            forget_blocks(record_file(opened, _RECORDS), results.blocks)
        except UserError as error:
            show_error(error)
            return
        results.blocks = []
        st.rerun()


_SETTINGS = ("model", "batch", "step", "backend", "precision")  # a table shows first those whose values differ


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model": row["model"],
        **({} if row["batch"] is None else {"batch": row["batch"]}),
        "step": row["step"],
        "backend": row["backend"],
        "precision": row["dtype"],
        **measured_cells(row),
        "run by ONNX Runtime instead": row["fallbacks"] or "-",
    }
