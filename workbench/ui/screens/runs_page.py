"""Runs: the measurements that were kept, compared side by side and over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from workbench.charts.runs import Bar, Trend, change_chart, quartiles_chart
from workbench.errors import UserError, counted
from workbench.pipeline.command_text import command_text
from workbench.run.measurement.formatting import speed_words
from workbench.run.records.changes import differences, kept_times, meaning, ratio_of
from workbench.run.records.formats import csv_of, json_of, pairs
from workbench.run.records.store import MOST, Run, find_runs, forget, model_hash, shown_place
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.session import Opened
from workbench.ui.widgets.numbers import above_table, comparison, download_button, show_table
from workbench.ui.widgets.parts import header, opened_here, show_error

_ROWS = 7  # visible without scrolling
_MOST_COMPARED = 12  # runs
_MOST_LINES = 8
_LONGEST_NAME = 60  # characters in a sentence
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
    opened = opened_here()
    if opened is None:
        return
    top, switch = above_table([7, 2])
    with top:
        header(opened)
    every = switch.toggle("Runs of all models", key="runs_of_all", persist_state="session")
    try:
        with st.spinner("Reading the runs"):
            place = shown_place()
            runs = find_runs(model_hash="" if every else model_hash(opened.graph))
        if not runs:
            _empty(every, place)
            return
        chosen = _table(opened, runs, every)
        _files(chosen, runs, place)
        _chosen(chosen, runs)
    except UserError as error:
        show_error(error)
        st.button("Try again", key="runs_again")


def _empty(every: bool, place: str) -> None:
    whose = "" if every else " of this model"
    st.info(f"No run{whose} is kept yet; measure on the page Measure or with `{command_text('bench')}`.")
    st.caption(f"Runs are kept in {markdown_escaped(place)}.")


def _table(opened: Opened, runs: Sequence[Run], every: bool) -> Sequence[Run]:
    """Draw the kept runs, one row each; returns the selected ones, at first those of the last measurement."""
    rows = [_row(run) for run in runs]
    event = show_table(
        rows,
        columns=_COLUMNS,
        most=_ROWS,
        first=["time (UTC)", *(["model"] if every else []), "variant", "median (ms)", "peak memory (MB)", "pipeline"],
        key=f"runs_{opened.number}_{every}_{runs[0].id}_{len(runs)}",  # new for other runs: rows are selected by number
        on_select="rerun",
        selection_mode="multi-row",
        selection_default={"selection": {"rows": _newest(runs)}},
    )
    return [runs[row] for row in event["selection"]["rows"]]


def _newest(runs: Sequence[Run]) -> list[int]:
    """The rows of the last measurement, or, if that had only one variant, of the last two runs."""
    together = [row for row, run in enumerate(runs) if run.measurement == runs[0].measurement]
    return together[:_MOST_COMPARED] if len(together) > 1 else list(range(min(2, len(runs))))


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


def _files(chosen: Sequence[Run], runs: Sequence[Run], place: str) -> None:
    """The number of runs and where they are kept; buttons to download the selected runs, or all, and to forget them."""
    words, away, as_csv, as_json = st.columns([5, 2, 1, 1], vertical_alignment="center")
    most = ", the newest" if len(runs) == MOST else ""
    words.caption(
        markdown_escaped(f"{counted(len(runs), 'run')}{most}, kept in {place}. Choose two or more to compare them.")
    )
    wanted = chosen or runs
    download_button(as_csv, f"CSV of {len(wanted):,}", csv_of(wanted), "runs.csv", "runs_csv")
    whole = partial(json_of, wanted)  # records are large: read on demand
    download_button(as_json, f"JSON of {len(wanted):,}", whole, "runs.json", "runs_json")
    if chosen:
        _forget(away, chosen)


def _forget(place: Any, chosen: Sequence[Run]) -> None:
    """A button behind a confirmation, since the runs cannot be restored."""
    with place.popover(f"Forget {counted(len(chosen), 'run')}", width="stretch"):
        st.write("They are deleted from the database; this cannot be undone.")
        if st.button("Forget the chosen runs", type="primary", key="runs_forget"):
            forget([run.id for run in chosen])
            st.rerun()


def _chosen(chosen: Sequence[Run], runs: Sequence[Run]) -> None:
    """The selected runs in sentences and side by side; all runs of their kinds over time."""
    kinds = list(dict.fromkeys(map(_kind, chosen or runs)))
    compared = sorted(chosen, key=lambda run: (run.time, run.id))[-_MOST_COMPARED:]
    times = kept_times(compared)
    _say_differences(compared, times)
    if len(chosen) > _MOST_COMPARED:
        st.caption(f"{counted(len(chosen), 'run')} are selected; the newest {_MOST_COMPARED} of them are compared.")
    left, right = st.columns(2)
    with left:
        st.caption("Side by side: the median, and the range from the lower to the upper quartile")
        if compared:
            bars = [_quartiles(run, times[run.id], kinds.index(_kind(run))) for run in compared]
            st.plotly_chart(quartiles_chart(bars), key="runs_bars")
        else:
            st.caption("No run is selected in the table.")
    with right:
        _over_time(kinds, runs)


# ---- side by side ------------------------------------------------------------------------


def _quartiles(run: Run, times_ms: Sequence[float], colour: int) -> Bar:
    low, high = np.percentile(times_ms, [25, 75])
    return Bar(run.label, f"{run.time:%d %b %H:%M:%S}", float(low), run.median_ms, float(high), colour)


def _say_differences(runs: Sequence[Run], times_ms: Mapping[int, Sequence[float]]) -> None:
    """Each run against the oldest: the ratio, the settings that differ, and how reliable the ratio is."""
    if len(runs) < 2:
        return
    first, *others = runs
    meanings = [meaning(first, other) for other in others]
    once = len(set(meanings)) == 1
    for other, means in zip(others, meanings, strict=True):
        st.markdown(f"{_sentence(first, other, times_ms)}{'' if once else markdown_escaped(f' {means}')}")
    if once:
        st.caption(markdown_escaped(meanings[0]))


def _sentence(first: Run, other: Run, times_ms: Mapping[int, Sequence[float]]) -> str:
    apart = first.measurement != other.measurement
    words = speed_words(ratio_of(first, other, times_ms))
    speed = comparison(_name(other, apart), words, _name(first, apart))
    result = "; ".join(differences(first, other))
    what = markdown_escaped(f"Different: {result}." if result else "No setting differs.")
    return f"{speed} {what}"


def _name(run: Run, with_time: bool) -> str:
    label = run.label if len(run.label) <= _LONGEST_NAME else f"{run.label[:_LONGEST_NAME]}..."
    return f"{label} of {run.time:%d %b %H:%M:%S}" if with_time else label


# ---- over time ---------------------------------------------------------------------------


def _kind(run: Run) -> tuple[str, ...]:
    """The properties that the runs on one line of the chart share, the label first."""
    device = f"{run.device_name}, {run.threads} threads"
    return (run.label, run.backend, run.dtype, pairs(run.dims), device, run.model_hash[:12], run.pipeline)


def _over_time(kinds: Sequence[tuple[str, ...]], runs: Sequence[Run]) -> None:
    """One line per kind, named by its label and, if several kinds share one, by what else differs."""
    shown = kinds[:_MOST_LINES]
    more = f"; {len(shown)} of {len(kinds):,} kinds, select others in the table" if len(kinds) > len(shown) else ""
    st.caption(f"Over time: medians of all runs of the same kind{more}")
    parts = list(zip(*shown, strict=True))
    distinguishable = len(set(parts[0])) == len(shown)
    named = [0] if distinguishable else [0, *(place for place in range(1, len(parts)) if len(set(parts[place])) > 1)]
    lines = []
    for kind in shown:
        of_kind = sorted((run for run in runs if _kind(run) == kind), key=lambda run: run.time)
        name = ", ".join(kind[place] or "as loaded" for place in named)
        lines.append(Trend(name, [run.time for run in of_kind], [run.median_ms for run in of_kind]))
    st.plotly_chart(change_chart(lines), key="runs_lines")
