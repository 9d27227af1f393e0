"""Layouts: the results of all strategies on the open model; choose one for Optimize, or compare two."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.explanations.layout_comparison import LaidOut
from workbench.layout.profile import Profile
from workbench.pipeline.command_text import optimize_text
from workbench.registry.pass_registry import library
from workbench.run.measurement.formatting import figures
from workbench.run.measurement.measured import FailedVariant, MeasuredVariant
from workbench.run.verdict_words import error_words, verdict_word
from workbench.ui.screens.run_page import worker_devices
from workbench.ui.state.address import write_target
from workbench.ui.state.graph_views import shown_pair
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.record_runs import keep_measured, measure_here, say_not_kept
from workbench.ui.state.session import Compared, Opened, worker
from workbench.ui.state.snapshots import moment_of_pair
from workbench.ui.state.strategies import begun_before, compared_before, layouts_of
from workbench.ui.state.work import Job, Report, forget_cancel, was_cancelled
from workbench.ui.widgets.graph_view import graph_view
from workbench.ui.widgets.numbers import ratio_interval, say_failures
from workbench.ui.widgets.parts import header, opened_here, show_error
from workbench.ui.widgets.profiles import choose_profile
from workbench.ui.widgets.progress import finished, run_with_progress
from workbench.ui.widgets.tables import table

REPEAT = 20  # runs of each result
_ROW = 24  # pixels
_PANES = 560  # pixels of height for the table's rows and the panes
_QUICK_NODES, _QUICK_FLOPS = 500, 2e9
_AS_IT_IS = "leave as it is"
_COLUMNS = {
    "transposes": st.column_config.NumberColumn(format="localized"),
    "elements": st.column_config.NumberColumn("elements moved", format="localized"),
    "bytes": st.column_config.NumberColumn("bytes moved", format="localized"),
    "bound": st.column_config.TextColumn(
        "bound (bytes)", help="No choice in the strategy's search space moves fewer bytes."
    ),
    "seconds": st.column_config.TextColumn("time (s)", alignment="right", help="Time that the strategy took."),
    "error": st.column_config.TextColumn("max relative error", help="Relative to ONNX Runtime on the original file."),
    "verdict": st.column_config.TextColumn(help="Whether the result still computes what the original computes."),
    "latency": st.column_config.NumberColumn(
        "latency (ms)", format="%.3f", help=f"Median of {REPEAT} runs of each result, by turns."
    ),
    "ratio": st.column_config.TextColumn(
        "ratio (95 % interval)", help=f"Latency relative to '{_AS_IT_IS}'; below 1 is faster."
    ),
}


def layouts_page() -> None:
    opened = opened_here()
    if opened is None:
        return
    header(opened)
    choose, edit, *start = st.columns([6, 2, 2, 2], vertical_alignment="bottom")
    profile = choose_profile(choose, edit, lambda profile: f"{profile.name}: {profile.title}")
    write_target(profile.name)
    compared = compared_before(opened, profile)
    if compared is None:
        asked = start[1].button("Compare all strategies", type="primary", width="stretch", key="compare")
        going_on = "layouts" in opened.jobs.by_key
        if asked or going_on or (_is_quick(opened) and not was_cancelled(opened.jobs, "layouts")):
            _compare(opened, profile)
        begun = begun_before(opened, profile)
        if begun is not None and begun.found:
            there = ", ".join(map(_word, begun.found))
            st.info(markdown_escaped(f"Stopped; these results are kept: {there}. Compare goes on with the others."))
        st.caption("Every strategy runs with the default passes; each result is compared with the original.")
        return
    for name, fault in library.broken().items():
        show_error(f"Pass '{name}' cannot be used, since its file does not import: {fault}")
    device = _measure(opened, compared, *start)
    _table(opened, compared, device)
    _two(opened, compared)


def _is_quick(opened: Opened) -> bool:
    """Whether all strategies take seconds, so that the page need not wait for a click."""
    summary = opened.summary
    return summary.nodes <= _QUICK_NODES and summary.flops <= _QUICK_FLOPS and not summary.unknown_flops


def _compare(opened: Opened, profile: Profile) -> None:
    forget_cancel(opened.jobs, "layouts")
    try:
        worker_devices()  # cached: it takes seconds once, and here the user waits anyway
        run_with_progress(
            opened.jobs,
            "layouts",
            f"Layouts of {opened.title}",
            lambda report: layouts_of(opened, profile, report),
            worker(),
            wanted=profile,
        )
    except UserError as error:
        show_error(error)
        return
    st.rerun()


def _measure(opened: Opened, compared: Compared, where: Any, start: Any) -> str:
    """Draw the field for the device and the button that measures all results on it; returns the device."""
    try:
        names = [device["device"] for device in worker_devices()]
    except UserError as error:
        show_error(error)
        return ""
    gpu = next((index for index, name in enumerate(names) if name.startswith("cuda")), 0)
    device = where.selectbox("Device", names, gpu, key="layouts_device", persist_state="session")
    if start.button("Measure latency", type="primary", width="stretch", key="measure_layouts"):
        forget_cancel(opened.jobs, "latencies")
        title = f"Measuring the layouts of {opened.title}"
        finish = Event()
        work = partial(_latencies, opened, compared, device, finish=finish)
        job = Job(work, worker(), device, title, finish=finish)
        opened.jobs.start("latencies", job)
    if "latencies" in opened.jobs.by_key:
        try:
            say_not_kept(finished(opened.jobs, "latencies"))
        except UserError as error:
            show_error(error)
    elif was_cancelled(opened.jobs, "latencies"):
        stays = "earlier results are kept" if device in compared.measured else "nothing is measured yet"
        st.info(f"The measurement was cancelled; {stays}.", icon=":material/block:")
        forget_cancel(opened.jobs, "latencies")
    result: str = device
    return result


def _commands(opened: Opened, compared: Compared) -> dict[str, str]:
    """By strategy, the command that produces its result, for the history of runs."""
    target = compared.profile.name
    return {
        name: optimize_text(opened.path, target=target, layout=None if name == "none" else name)
        for name in compared.found
    }


def _latencies(opened: Opened, compared: Compared, device: str, report: Report, finish: Event) -> str:
    """Measure and keep the results; returns why they could not be kept among the runs, "" if they were."""
    graphs = {name: laid_out.history.graph for name, laid_out in compared.found.items()}
    measurement = compared.measured[device] = measure_here(opened, graphs, device, report, finish, repeat=REPEAT)
    return keep_measured(opened, measurement, _commands(opened, compared))


def _table(opened: Opened, compared: Compared, device: str) -> None:
    """One row per strategy; a click chooses it for Optimize."""
    names = list(compared.found)

    def choose(row: int) -> None:
        st.session_state["strategy"] = names[row]

    first = ["strategy", "transposes", "bytes", "bound", "verdict"]
    measured = compared.measured.get(device)
    rows = [_row(name, laid_out) for name, laid_out in compared.found.items()]
    if measured is not None:
        first = ["strategy", "bytes", "latency", "ratio", "verdict"]
        rows = [{**row, **_latency(measured.variants[name])} for name, row in zip(names, rows, strict=True)]
    key = f"layouts_{opened.number}"
    table(rows, _COLUMNS, first=first, most=len(rows), row_height=_ROW, says_more=False, key=key, on_click=choose)
    chosen = st.session_state.get("strategy", "none")
    words = (
        f"Click a strategy to use it on the page Optimize; now chosen there: {_word(chosen)}. "
        "The eye above the right end of the table shows all columns."
    )
    if measured is not None:
        words += f" Measured on {measured.machine.device_name}."
        busy = any(variant.busy for variant in measured.ran.values())
        words += " The machine was busy with other work; measure again." if busy else ""
        say_failures(measured.failures.items())
    st.caption(markdown_escaped(words))


def _latency(variant: MeasuredVariant | FailedVariant) -> dict[str, Any]:
    if isinstance(variant, FailedVariant):
        return {"latency": None, "ratio": "failed"}
    interval = ratio_interval(figures(variant))
    words = interval if variant.ratio.ratio_busy else f"{variant.ratio.ratio:.2f} ({interval})"
    return {"latency": variant.latency.median_ms, "ratio": words}


def _row(name: str, laid_out: LaidOut) -> dict[str, Any]:
    row = laid_out.row()
    bound = "-" if row["lower_bound"] is None else f"{row['lower_bound']:,}{', reached' if row['certified'] else ''}"
    return {
        "strategy": _word(name),
        "transposes": row["transposes"],
        "elements": row["elements_moved"],
        "bytes": row["bytes_moved"],
        "bound": bound,
        "seconds": "-" if row["seconds"] is None else f"{row['seconds']:.2f}",
        "error": error_words(row["max_rel_error"]),
        "verdict": verdict_word(row["verified"]),
    }


def _two(opened: Opened, compared: Compared) -> None:
    """Two results side by side, with their differences marked."""
    names = list(compared.found)
    sides = st.columns(2, gap="small")
    keys = (f"layouts_left_{opened.number}", f"layouts_right_{opened.number}")
    left, right = (
        side.selectbox(words, names, index=start, key=key, format_func=_word)
        for side, words, start, key in zip(
            sides, ("Strategy", "compared with"), (0, names.index("optimal")), keys, strict=True
        )
    )
    moment = moment_of_pair(opened, compared, left, right)
    titles = (_word(left), _word(right))
    changes = moment.changes
    sentence = (
        f"{len(changes.removed):,} nodes of '{titles[0]}' are not in '{titles[1]}', {len(changes.added):,} of "
        f"'{titles[1]}' not in '{titles[0]}', and {len(changes.changed):,} differ"
    )
    shown = shown_pair(opened, (left, right, compared.profile), moment, titles, sentence, compared.profile)
    graph_view(f"pair_{opened.number}", shown, _PANES - _ROW * len(names))


def _word(name: str) -> str:
    return _AS_IT_IS if name == "none" else name
