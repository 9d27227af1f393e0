"""Matrix: models, their steps or strategies, batches, precisions and backends in one run that can go on later."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

import passes as library
from workbench.api import optimize
from workbench.commands import optimize_text
from workbench.errors import UserError
from workbench.ir import Graph
from workbench.loading import load_model
from workbench.loading.dims import symbols
from workbench.loading.samples import Sample, samples
from workbench.matrix import Matrix, as_csv, rows_of, run_matrix
from workbench.plans import PLANS
from workbench.run.measure import BACKENDS, DTYPES
from workbench.run.records import model_hash
from workbench.run.stopwatch import cache_file
from workbench.ui.parts import command_of, header, opened_here, plain, show_error
from workbench.ui.run_page import devices, limits_form
from workbench.ui.session import Opened, worker
from workbench.ui.work import Report, forget_cancel, run_with_progress, was_cancelled
from workbench.view.matrix_charts import bars_chart, by_batch_chart

_ORIGINAL, _OPTIMIZED = "as loaded", "as on Optimize"
_ROW = 26  # pixels
_COLUMNS = {
    **{n: st.column_config.NumberColumn(format="%.3f") for n in ("median (ms)", "± (ms)", "p90 (ms)", "ratio")},
    **{
        n: st.column_config.NumberColumn(format="%.2f")
        for n in ("first result (s)", "peak memory (MB)", "weights (MB)")
    },
}


def matrix_page() -> None:
    opened = opened_here()
    if opened is None:
        return
    header(opened)
    try:
        names = [device["device"] for device in devices()]
    except UserError as error:
        show_error(error)
        st.button("Try again", key="matrix_devices_again")
        return
    _form(opened, names)
    if was_cancelled("matrix"):
        st.info(
            "The matrix was stopped; the blocks that are done are kept, and Measure goes on with the others.",
            icon=":material/block:",
        )
        forget_cancel("matrix")
    if opened.matrix:
        _results(opened.matrix)
    else:
        st.caption("Nothing is measured yet: each model at each batch is a block, whose variants run by turns.")


def _form(opened: Opened, names: list[str]) -> None:
    with st.form("matrix_form"):
        first, second, third = st.columns([4, 5, 3])
        others = {sample.title: sample for sample in samples() if sample.title != opened.title}
        beside = first.multiselect("Other models beside it", list(others), help="Samples, with the same strategies.")
        choices = [_ORIGINAL, *([] if opened.history is None else [_OPTIMIZED]), *library.compared_strategies()]
        steps = second.multiselect("Steps and strategies", choices, default=[_ORIGINAL, choices[-1]])
        device = third.selectbox("Device", names, next((i for i, n in enumerate(names) if n.startswith("cuda")), 0))
        fourth, fifth, sixth, seventh, eighth = st.columns([2, 2, 4, 4, 2], vertical_alignment="bottom")
        free = symbols(opened.graph)
        none = "its dimensions are fixed" if not free else "the bound ones"
        batches = fourth.text_input("Batches", placeholder=none, disabled=not free, help="Sizes such as 1, 8, 32.")
        batch_dim = fifth.selectbox("Batch dimension", free or ["-"], disabled=not free)
        backends = sixth.multiselect("Backends", list(BACKENDS), ["torch"])
        dtypes = seventh.multiselect("Precisions", list(DTYPES), ["float32"])
        repeat = eighth.number_input("Repetitions", value=None, min_value=1, placeholder="until stable")
        words, limits, plan, press = st.columns([6, 1, 2, 2], vertical_alignment="center")
        seconds, most = limits_form(limits)
        words.caption(plain("; ".join(f"{name}: {plan.title}" for name, plan in PLANS.items())))
        planned = plan.form_submit_button(f"Measure the plan {next(iter(PLANS))}", width="stretch")
        go = press.form_submit_button("Measure", type="primary", width="stretch")
    if not (go or planned):
        return
    forget_cancel("matrix")
    if not planned and not (steps and backends and dtypes):
        show_error("Nothing is chosen to measure; choose at least one step, one backend and one precision.")
        return

    def work(report: Report) -> list[dict[str, Any]]:
        report("preparing the models", 0.0)
        count = None if repeat is None else int(repeat)
        matrix = Matrix({}, backends=tuple(backends), dtypes=tuple(dtypes), device=device, repeat=count)
        matrix = replace(matrix, timeout_s=seconds, memory_limit_bytes=most, given=opened.given)
        if planned:
            chosen = next(iter(PLANS.values()))
            matrix = replace(matrix, models=chosen.models(), batches=chosen.batches, dtypes=chosen.dtypes)
        else:
            models = {opened.title: _variants(opened, steps)}
            models |= {title: _without_history(_loaded(others[title]), steps) for title in beside}
            sizes = _sizes(batches)
            matrix = replace(matrix, models=models, batches=sizes, batch_dim=None if beside else batch_dim)
            paths = {opened.title: opened.path} | {title: str(others[title].file) for title in beside}
            matrix = replace(matrix, pipelines=_pipelines(opened, paths, steps))
        return run_matrix(matrix, _record(opened), worker(), report)

    try:
        opened.matrix = run_with_progress("Matrix", work, worker(), "matrix", device)
    except UserError as error:
        show_error(error)


def _record(opened: Opened) -> Path:
    """Where the blocks of this model are kept, so that a matrix goes on after the app was closed too."""
    folder = cache_file().parent / "matrices"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder '{folder}' for blocks that are done cannot be made: {error.strerror}") from None
    return folder / f"{model_hash(opened.graph)[:16]}.jsonl"


def _sizes(text: str) -> tuple[int, ...]:
    parts = [part for part in text.replace(",", " ").split() if part]
    wrong = next((part for part in parts if not part.isdecimal() or int(part) < 1), None)
    if wrong is not None:
        raise UserError(f"Batches are whole numbers such as 1, 8, 32, not '{wrong}'.")
    return tuple(map(int, parts))


def _variants(opened: Opened, steps: Sequence[str]) -> dict[str, Graph]:
    found = _without_history(opened.graph, steps)
    if _OPTIMIZED in steps and opened.history is not None:
        found[_OPTIMIZED] = opened.history.graph
    return {step: found[step] for step in steps}


def _without_history(graph: Graph, steps: Sequence[str]) -> dict[str, Graph]:
    """The graph as each step makes it, but for what was chosen on Optimize for the open model."""
    return {
        step: graph if step == _ORIGINAL else optimize(graph, layout=step).graph for step in steps if step != _OPTIMIZED
    }


def _pipelines(opened: Opened, paths: Mapping[str, str], steps: Sequence[str]) -> dict[tuple[str, str], str]:
    """The command that makes each variant."""
    found = {
        (title, step): optimize_text(path, layout=step)
        for title, path in paths.items()
        for step in steps
        if step not in (_ORIGINAL, _OPTIMIZED)
    }
    if opened.spec is not None:
        found[opened.title, _OPTIMIZED] = command_of(opened, opened.spec)
    return found


def _loaded(sample: Sample) -> Graph:
    return load_model(str(sample.file), sample.dims)


# ---- what was found ----------------------------------------------------------------------


def _results(blocks: Sequence[dict[str, Any]]) -> None:
    rows = rows_of(blocks)
    for row in rows:
        if row["failed"]:
            st.warning(plain(f"{_place(row)}: {row['failed']}"), icon=":material/error:")
    ran = [row for row in rows if not row["failed"]]
    if not ran:
        return
    words, as_table, as_json = st.columns([6, 1, 1], vertical_alignment="center")
    busy = sum(any(v.get("busy") for v in b["found"]["variants"].values()) for b in blocks if "found" in b)
    warned = f"; in {busy:,} of them the machine was busy with something else: measure again" if busy else ""
    words.caption(plain(f"{len(ran):,} variants in {len(blocks):,} blocks on {ran[0]['device']}{warned}"))
    how: dict[str, Any] = {"width": "stretch", "on_click": "ignore"}
    as_table.download_button("CSV", as_csv(rows), "matrix.csv", "text/csv", **how)
    whole = partial(json.dumps, blocks, indent=1)  # blocks are large, and written when they are asked for
    as_json.download_button("JSON", whole, "matrix.json", "application/json", **how)
    shown = [_row(row) for row in ran]
    height = min(300, _ROW * (len(shown) + 1) + 12)
    st.dataframe(shown, hide_index=True, row_height=_ROW, height=height, column_config=_COLUMNS)
    st.caption("Median latency, and its 95 % interval")
    st.plotly_chart(bars_chart(ran), key="matrix_bars")
    if len({row["batch"] for row in ran}) < 2:
        return
    left, right = st.columns(2)
    with left:
        st.caption("Latency by batch")
        st.plotly_chart(by_batch_chart(ran, "median_ms", "median latency (ms)"), key="matrix_latency")
    with right:
        st.caption("Memory by batch")
        st.plotly_chart(by_batch_chart(ran, "peak_bytes", "peak memory (MB)", 1e6), key="matrix_memory")


def _place(row: Mapping[str, Any]) -> str:
    parts = (row["model"], None if row["batch"] is None else f"batch {row['batch']:,}", row["variant"])
    return ", ".join(filter(None, parts))


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    error = row["max_rel_error"]
    return {
        "model": row["model"],
        "batch": row["batch"],
        "step": row["step"],
        "backend": row["backend"],
        "precision": row["dtype"],
        "median (ms)": row["median_ms"],
        "± (ms)": row["median_error_ms"],
        "p90 (ms)": row["p90_ms"],
        "runs": row["runs"],
        "ratio": row["ratio"],
        "95 % between": f"{row['ratio_low']:.2f} and {row['ratio_high']:.2f}",
        "first result (s)": row["first_result_s"],
        "peak memory (MB)": row["peak_bytes"] / 1e6,
        "weights (MB)": row["weights_bytes"] / 1e6,
        "error against ONNX Runtime": "-" if error is None else f"{error:.1e}",
        "fell back": row["fallbacks"] or "-",
    }
