"""The pages of the results as Markdown: docs/results.md, and a page of the site for each group of benchmarks."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.publishing.groups import GROUPS, NAMES, Group
from benchmarks.publishing.summary import summary
from workbench.run.records.published import PublishedPart, PublishedTable, read_published

DATA = Path(__file__).resolve().parents[2] / "docs" / "results"
# The parts whose first table stands in docs/results.md too.
SHOWN = ("simplify", "written", "verified", "tuning", "on_gpu")
_WIDTH = 120  # characters of a line of text
_ABOUT = (
    "Drawn from the files of `docs/results` by `python -m benchmarks draw`; `python -m benchmarks publish` measured "
    "every number, also the unfavourable ones. The lines above are counted from the tables. The page Measure of the "
    "app shows the rows about the open model.",
    "The machine and the date are below each table. Other work on the machine changes times; compare within one table, "
    "not between tables or machines. Except for the last part, nothing here ran on a GPU. On one, the benchmarks "
    "`layouts`, `running`, `resnet101`, `memory`, `peaks` and `streams` make the same tables with `--device cuda`.",
)
_ALL = (
    "`python -m benchmarks NAME` measures one again. The site has each table as a page, and a file of `docs/results` "
    "has it as data, with what was measured and how."
)


def published_parts() -> dict[str, PublishedPart]:
    """The parts that were measured by name, in the order of the groups. Raises PublishedError."""
    parts = {name: read_published(DATA / f"{name}.json") for name in NAMES}
    return {name: part for name, part in parts.items() if part.measurements}


def results_page(parts: Mapping[str, PublishedPart]) -> str:
    """docs/results.md: the claims, a few tables, and where all of them are."""
    shown = (item for name in SHOWN for item in _first_table(parts[name]))
    return drawn(["# Results", summary(parts), *_ABOUT, *shown, "## All tables", _ALL]) + "\n" + _list(parts)


def group_page(group: Group, parts: Mapping[str, PublishedPart]) -> str:
    """The page of the site with every table of a group. Links in the files are those of a page of docs/."""
    text = drawn([f"# {group.title}", *(item for part in _of(group, parts) for item in _items(part))])
    return re.sub(r"\]\((?!https?:|#)", "](../", text)


def places(parts: Mapping[str, PublishedPart]) -> dict[str, str]:
    """By the files of docs/results where the site has them: results/engine.json -> results/engine.md#the-engine."""
    return {
        f"results/{part.name}.json": f"results/{group.place}.md#{part.anchor}"
        for group in GROUPS
        for part in _of(group, parts)
    }


def _of(group: Group, parts: Mapping[str, PublishedPart]) -> list[PublishedPart]:
    return [parts[name] for name in group.names if name in parts]


def _first_table(part: PublishedPart) -> Iterable[str | PublishedTable]:
    """Its heading, its first table with the lines above that, and a link to the rest."""
    measurement = part.measurements[0]
    number = next(i for i, item in enumerate(measurement.content) if isinstance(item, PublishedTable))
    yield f"## {part.title}"
    yield measurement.content[number]
    yield f"{measurement.origin} What was measured, and how: [{part.name}](results/{part.name}.json)."


def _list(parts: Mapping[str, PublishedPart]) -> str:
    """The groups, and below each the links to its files."""
    lines = []
    for group in GROUPS:
        lines.append(f"- {group.title}\n")
        lines += [f"    - [{part.title}](results/{part.name}.json)\n" for part in _of(group, parts)]
    return "".join(lines)


def _items(part: PublishedPart) -> Iterable[str | PublishedTable]:
    yield f"## {part.title}"
    yield from part.about
    for measurement in part.measurements:
        yield from (*measurement.content, measurement.origin)


def drawn(items: Iterable[str | PublishedTable]) -> str:
    """Paragraphs and tables as the text of a Markdown file."""
    blocks = (item.markdown if isinstance(item, PublishedTable) else _wrapped(item) for item in items)
    return "\n\n".join(blocks) + "\n"


def _wrapped(paragraph: str) -> str:
    return textwrap.fill(paragraph, _WIDTH, break_long_words=False, break_on_hyphens=False)


def without_versions(columns: Iterable[str]) -> tuple[str, ...]:
    """The headings of a table, "onnxsim" for "onnxsim 0.8.1": another version makes the same table."""
    return tuple(re.sub(r" \d+(\.\d+)+", "", column) for column in columns)
