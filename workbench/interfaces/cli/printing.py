"""Printing shared by commands: lines, tables, cells, JSON files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from workbench.errors import printable
from workbench.run.verdict_words import relative_error_text
from workbench.support.files import write_text


def say(text: str, file: TextIO | None = None) -> None:
    """Print without control characters: names come from files, and must not control the terminal."""
    print(printable(text), file=file)


def print_table(rows: Sequence[tuple[str, ...]], left: tuple[int, ...]) -> None:
    """Print rows in columns, the first row as header. left: the columns aligned on the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        say("  ".join(cells).rstrip())


def write_json(path: str, content: Any) -> None:
    """Write the content as JSON. Raises UserError."""
    write_text(path, json.dumps(content, indent=1) + "\n")


_CELLS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "median ms": lambda row: f"{row['median_ms']:,.2f}",
    "+- ms": lambda row: f"{row['median_error_ms']:,.2f}",
    "min": lambda row: f"{row['min_ms']:,.2f}",
    "p90": lambda row: f"{row['p90_ms']:,.2f}",
    "p99": lambda row: f"{row['p99_ms']:,.2f}",
    "ratio": lambda row: "busy" if row["ratio_busy"] else f"{row['ratio']:.3f}",
    "ratio, 95 % interval": lambda row: (
        "-" if row["ratio_busy"] else f"{row['ratio_low']:.3f} to {row['ratio_high']:.3f}"
    ),
    "first result s": lambda row: f"{row['first_result_s']:,.2f}",
    "peak MB": lambda row: f"{row['peak_bytes'] / 1e6:,.1f}",
    "peak covers": lambda row: row["peak_counted"],
    "max error": lambda row: relative_error_text(row["max_rel_error"]),
}


def cells_of(row: Mapping[str, Any], headings: Sequence[str]) -> tuple[str, ...]:
    """The cells of a measured variant under these headings. row: of `workbench.run.measurement.formatting.figures`."""
    if row["failed"]:
        return ("failed", *("-" for _ in headings[1:]))
    return tuple(_CELLS[heading](row) for heading in headings)


def megabytes(size: int) -> str:
    """The number of bytes as text: "1.50 MB"."""
    return f"{size / 1e6:,.2f} MB"


def warn(warnings: Sequence[str]) -> None:
    """Print warnings on stderr, one per line, each after "note: "."""
    for warning in warnings:
        say(f"note: {' '.join(warning.split())}", sys.stderr)
