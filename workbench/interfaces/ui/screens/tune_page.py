"""The page Tune: finds the best pipeline, backend and precision for the open model on this machine, as a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

import streamlit as st

from workbench.errors import UserError, counted
from workbench.interfaces.study.tuning.budget import parse_budget
from workbench.interfaces.study.tuning.evidence import Evidence
from workbench.interfaces.study.tuning.graphs import SAME_GRAPH
from workbench.interfaces.study.tuning.measuring import forget_record
from workbench.interfaces.study.tuning.pipelines import OBJECTIVES
from workbench.interfaces.study.tuning.recipe import Recipe
from workbench.interfaces.study.tuning.tune import TuneRequest, tune
from workbench.interfaces.ui.screens.run_page import devices_here
from workbench.interfaces.ui.state.address import LinkedPipeline
from workbench.interfaces.ui.state.commands import recipe_command_of
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.record_files import record_file
from workbench.interfaces.ui.state.session import Opened, stop_checking, worker
from workbench.interfaces.ui.state.work import Job, Report, forget_cancel
from workbench.interfaces.ui.widgets.controls import begin_from
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.numbers import show_table
from workbench.interfaces.ui.widgets.parts import header, show_error
from workbench.interfaces.ui.widgets.progress import result_if_any
from workbench.pipeline.registry.pass_choice import choose
from workbench.presentation.charts.pareto import pareto_chart
from workbench.run.verdict_words import relative_error_text

_JOB, _RECORDS, _RECIPE = "tune", "tunings", "recipe.toml"
_FIRST = ("candidate", "result", "measured in", "median (ms)", "min (ms)", "ratio", "peak memory (MB)")


@dataclass
class Tuning(ModelState):
    """The recipe that the last tuning found."""

    outlives_inputs = True

    recipe: Recipe | None = None


def tune_page(optimize: Any) -> None:
    """Draw the page. optimize: the page Optimize, which can show the best pipeline rewrite by rewrite."""
    opened = optimized_here()
    if opened is None:
        return
    header(opened)
    devices = devices_here()
    if devices is None:
        return
    _form(opened, [device["device"] for device in devices])
    tuning = opened.state(Tuning)
    try:
        sentence = "The tuning was cancelled; Tune continues from its measurements."
        tuning.recipe = result_if_any(opened.jobs, _JOB, sentence) or tuning.recipe
    except UserError as error:
        show_error(error)
    if tuning.recipe is None:
        st.caption(
            "Nothing is tuned yet. 10 to 110 candidates are made and compared with your model; those with equal graphs "
            "are measured once. Candidates are measured interleaved, and after each round the slower half is dropped."
        )
        return
    _results(opened, tuning.recipe, optimize)


def _form(opened: Opened, names: list[str]) -> None:
    kinds = ["cuda", "cpu"] if any(name.startswith("cuda") for name in names) else ["cpu"]
    with st.form("tune_form"):
        first, second, third, fourth, button = st.columns([3, 2, 2, 2, 2], vertical_alignment="bottom")
        objective = first.selectbox(
            "Best for", list(OBJECTIVES), help=markdown_escaped("; ".join(f"{n}: {w}" for n, w in OBJECTIVES.items()))
        )
        device = second.selectbox("Device", kinds)
        budget = third.text_input("Budget", "2m", help="Time budget: 90s, 10m or 1h.")
        error = fourth.number_input(
            "Largest error",
            value=1e-3,
            min_value=0.0,
            format="%.1e",
            help="Relative to ONNX Runtime on your file. Where it allows their rounding, lower precisions are tried.",
        )
        is_submitted = button.form_submit_button("Tune", type="primary", width="stretch")
    if not is_submitted:
        return
    try:
        request = TuneRequest(objective, device, float(error), parse_budget(budget))
    except UserError as fault:
        show_error(fault)
        return
    forget_cancel(opened.jobs, _JOB)
    finish = Event()
    measured_device = next(name for name in names if name.startswith(device))
    work = partial(_tuned, opened, request, finish)
    opened.jobs.start(_JOB, Job(work, worker(), measured_device, f"Tuning {opened.title}", finish=finish))


def _tuned(opened: Opened, request: TuneRequest, finish: Event, report: Report) -> Recipe:
    stop_checking(opened)  # it would disturb the measurement; Optimize continues it
    record = record_file(opened, _RECORDS)
    recipe = tune(
        opened.graph,
        request,
        opened.verifier,
        record=record,
        on_progress=lambda message: report(message, None),
        is_enough=finish.is_set,
    )
    if not recipe.is_resumable:
        forget_record(record)  # the next tuning measures again
    return recipe


# ---- results -----------------------------------------------------------------------------


def _results(opened: Opened, recipe: Recipe, optimize: Any) -> None:
    caption, use, save = st.columns([7, 2, 2], vertical_alignment="center")
    caption.markdown(
        f"Best for {recipe.objective} on {markdown_escaped(recipe.device_name)}: **{markdown_escaped(recipe.label)}**. "
        f"{counted(len(recipe.evidence), 'candidate')} in {recipe.seconds:,.0f} s; {recipe.ended}."
        + (" Tune again to continue from its measurements." if recipe.is_resumable else "")
    )
    if use.button("Use on Optimize", key="tune_use", width="stretch"):
        begin_from(_linked_pipeline(recipe))
        st.switch_page(optimize)
    if recipe.gain_text:
        st.markdown(f"**{markdown_escaped(recipe.label)}** is {markdown_escaped(recipe.gain_text)}.")
    for note in recipe.notes:
        st.caption(markdown_escaped(note))
    save.download_button("Recipe", recipe.toml(), _RECIPE, "application/toml", width="stretch", on_click="ignore")
    hidden = () if recipe.notes else ("min (ms)",)
    first = [column for column in _FIRST if column not in hidden]
    show_table([_row(entry, recipe) for entry in recipe.evidence], first=first, says_more=False)
    duplicates = sum(entry.why.startswith(SAME_GRAPH) for entry in recipe.evidence)
    st.caption(
        "Last run: the best and the original, measured interleaved at the end; medians are from it alone. The ratio "
        "of a candidate that was dropped before is to the best of its round. "
        "*: no other candidate is at least as good in latency, memory and error, "
        "and better in one of them."
        + (
            f" Not measured, since another candidate has the same graph: {counted(duplicates, 'candidate')}."
            if duplicates
            else ""
        )
        + " The eye above the right end of the table shows all columns."
    )
    rows = [entry.row() for entry in recipe.evidence]
    if any(row["latency_ratio"] is not None and row["peak_bytes"] is not None for row in rows):
        st.caption("Latency and peak memory; peaks are comparable only if they count the same")
        st.plotly_chart(pareto_chart(rows), key="tune_pareto")
    st.caption("With the recipe, the command line makes the file on any machine:")
    st.code(recipe_command_of(opened, _RECIPE), language="bash", wrap_lines=True)


def _row(entry: Evidence, recipe: Recipe) -> dict[str, Any]:
    return {
        "candidate": f"{entry.label}{' *' if entry.pareto else ''}",
        "result": _result(entry, recipe),
        "measured in": entry.measured_in or "-",
        "median (ms)": entry.median_ms,
        "min (ms)": entry.min_ms,
        "ratio": None if entry.busy else entry.ratio,
        "ratio, 95 % interval": _interval(entry),
        "peak memory (MB)": None if entry.peak_bytes is None else entry.peak_bytes / 1e6,
        "runs": entry.runs or None,
        "peak covers": entry.peak_counted or "-",
        "file (MB)": None if entry.file_bytes is None else entry.file_bytes / 1e6,
        "max error": "-" if entry.max_rel_error is None else relative_error_text(entry.max_rel_error),
        "dropped in round": entry.dropped_in,
    }


def _result(entry: Evidence, recipe: Recipe) -> str:
    if entry.label != recipe.label:
        return entry.result
    return f"best: {entry.result}" if entry.original else "best"


def _interval(entry: Evidence) -> str:
    if entry.ratio_low is None:
        return "-"
    return "busy" if entry.busy else f"{entry.ratio_low:.3f} to {entry.ratio_high:.3f}"


def _linked_pipeline(recipe: Recipe) -> LinkedPipeline:
    """The recipe's pipeline, for the controls of Optimize."""
    pipeline = choose(list(recipe.passes), export_for=recipe.export_for, options=recipe.options)
    return LinkedPipeline(str(pipeline), (), recipe.target, recipe.mode, "none")
