"""Measured numbers on pages: tables, their downloads, sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import streamlit as st

from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.widgets.tables import table
from workbench.run.measurement.formatting import csv_text, figures
from workbench.run.measurement.measurement_result import MeasuredVariant
from workbench.run.verdict_words import relative_error_text

_DECIMALS = {
    3: ("median (ms)", "± 95 % (ms)", "min (ms)", "p90 (ms)", "p99 (ms)", "cold (ms)", "ratio", "first result (s)"),
    2: ("weights (MB)", "reserved (MB)", "growth of the process (MB)"),
}
_COLUMNS = {name: decimals for decimals, names in _DECIMALS.items() for name in names}

_PEAK = "peak of "  # prefix of a column of peaks; peaks that cover different memory have different columns
_OPTIONAL = (
    ("cold_median_ms", "cold (ms)", 1),
    ("reserved_bytes", "reserved (MB)", 1e6),
    ("process_bytes", "growth of the process (MB)", 1e6),
)

_Row = Mapping[str, Any]


# ---- tables ------------------------------------------------------------------------------


def show_table(
    rows: Sequence[_Row],
    decimals: Mapping[str, int] | None = None,
    columns: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """A `table` of measured numbers.

    decimals: for columns that `measured_cells` does not have. columns: see `table`. options: further arguments of it.
    """
    peaks = {name: 2 for row in rows for name in row if name.startswith(_PEAK)}
    formats = {
        name: st.column_config.NumberColumn(format=f"%.{digits}f")
        for name, digits in {**_COLUMNS, **peaks, **(decimals or {})}.items()
    }
    return table(rows, {**formats, **(columns or {})}, **options)


def above_table(widths: Sequence[float]) -> list[Any]:
    """Columns of a line above a table, which leave room for the table's toolbar on the right."""
    return list(st.columns([*widths, sum(widths) / 4], vertical_alignment="bottom"))[:-1]


def download_button(column: Any, label: str, content: str | Callable[[], str], name: str, key: str) -> None:
    """A button that downloads a file.

    content: a text; or, if making it is slow, a function that is called on the click. Streamlit forgets the function
    when the page runs again, and a click at that moment fails ("Failed to generate file for download").
    """
    kind = "application/json" if name.endswith(".json") else "text/csv"
    column.download_button(label, content, name, kind, key=key, width="stretch", on_click="ignore")


def shown_csv(rows: Sequence[_Row]) -> str:
    """The rows as CSV, with all columns that occur in any of them."""
    return csv_text(dict.fromkeys(name for row in rows for name in row), rows)


def measured_cells(row: _Row) -> dict[str, Any]:
    """A variant's numbers by column names with units. row: see `formatting.figures`."""
    return {
        "median (ms)": row["median_ms"],
        "± 95 % (ms)": row["median_error_ms"],
        "min (ms)": row["min_ms"],
        "p90 (ms)": row["p90_ms"],
        "p99 (ms)": row["p99_ms"],
        "runs": row["runs"],
        "ratio": None if row["ratio_busy"] else row["ratio"],
        "ratio, 95 % interval": ratio_interval(row),
        "first result (s)": row["first_result_s"],
        f"{_PEAK}{row['peak_counted']} (MB)": row["peak_bytes"] / 1e6,
        "weights (MB)": row["weights_bytes"] / 1e6,
        "error against ONNX Runtime": relative_error_text(row["max_rel_error"]),
        **{name: row[key] / scale for key, name, scale in _OPTIONAL if row[key] is not None},
    }


def measured_columns(rows: Sequence[_Row]) -> list[str]:
    """The columns of `measured_cells` that a table of these rows shows at first.

    On a busy machine that includes the minimum, which the notes then advise to use.
    """
    is_busy = any(row["ratio, 95 % interval"] == "busy" for row in rows)
    peaks = dict.fromkeys(name for row in rows for name in row if name.startswith(_PEAK))
    return ["median (ms)", *(["min (ms)"] if is_busy else []), "ratio", *peaks]


def ratio_interval(result: _Row) -> str:
    """The ratio's confidence interval, or "busy" if the machine was too busy for one."""
    return "busy" if result["ratio_busy"] else f"{result['ratio_low']:.2f} to {result['ratio_high']:.2f}"


def ratio_with_interval(variant: MeasuredVariant) -> str:
    """The ratio with its interval, "0.69 (0.68 to 0.70)", or "busy"."""
    interval = ratio_interval(figures(variant))
    return interval if variant.ratio.ratio_busy else f"{variant.ratio.ratio:.2f} ({interval})"


# ---- sentences ---------------------------------------------------------------------------


def comparison(name: str, speed: str, first: str) -> str:
    """The speed of a variant relative to another, as Markdown. speed: see `formatting.speed_text`."""
    return f"**{markdown_escaped(name)}** is {markdown_escaped(speed)} **{markdown_escaped(first)}**."


def say_failures(failures: Iterable[tuple[str, str]]) -> None:
    """Show each error sentence once, with all that failed with it. failures: pairs of a name and a sentence."""
    by_sentence: dict[str, list[str]] = {}
    for what, sentence in failures:
        by_sentence.setdefault(sentence, []).append(what)
    for sentence, which in by_sentence.items():
        st.warning(markdown_escaped(f"{', '.join(which)}: {sentence}"), icon=":material/error:")
