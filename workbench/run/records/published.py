"""The published figures: what the benchmarks measured, as data, a file for each benchmark, in docs/results.

    {"title": "...", "about": ["paragraph"],
     "measurements": [{"date": "2026-11-26", "machine": "...", "versions": {"onnx": "1.23.2"},
                       "content": ["paragraph", {"columns": ["model", "median ms"], "rows": [["bert", "0.50"]]}]}]}

Paragraphs and cells are Markdown. A cell is text, since its digits say how precisely the figure is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from workbench.errors import UserError, reading

_PACKAGE = Path(__file__).resolve().parents[2]
_INSTALLED = _PACKAGE / "published"
PUBLISHED_FOLDER = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent / "docs" / "results"


class PublishedError(UserError):
    """A file of published figures cannot be read."""


@dataclass(frozen=True)
class PublishedTable:
    """columns: the headings, with the units. rows: cells, as many as there are columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def markdown(self) -> str:
        lines = [self.columns, *self.rows]
        head, *rows = (f"| {' | '.join(cells)} |" for cells in lines)
        return "\n".join([head, "|" + "---|" * len(self.columns), *rows])

    def only_about(self, model: str) -> PublishedTable:
        """The table with only the rows that name this model in their first cell, alone or after a comma."""
        return replace(self, rows=tuple(row for row in self.rows if model in row[0].split(", ")))


@dataclass(frozen=True)
class PublishedMeasurement:
    """What was measured at one time. date: ISO. versions: of packages, by name. content: paragraphs and tables."""

    date: str
    machine: str
    versions: Mapping[str, str]
    content: tuple[str | PublishedTable, ...]

    @property
    def origin(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"Measured {self.date} on {self.machine}; {versions}."

    @property
    def tables(self) -> list[PublishedTable]:
        return [item for item in self.content if isinstance(item, PublishedTable)]

    def only_about(self, model: str) -> PublishedMeasurement:
        """The measurement with only the tables that have rows about this model, and these rows."""
        tables = (table.only_about(model) for table in self.tables)
        return replace(self, content=tuple(table for table in tables if table.rows))


@dataclass(frozen=True)
class PublishedPart:
    """What one benchmark measured. name: of its file. about: paragraphs on what is measured, and how."""

    name: str
    title: str
    about: tuple[str, ...]
    measurements: tuple[PublishedMeasurement, ...]

    @property
    def anchor(self) -> str:
        """Of its heading in a page of the site."""
        return re.sub(r"[^a-z0-9 -]", "", self.title.lower()).replace(" ", "-")


def published_about(model: str) -> list[PublishedPart]:
    """The parts with the rows about this model, each measurement with these tables alone. Raises PublishedError."""
    found = []
    for part in _parts_in(PUBLISHED_FOLDER):
        measurements = (one.only_about(model) for one in part.measurements)
        if kept := tuple(one for one in measurements if one.content):
            found.append(replace(part, measurements=kept))
    return found


@cache
def _parts_in(folder: Path) -> list[PublishedPart]:
    return [read_published(file) for file in sorted(folder.glob("*.json"))]


def read_published(file: Path) -> PublishedPart:
    """Raises PublishedError."""
    try:
        with reading(f"the file of figures '{file}'", PublishedError, "restore it, or install the program again"):
            read = json.loads(file.read_text(encoding="utf-8"))
            measurements = tuple(map(_measurement, read["measurements"]))
            return PublishedPart(file.stem, _text(read["title"]), _texts(read["about"]), measurements)
    except OSError as error:
        raise PublishedError(f"the file of figures '{file}' cannot be read: {error.strerror or error}") from None


def published_text(part: PublishedPart) -> str:
    """The text of the part's file, with each paragraph and each row of a table in one line."""
    measurements = [_fields(measurement) for measurement in part.measurements]
    return _json({"title": part.title, "about": [*part.about], "measurements": measurements}) + "\n"


def _measurement(read: Mapping[str, Any]) -> PublishedMeasurement:
    versions = {name: _text(version) for name, version in read["versions"].items()}
    content = tuple(item if isinstance(item, str) else _table(item) for item in read["content"])
    return PublishedMeasurement(_text(read["date"]), _text(read["machine"]), versions, content)


def _table(read: Mapping[str, Any]) -> PublishedTable:
    columns, rows = _texts(read["columns"]), tuple(map(_texts, read["rows"]))
    if any(len(row) != len(columns) for row in rows):
        raise ValueError(f"a row has not {len(columns)} cells")
    return PublishedTable(columns, rows)


def _texts(read: Any) -> tuple[str, ...]:
    if not isinstance(read, list):
        raise TypeError(f"{read!r} is not a list")
    return tuple(map(_text, read))


def _text(read: Any) -> str:
    if not isinstance(read, str):
        raise TypeError(f"{read!r} is not text")
    return read


def _fields(measurement: PublishedMeasurement) -> dict[str, Any]:
    content = [
        item if isinstance(item, str) else {"columns": item.columns, "rows": [*item.rows]}
        for item in measurement.content
    ]
    return {**asdict(measurement), "content": content}


def _json(value: Any, indent: str = "\n") -> str:
    """JSON in which dicts and lists have a line for each item, and tuples are lists in one line."""
    inner = indent + " "
    if isinstance(value, dict):
        items = [f"{json.dumps(name)}: {_json(item, inner)}" for name, item in value.items()]
    elif isinstance(value, list):
        items = [_json(item, inner) for item in value]
    else:
        items = []
    if not items:
        return json.dumps(value, ensure_ascii=False)
    start, end = "{}" if isinstance(value, dict) else "[]"
    return f"{start}{inner}{f',{inner}'.join(items)}{indent}{end}"
