"""The page Runs: stored measurements, compared side by side and over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from workbench.errors import UserError, counted
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.numbers import above_table, comparison, download_button, show_table
from workbench.interfaces.ui.widgets.parts import header, show_error
from workbench.pipeline.command_text import command_text
from workbench.presentation.charts.runs import Bar, Trend, change_chart, quartiles_chart
from workbench.run.measurement.formatting import speed_text
from workbench.run.records.changes import differences, kept_times, ratio_of, reliability, was_busy
from workbench.run.records.formats import csv_of, json_of, pairs
from workbench.run.records.store import MAX_RUNS, Run, find_runs, forget, model_hash, shown_location

_ROWS = 7  # visible without scrolling
_MAX_COMPARED = 12  # runs
_MAX_LINES = 8
_MAX_NAME = 60  # characters in a sentence
_COLUMNS = {
    "time (UTC)": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss", width=140),
    "model": st.column_config.TextColumn(width=150),
    "variant": st.column_config.TextColumn(width=170),
    "median (ms)": st.column_config.NumberColumn(format="%.3f", width=90),
    "peak memory (MB)": st.column_config.NumberColumn(format="%.2f", width=120),
    "threads": st.column_config.NumberColumn(width=60),
    "pipeline": st.column_config.TextColumn(width=240, help="The command that produces the variant; empty: as loaded."),
    "model file": st.column_config.TextColumn(width=110, help="First digits of the file's SHA-256."),
}


def runs_page() -> None:
    opened = optimized_here()
    if opened is None:
        return
    top, switch = above_table([7, 2])
    with top:
        header(opened)
    all_models = switch.toggle("Runs of all models", key="runs_of_all", persist_state="session")
    try:
        with st.spinner("Reading the runs"):
            location = shown_location()
            runs = find_runs(model_hash="" if all_models else model_hash(opened.graph))
        if not runs:
            _empty(all_models, location)
            return
        chosen = _table(opened, runs, all_models)
        _files(chosen, runs, location)
        _chosen(chosen, runs)
    except UserError as error:
        show_error(error)
        st.button("Try again", key="runs_again")


def _empty(all_models: bool, location: str) -> None:
    of_model = "" if all_models else " of this model"
    st.info(f"No run{of_model} is kept yet; measure on the page Measure or with `{command_text('bench')}`.")
    st.caption(f"Runs are kept in {markdown_escaped(location)}.")


def _table(opened: Opened, runs: Sequence[Run], all_models: bool) -> Sequence[Run]:
    """Draw one row per stored run; returns the selected runs, by default those of the last measurement."""
    rows = [_row(run) for run in runs]
    event = show_table(
        rows,
        columns=_COLUMNS,
        max_rows=_ROWS,
        first=[
            "time (UTC)",
            *(["model"] if all_models else []),
            "variant",
            "median (ms)",
            "peak memory (MB)",
            "pipeline",
        ],
        key=f"runs_{opened.number}_{all_models}_{runs[0].id}_{len(runs)}",  # rows are selected by number
        on_select="rerun",
        selection_mode="multi-row",
        selection_default={"selection": {"rows": _newest(runs)}},
    )
    return [runs[row] for row in event["selection"]["rows"]]


def _newest(runs: Sequence[Run]) -> list[int]:
    """The rows of the last measurement; if that has only one variant, of the last two runs."""
    same_measurement = [row for row, run in enumerate(runs) if run.measurement == runs[0].measurement]
    return same_measurement[:_MAX_COMPARED] if len(same_measurement) > 1 else list(range(min(2, len(runs))))


def _row(run: Run) -> dict[str, Any]:
    return {
        "time (UTC)": run.time,
        "model": run.model_name,
        "variant": run.label,
        "median (ms)": run.median_ms,
        "peak memory (MB)": None if run.peak_bytes is None else run.peak_bytes / 1e6,
        "device": run.device_name,
        "threads": run.threads,
        "backend": run.backend,
        "precision": run.dtype,
        "dims": pairs(run.dims),
        "pipeline": run.pipeline,
        "model file": run.model_hash[:12],
        "versions": pairs(run.versions),
    }


def _files(chosen: Sequence[Run], runs: Sequence[Run], location: str) -> None:
    """Draw the number and location of the runs, and buttons to download or forget the selected ones, or all."""
    text, forget_column, as_csv, as_json = st.columns([5, 2, 1, 1], vertical_alignment="center")
    limit_note = ", the newest" if len(runs) == MAX_RUNS else ""
    text.caption(
        markdown_escaped(
            f"{counted(len(runs), 'run')}{limit_note}, kept in {location}. Choose two or more to compare them."
        )
    )
    exported = chosen or runs
    download_button(as_csv, f"CSV of {len(exported):,}", csv_of(exported), "runs.csv", "runs_csv")
    document = partial(json_of, exported)  # records are large: read on demand
    download_button(as_json, f"JSON of {len(exported):,}", document, "runs.json", "runs_json")
    if chosen:
        _forget(forget_column, chosen)


def _forget(column: Any, chosen: Sequence[Run]) -> None:
    """Draw a button behind a confirmation, since the runs cannot be restored."""
    with column.popover(f"Forget {counted(len(chosen), 'run')}", width="stretch"):
        st.write("They are deleted from the database; this cannot be undone.")
        if st.button("Forget the chosen runs", type="primary", key="runs_forget"):
            forget([run.id for run in chosen])
            st.rerun()


def _chosen(chosen: Sequence[Run], runs: Sequence[Run]) -> None:
    """Draw the selected runs in sentences and side by side, and all runs of their kinds over time."""
    kinds = list(dict.fromkeys(map(_kind, chosen or runs)))
    compared = sorted(chosen, key=lambda run: (run.time, run.id))[-_MAX_COMPARED:]
    times = kept_times(compared)
    _say_differences(compared, times)
    if len(chosen) > _MAX_COMPARED:
        st.caption(f"{counted(len(chosen), 'run')} are selected; the newest {_MAX_COMPARED} of them are compared.")
    left, right = st.columns(2)
    with left:
        st.caption("Side by side: the median, and the range from the lower to the upper quartile")
        calm = [run for run in compared if not was_busy(run, times[run.id])]
        if calm:
            bars = [_quartiles(run, times[run.id], kinds.index(_kind(run))) for run in calm]
            st.plotly_chart(quartiles_chart(bars), key="runs_bars")
        if len(calm) < len(compared):
            st.caption(f"{counted(len(compared) - len(calm), 'run')} of a busy machine: not drawn.")
        if not compared:
            st.caption("No run is selected in the table.")
    with right:
        _over_time(kinds, runs)


# ---- side by side ------------------------------------------------------------------------


def _quartiles(run: Run, times_ms: Sequence[float], colour: int) -> Bar:
    low, high = np.percentile(times_ms, [25, 75])
    return Bar(run.label, f"{run.time:%d %b %H:%M:%S}", float(low), run.median_ms, float(high), colour)


def _say_differences(runs: Sequence[Run], times_ms: Mapping[int, Sequence[float]]) -> None:
    """Compare each run with the oldest: the ratio, the settings that differ, and how reliable the ratio is."""
    if len(runs) < 2:
        return
    first, *others = runs
    remarks = [reliability(first, other) for other in others]
    once = len(set(remarks)) == 1
    for other, remark in zip(others, remarks, strict=True):
        st.markdown(f"{_sentence(first, other, times_ms)}{'' if once else markdown_escaped(f' {remark}')}")
    if once:
        st.caption(markdown_escaped(remarks[0]))


def _sentence(first: Run, other: Run, times_ms: Mapping[int, Sequence[float]]) -> str:
    has_times = first.measurement != other.measurement
    text = speed_text(ratio_of(first, other, times_ms))
    speed = comparison(_name(other, has_times), text, _name(first, has_times))
    result = "; ".join(differences(first, other))
    settings_text = markdown_escaped(f"Different: {result}." if result else "No setting differs.")
    return f"{speed} {settings_text}"


def _name(run: Run, with_time: bool) -> str:
    label = run.label if len(run.label) <= _MAX_NAME else f"{run.label[:_MAX_NAME]}..."
    return f"{label} of {run.time:%d %b %H:%M:%S}" if with_time else label


# ---- over time ---------------------------------------------------------------------------


def _kind(run: Run) -> tuple[str, ...]:
    """The properties that the runs of one line in the chart share; the label is the first."""
    device = f"{run.device_name}, {run.threads} threads"
    return (run.label, run.backend, run.dtype, pairs(run.dims), device, run.model_hash[:12], run.pipeline)


def _over_time(kinds: Sequence[tuple[str, ...]], runs: Sequence[Run]) -> None:
    """Draw one line per kind, named by its label and, if several kinds have the same label, by what else differs."""
    shown = kinds[:_MAX_LINES]
    more = (
        f"; {len(shown)} of {len(kinds):,} kinds shown; select others in the table" if len(kinds) > len(shown) else ""
    )
    st.caption(f"Over time: medians of all runs of the same kind{more}")
    parts = list(zip(*shown, strict=True))
    distinguishable = len(set(parts[0])) == len(shown)
    shown_parts = (
        [0] if distinguishable else [0, *(index for index in range(1, len(parts)) if len(set(parts[index])) > 1)]
    )
    lines = []
    for kind in shown:
        of_kind = sorted((run for run in runs if _kind(run) == kind), key=lambda run: run.time)
        name = ", ".join(kind[index] or "as loaded" for index in shown_parts)
        lines.append(Trend(name, [run.time for run in of_kind], [run.median_ms for run in of_kind]))
    st.plotly_chart(change_chart(lines), key="runs_lines")
