"""The page docs/results.md, drawn from the files of docs/results."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from benchmarks.results_summary import summary
from workbench.run.records.published import PublishedMeasurement, PublishedPart, PublishedTable

_WIDTH = 120  # characters of a line of text
_ABOUT = (
    "Drawn from the files of `docs/results` by `python benchmarks/results.py`, which measured every number here, also "
    "the unfavourable ones. The lines above are counted from the tables below. The page Measure of the app shows the "
    "rows about the open model.",
    "The machine and the date are below each table. Other work on the machine changes times; compare within one table, "
    "not between tables or machines. Except for the last part, nothing here ran on a GPU. On one, "
    "`benchmarks/layouts.py`, `benchmarks/running.py`, `benchmarks/resnet101.py`, `benchmarks/memory.py`, "
    "`benchmarks/peaks.py` and `benchmarks/lanes.py` print the same tables with `--device cuda`.",
)


def results_page(parts: Sequence[PublishedPart]) -> str:
    """The page as Markdown: the claims, then every part that was measured."""
    shown = {part.name: part for part in parts if part.measurements}
    return drawn(["# Results", summary(shown), *_ABOUT, *(item for part in shown.values() for item in _items(part))])


def _items(part: PublishedPart) -> Iterable[str | PublishedTable]:
    yield f"## {part.title}"
    yield from part.about
    for measurement in part.measurements:
        yield from measurement_items(measurement)


def measurement_items(measurement: PublishedMeasurement) -> list[str | PublishedTable]:
    return [*measurement.content, measurement.origin]


def drawn(items: Iterable[str | PublishedTable]) -> str:
    """Paragraphs and tables as the text of a Markdown file."""
    blocks = (item.markdown if isinstance(item, PublishedTable) else _wrapped(item) for item in items)
    return "\n\n".join(blocks) + "\n"


def _wrapped(paragraph: str) -> str:
    return textwrap.fill(paragraph, _WIDTH, break_long_words=False, break_on_hyphens=False)
