"""How pages show measured numbers: tables, their downloads, sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import streamlit as st

from workbench.run.measurement.formatting import csv_text
from workbench.run.verdict_words import error_words
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.widgets.tables import table

_DECIMALS = {
    3: ("median (ms)", "± 95 % (ms)", "min (ms)", "p90 (ms)", "p99 (ms)", "cold (ms)", "ratio", "first result (s)"),
    2: ("peak memory (MB)", "weights (MB)", "reserved (MB)", "process grew (MB)"),
}
_COLUMNS = {name: decimals for decimals, names in _DECIMALS.items() for name in names}

MEASURED = ("median (ms)", "ratio", "peak memory (MB)")  # what a table of `measured_cells` shows at first
_SOMETIMES = (
    ("cold_median_ms", "cold (ms)", 1),
    ("reserved_bytes", "reserved (MB)", 1e6),
    ("process_bytes", "process grew (MB)", 1e6),
)

_Row = Mapping[str, Any]


# ---- tables ------------------------------------------------------------------------------


def show_table(
    rows: Sequence[_Row],
    decimals: Mapping[str, int] | None = None,
    columns: Mapping[str, Any] | None = None,
    **how: Any,
) -> Any:
    """A `table` of measured numbers.

    decimals: of columns that `measured_cells` does not have. columns: how others are drawn. how: see `table`.
    """
    formats = {
        name: st.column_config.NumberColumn(format=f"%.{digits}f")
        for name, digits in {**_COLUMNS, **(decimals or {})}.items()
    }
    return table(rows, {**formats, **(columns or {})}, **how)


def above_table(widths: Sequence[float]) -> list[Any]:
    """Columns of a line above a table; after them is room for the toolbar that the table shows under the pointer."""
    return list(st.columns([*widths, sum(widths) / 4], vertical_alignment="bottom"))[:-1]


def download_button(place: Any, label: str, content: str | Callable[[], str], name: str, key: str) -> None:
    """A button that downloads a file.

    content: a function, called on the click, only where making it is slow: Streamlit forgets the function when the
    page runs again, and a click at that moment fails ("Failed to generate file for download").
    """
    kind = "application/json" if name.endswith(".json") else "text/csv"
    place.download_button(label, content, name, kind, key=key, width="stretch", on_click="ignore")


def shown_csv(rows: Sequence[_Row]) -> str:
    """The rows as CSV, with all columns that occur in any of them."""
    return csv_text(dict.fromkeys(name for row in rows for name in row), rows)


def measured_cells(row: _Row) -> dict[str, Any]:
    """A variant's measurements, under names with units. row: see `formatting.figures`."""
    return {
        "median (ms)": row["median_ms"],
        "± 95 % (ms)": row["median_error_ms"],
        "min (ms)": row["min_ms"],
        "p90 (ms)": row["p90_ms"],
        "p99 (ms)": row["p99_ms"],
        "runs": row["runs"],
        "ratio": None if row["ratio_busy"] else row["ratio"],
        "95 % between": ratio_interval(row),
        "first result (s)": row["first_result_s"],
        "peak memory (MB)": row["peak_bytes"] / 1e6,
        "peak is of": row["peak_counted"],
        "weights (MB)": row["weights_bytes"] / 1e6,
        "error against ONNX Runtime": error_words(row["max_rel_error"]),
        **{name: row[key] / scale for key, name, scale in _SOMETIMES if row[key] is not None},
    }


def ratio_interval(result: _Row) -> str:
    """The ratio's confidence interval, or "busy" if the machine was too busy for one."""
    return "busy" if result["ratio_busy"] else f"{result['ratio_low']:.2f} and {result['ratio_high']:.2f}"


# ---- sentences ---------------------------------------------------------------------------


def comparison(name: str, words: str, first: str) -> str:
    """The speed of a variant relative to another, as Markdown. words: see `formatting.speed_words`."""
    return f"**{markdown_escaped(name)}** is {markdown_escaped(words)} **{markdown_escaped(first)}**."


def say_failures(failures: Iterable[tuple[str, str]]) -> None:
    """Show each error sentence once, with everything that failed for it. failures: (what failed, sentence)."""
    by_sentence: dict[str, list[str]] = {}
    for what, sentence in failures:
        by_sentence.setdefault(sentence, []).append(what)
    for sentence, which in by_sentence.items():
        st.warning(markdown_escaped(f"{', '.join(which)}: {sentence}"), icon=":material/error:")
