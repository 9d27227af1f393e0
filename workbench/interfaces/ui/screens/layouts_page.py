"""The page Layouts: the results of all layout strategies, to choose one for Optimize or to compare two."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.screens.run_page import worker_devices
from workbench.interfaces.ui.state.address import write_target
from workbench.interfaces.ui.state.graph_views import shown_pair
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.record_runs import keep_measured, measure_here, say_not_kept
from workbench.interfaces.ui.state.session import Opened, worker
from workbench.interfaces.ui.state.snapshots import moment_of_pair
from workbench.interfaces.ui.state.strategies import ComparedLayouts, cached_layouts, layouts_of, stopped_comparison
from workbench.interfaces.ui.state.work import Job, Report, forget_cancel, was_cancelled
from workbench.interfaces.ui.widgets.graph_view import graph_view
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.numbers import ratio_with_interval, say_failures
from workbench.interfaces.ui.widgets.parts import header, show_error
from workbench.interfaces.ui.widgets.profiles import choose_profile
from workbench.interfaces.ui.widgets.progress import finished, run_with_progress
from workbench.interfaces.ui.widgets.tables import table
from workbench.pipeline.command_text import optimize_text
from workbench.pipeline.registry.pass_registry import library
from workbench.planning.layout.profile import Profile
from workbench.presentation.explanations.layout_comparison import LaidOut
from workbench.run.measurement.measurement_result import FailedVariant, MeasuredVariant
from workbench.run.measurement.notes import busy_notes
from workbench.run.verdict_words import relative_error_text, verdict_label

REPEAT = 20  # runs of each result
_ROW = 24  # pixels
_PANES = 520  # pixels of height of the panes, beside the table
_WIDTHS = [5, 7]  # of the table and of the panes
_QUICK_NODES, _QUICK_FLOPS = 500, 2e9
_NO_STRATEGY = "leave as it is"
_COLUMNS = {
    "required_layouts": st.column_config.TextColumn(
        "required layouts met",
        help="Operators that run in the layout that the target demands of them, and how many it demands.",
    ),
    "transposes": st.column_config.NumberColumn(format="localized"),
    "elements": st.column_config.NumberColumn("elements moved", format="localized"),
    "bytes": st.column_config.NumberColumn("bytes moved", format="localized"),
    "proof": st.column_config.TextColumn("what is proved"),
    "bound": st.column_config.TextColumn(
        "bound (bytes)", help="No choice that the strategy searches moves fewer bytes; what is proved says which."
    ),
    "seconds": st.column_config.TextColumn("time (s)", alignment="right", help="Time that the strategy took."),
    "error": st.column_config.TextColumn("max relative error", help="Relative to ONNX Runtime on the original file."),
    "verdict": st.column_config.TextColumn(help="Whether the result still computes what the original computes."),
    "latency": st.column_config.NumberColumn(
        "latency (ms)", format="%.3f", help=f"Median of {REPEAT} runs of each result, interleaved."
    ),
    "min": st.column_config.NumberColumn("min (ms)", format="%.3f", help="Least of the same runs."),
    "ratio": st.column_config.TextColumn(
        "ratio (95 % interval)", help=f"Latency relative to '{_NO_STRATEGY}'; below 1 is faster."
    ),
}


def layouts_page() -> None:
    opened = optimized_here()
    if opened is None:
        return
    header(opened)
    choose, edit, *start = st.columns([6, 2, 2, 2], vertical_alignment="bottom")
    profile = choose_profile(choose, edit, lambda profile: f"{profile.name}: {profile.title}")
    write_target(profile.name)
    compared = cached_layouts(opened, profile)
    if compared is None:
        is_requested = start[1].button("Compare all strategies", type="primary", width="stretch", key="compare")
        is_running = "layouts" in opened.jobs.by_key
        if is_requested or is_running or (_is_quick(opened) and not was_cancelled(opened.jobs, "layouts")):
            _compare(opened, profile)
        stopped = stopped_comparison(opened, profile)
        if stopped is not None and stopped.results:
            finished_names = ", ".join(map(_strategy_title, stopped.results))
            st.info(
                markdown_escaped(
                    f"Stopped; these results are kept: {finished_names}. Compare continues with the others."
                )
            )
        st.caption("Each strategy runs with the default passes; each result is compared with the original.")
        return
    for name, fault in library.broken().items():
        show_error(f"Pass '{name}' cannot be used, since its file does not import: {fault}")
    device = _measure(opened, compared, *start)
    left, right = st.columns(_WIDTHS, gap="medium")
    with left:
        _table(opened, compared, device)
        _offer_timed(opened, compared, profile)
    with right:
        _side_by_side(opened, compared)


def _is_quick(opened: Opened) -> bool:
    """Whether all strategies take only seconds, so that they run without a click."""
    summary = opened.summary
    return summary.nodes <= _QUICK_NODES and summary.flops <= _QUICK_FLOPS and not summary.unknown_flops


def _offer_timed(opened: Opened, compared: ComparedLayouts, profile: Profile) -> None:
    """Draw the button for the strategies that run operators on this machine, which nothing starts unasked."""
    timed = [name for name, cls in library.compared_strategies().items() if cls.times_operators]
    missing = [name for name in timed if name not in compared.results]
    if not missing:
        return
    text, button = st.columns([5, 2], vertical_alignment="center")
    text.caption(markdown_escaped(f"{', '.join(missing)}: times operators of the model here, so it waits for a click."))
    is_requested = button.button("Time operators", key="compare_timed", width="stretch")
    if is_requested or "layouts" in opened.jobs.by_key:
        _compare(opened, profile, timed=True)


def _compare(opened: Opened, profile: Profile, timed: bool = False) -> None:
    forget_cancel(opened.jobs, "layouts")
    try:
        worker_devices()  # cached; it takes seconds the first time, and here the user waits anyway
        run_with_progress(
            opened.jobs,
            "layouts",
            f"Layouts of {opened.title}",
            lambda report: layouts_of(opened, profile, report, timed),
            worker(),
            request=profile,
        )
    except UserError as error:
        show_error(error)
        return
    st.rerun()


def _measure(opened: Opened, compared: ComparedLayouts, device_column: Any, start: Any) -> str:
    """Draw the choice of a device and the button that measures all results on it; returns the device, or ""."""
    try:
        names = [device["device"] for device in worker_devices()]
    except UserError as error:
        show_error(error)
        return ""
    gpu = next((index for index, name in enumerate(names) if name.startswith("cuda")), 0)
    device = device_column.selectbox("Device", names, gpu, key="layouts_device", persist_state="session")
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
        consequence = "earlier results are kept" if device in compared.measured else "nothing is measured yet"
        st.info(f"The measurement was cancelled; {consequence}.", icon=":material/block:")
        forget_cancel(opened.jobs, "latencies")
    result: str = device
    return result


def _commands(opened: Opened, compared: ComparedLayouts) -> dict[str, str]:
    """For each strategy, the command that produces its result, for the stored runs."""
    target = compared.profile.name
    return {
        name: optimize_text(opened.path, target=target, layout=None if name == "none" else name)
        for name in compared.results
    }


def _latencies(opened: Opened, compared: ComparedLayouts, device: str, report: Report, finish: Event) -> str:
    """Measure the results and store them among the runs; returns why storing failed, or ""."""
    graphs = {name: laid_out.history.graph for name, laid_out in compared.results.items()}
    measurement = compared.measured[device] = measure_here(opened, graphs, device, report, finish, repeat=REPEAT)
    return keep_measured(opened, measurement, _commands(opened, compared))


def _table(opened: Opened, compared: ComparedLayouts, device: str) -> None:
    """Draw one row per strategy; a click chooses the strategy for Optimize."""
    names = list(compared.results)

    def choose(row: int) -> None:
        st.session_state["strategy"] = names[row]

    first_columns = ["strategy", "required_layouts", "transposes", "bytes", "verdict"]
    measured = compared.measured.get(device)
    notes = [] if measured is None else busy_notes(measured.ran)
    rows = [_row(name, laid_out) for name, laid_out in compared.results.items()]
    if measured is not None:
        least = ["min"] if notes else []  # shown where the notes advise it
        first_columns = ["strategy", "required_layouts", "latency", *least, "ratio", "verdict"]
        rows = [{**row, **_latency(measured.variants.get(name))} for name, row in zip(names, rows, strict=True)]
    key = f"layouts_{opened.number}"
    table(
        rows,
        _COLUMNS,
        first=first_columns,
        max_rows=len(rows),
        row_height=_ROW,
        says_more=False,
        key=key,
        on_click=choose,
    )
    chosen = st.session_state.get("strategy", "none")
    text = (
        f"Click a strategy to use it on the page Optimize; now chosen there: {_strategy_title(chosen)}. "
        "The eye above the right end of the table shows all columns."
    )
    if all(laid_out.required.met == laid_out.required.total for laid_out in compared.results.values()):
        text = (
            "Every result meets what this profile requires, the model as it is too; choose another profile to see what "
            f"its layouts cost. {text}"
        )
    if measured is not None:
        text = " ".join([text, f"Measured on {measured.machine.device_name}.", *notes])
        say_failures(measured.failures.items())
    st.caption(markdown_escaped(text))


def _latency(variant: MeasuredVariant | FailedVariant | None) -> dict[str, Any]:
    if variant is None:
        return {"latency": None, "ratio": "measure again"}
    if isinstance(variant, FailedVariant):
        return {"latency": None, "ratio": "failed"}
    times = variant.latency
    return {"latency": times.median_ms, "min": times.min_ms, "ratio": ratio_with_interval(variant)}


def _row(name: str, laid_out: LaidOut) -> dict[str, Any]:
    row = laid_out.row()
    bound = "-" if row["lower_bound"] is None else f"{row['lower_bound']:,}{', reached' if row['certified'] else ''}"
    return {
        "strategy": _strategy_title(name),
        "required_layouts": str(laid_out.required),
        "transposes": row["transposes"],
        "elements": row["elements_moved"],
        "bytes": row["bytes_moved"],
        "bound": bound,
        "proof": row["proof"],
        "seconds": "-" if row["seconds"] is None else f"{row['seconds']:.2f}",
        "error": relative_error_text(row["max_rel_error"]),
        "verdict": verdict_label(row["verified"]),
    }


def _side_by_side(opened: Opened, compared: ComparedLayouts) -> None:
    """Draw two results side by side, with their differences marked."""
    names = list(compared.results)
    sides = st.columns(2, gap="small")
    keys = (f"layouts_left_{opened.number}", f"layouts_right_{opened.number}")
    left, right = (
        side.selectbox(text, names, index=start, key=key, format_func=_strategy_title)
        for side, text, start, key in zip(
            sides, ("Strategy", "compared with"), (0, names.index("optimal")), keys, strict=True
        )
    )
    moment = moment_of_pair(opened, compared, left, right)
    titles = (_strategy_title(left), _strategy_title(right))
    changes = moment.changes
    sentence = (
        f"{len(changes.removed):,} nodes of '{titles[0]}' are not in '{titles[1]}', {len(changes.added):,} of "
        f"'{titles[1]}' not in '{titles[0]}', and {len(changes.changed):,} differ"
    )
    shown = shown_pair(opened, (left, right, compared.profile), moment, titles, sentence, compared.profile)
    graph_view(f"pair_{opened.number}", shown, _PANES)


def _strategy_title(name: str) -> str:
    return _NO_STRATEGY if name == "none" else name
