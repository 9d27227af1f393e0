"""Tune: the pipeline, backend and precision that are best for the open model on this machine, as a recipe."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import Any

import streamlit as st

from workbench.charts.pareto import pareto_chart
from workbench.errors import UserError, counted
from workbench.registry.pass_choice import choose
from workbench.run.verdict_words import error_words
from workbench.study.tuning.budget import parse_budget
from workbench.study.tuning.evidence import Evidence
from workbench.study.tuning.graphs import SAME_GRAPH
from workbench.study.tuning.measuring import forget_record
from workbench.study.tuning.pipelines import OBJECTIVES
from workbench.study.tuning.recipe import Recipe, toml_text
from workbench.study.tuning.tune import TuneRequest, tune
from workbench.ui.screens.run_page import devices_here
from workbench.ui.state.address import Wished
from workbench.ui.state.commands import recipe_command_of
from workbench.ui.state.kept_files import kept_file
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.session import Opened, stop_checking, worker
from workbench.ui.state.work import Job, Report, forget_cancel
from workbench.ui.widgets.controls import begin_from
from workbench.ui.widgets.numbers import show_table
from workbench.ui.widgets.parts import header, opened_here, show_error
from workbench.ui.widgets.progress import result_if_any

_JOB, _RECORDS, _RECIPE = "tune", "tunings", "recipe.toml"
_FIRST = ("candidate", "result", "median (ms)", "ratio", "peak memory (MB)")


def tune_page(optimize: Any) -> None:
    """optimize: the page on which the pipeline that was found can be seen rewrite by rewrite."""
    opened = opened_here()
    if opened is None:
        return
    header(opened)
    devices = devices_here()
    if devices is None:
        return
    _form(opened, [device["device"] for device in devices])
    try:
        sentence = "The tuning was cancelled; Tune goes on with what it measured."
        opened.tuned = result_if_any(opened.jobs, _JOB, sentence) or opened.tuned
    except UserError as error:
        show_error(error)
    if opened.tuned is None:
        st.caption(
            "Nothing is tuned yet. Some 10 to 110 candidates are made and compared with your model; those with equal "
            "graphs are measured once, and the slower half is dropped round after round, by turns on this machine."
        )
        return
    _results(opened, opened.tuned, optimize)


def _form(opened: Opened, names: list[str]) -> None:
    kinds = ["cuda", "cpu"] if any(name.startswith("cuda") for name in names) else ["cpu"]
    with st.form("tune_form"):
        first, second, third, fourth, press = st.columns([3, 2, 2, 2, 2], vertical_alignment="bottom")
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
        go = press.form_submit_button("Tune", type="primary", width="stretch")
    if not go:
        return
    try:
        request = TuneRequest(objective, device, float(error), parse_budget(budget))
    except UserError as fault:
        show_error(fault)
        return
    forget_cancel(opened.jobs, _JOB)
    finish = Event()
    measuring = next(name for name in names if name.startswith(device))
    work = partial(_tuned, opened, request, finish)
    opened.jobs.start(_JOB, Job(work, worker(), measuring, f"Tuning {opened.title}", finish=finish))


def _tuned(opened: Opened, request: TuneRequest, finish: Event, report: Report) -> Recipe:
    stop_checking(opened)  # comparisons of its steps would disturb the measurement; Optimize goes on with them
    record = kept_file(opened, _RECORDS)
    recipe = tune(
        opened.graph,
        request,
        opened.verifier,
        record=record,
        on_progress=lambda words: report(words, None),
        is_enough=finish.is_set,
    )
    if not recipe.is_resumable:
        forget_record(record)  # the next tuning measures anew
    return recipe


# ---- results -----------------------------------------------------------------------------


def _results(opened: Opened, recipe: Recipe, optimize: Any) -> None:
    words, use, save = st.columns([7, 2, 2], vertical_alignment="center")
    words.markdown(
        f"Best for {recipe.objective} on {markdown_escaped(recipe.device_name)}: **{markdown_escaped(recipe.label)}**. "
        f"{counted(len(recipe.evidence), 'candidate')} in {recipe.seconds:,.0f} s; {recipe.ended}."
        + (" Tune again to go on with what is measured." if recipe.is_resumable else "")
    )
    if use.button("Use on Optimize", key="tune_use", width="stretch"):
        begin_from(_wished(recipe))
        st.switch_page(optimize)
    text = toml_text(recipe.table())
    save.download_button("Recipe", text, _RECIPE, "application/toml", width="stretch", on_click="ignore")
    show_table([_row(one, recipe) for one in recipe.evidence], first=_FIRST, says_more=False)
    same = sum(one.why.startswith(SAME_GRAPH) for one in recipe.evidence)
    st.caption(
        "Ratio: to the best of the same round. *: no other is at least as good in latency, memory and error, and "
        "better in one."
        + (f" Not measured twice, since their graph is another's: {counted(same, 'candidate')}." if same else "")
        + " The eye above the right end of the table shows all columns."
    )
    rows = [one.row() for one in recipe.evidence]
    if any(row["median_ms"] is not None and row["peak_bytes"] is not None for row in rows):
        st.caption("Latency and peak memory; peaks are comparable only where they count the same")
        st.plotly_chart(pareto_chart(rows), key="tune_pareto")
    st.caption("With the recipe, the command line makes the file on any machine:")
    st.code(recipe_command_of(opened, _RECIPE), language="bash", wrap_lines=True)


def _row(one: Evidence, recipe: Recipe) -> dict[str, Any]:
    return {
        "candidate": f"{one.label}{' *' if one.pareto else ''}",
        "result": "best" if one.label == recipe.label else one.why or "left at the end",
        "median (ms)": one.median_ms,
        "ratio": one.ratio,
        "95 % between": "-" if one.ratio_low is None else f"{one.ratio_low:.3f} and {one.ratio_high:.3f}",
        "peak memory (MB)": None if one.peak_bytes is None else one.peak_bytes / 1e6,
        "runs": one.runs or None,
        "peak is of": one.peak_counted or "-",
        "file (MB)": None if one.file_bytes is None else one.file_bytes / 1e6,
        "max error": "-" if one.max_rel_error is None else error_words(one.max_rel_error),
        "dropped in round": one.dropped_in,
    }


def _wished(recipe: Recipe) -> Wished:
    """The recipe's pipeline, for the controls of Optimize."""
    pipeline = choose(list(recipe.passes), export_for=recipe.export_for, options=recipe.options)
    return Wished(str(pipeline), (), recipe.target, recipe.mode, "none")
