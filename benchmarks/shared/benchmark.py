"""What a benchmark is: the tables that it makes, the options that it takes, the runs that are published."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workbench.run.records.published import PublishedMeasurement, PublishedTable

ROOT = Path(__file__).resolve().parents[2]

Row = tuple[str, ...]
Item = str | PublishedTable | Row  # a paragraph; a table, often without rows yet; a row of the table before it
Content = list[str | PublishedTable]


@dataclass(frozen=True)
class Option:
    """An argument of the command line, in the words of argparse."""

    names: tuple[str, ...]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class RealModels:
    """The models that are published besides the samples. folder: of them. instances: the folder of MiniMalloc's."""

    folder: Path | None = None
    instances: Path | None = None

    @property
    def files(self) -> list[Path]:
        return [] if self.folder is None else sorted(self.folder.resolve().glob("*.onnx"))

    @property
    def paths(self) -> list[str]:
        """Those that are no samples."""
        samples = {path.name for path in (ROOT / "sample_models").glob("*.onnx")}
        return [str(path) for path in self.files if path.name not in samples]

    def named(self, *stems: str) -> list[str]:
        return [str(path) for path in self.files if path.stem in stems]


CommandLines = Callable[[RealModels], list[list[str]]]


def once(real: RealModels) -> list[list[str]]:
    """Published is one run without arguments."""
    return [[]]


def default_and_real(real: RealModels) -> list[list[str]]:
    """Published is one run on the default models and the real ones."""
    return [["--and-default", *real.paths]]


@dataclass(frozen=True)
class Benchmark:
    """The specification of a benchmark, as `BENCHMARK` in its module.

    measure:      yields paragraphs, tables and rows as they are known.
    tables:       every table that it makes, without rows.
    published:    the command lines whose results are its file in docs/results, one after the other.
    measurements: in place of them, what other machines measured.
    """

    measure: Callable[[argparse.Namespace], Iterable[Item]]
    tables: tuple[PublishedTable, ...]
    options: tuple[Option, ...] = ()
    published: CommandLines = once
    measurements: Callable[[], list[PublishedMeasurement]] | None = None
    name: str = field(default="", compare=False)
    about: str = field(default="", compare=False)

    def run(self, argv: Sequence[str]) -> Iterable[Item]:
        """Its results with these arguments."""
        parser = argparse.ArgumentParser(
            prog=f"python -m benchmarks {self.name}",
            description=self.about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for one in self.options:
            parser.add_argument(*one.names, **one.settings)
        return self.measure(parser.parse_args(argv))


def benchmark(name: str) -> Benchmark:
    """The benchmark of that module, with its docstring."""
    module = importlib.import_module(f"benchmarks.{name}")
    return replace(module.BENCHMARK, name=name, about=module.__doc__ or "")


def table(*columns: str) -> PublishedTable:
    """The head of a table, without rows."""
    return PublishedTable(columns, ())


def option(*names: str, **settings: Any) -> Option:
    return Option(names, settings)


def repeat(default: int | None, help: str = "runs of each") -> Option:
    help_text = help if default is not None else "runs of each (default: until every median is known to one percent)"
    return option("--repeat", type=int, default=default, help=help_text)


MODELS = (
    option("models", nargs="*", help="files, folders of them, or names of samples and of generated models"),
    option("--and-default", action="store_true", help="the default models too, before those that are named"),
)
DEVICE = option("--device", default="cpu", choices=("cpu", "cuda"))


# ---- results ------------------------------------------------------------------------------------


def content_of(items: Iterable[Item]) -> Content:
    """The paragraphs and tables. A table right after another with the same columns continues it."""
    content: Content = []
    for item in items:
        last = content[-1] if content else ""
        if isinstance(item, str):
            content.append(item)
        elif isinstance(item, PublishedTable):
            if not continues(last, item):
                content.append(replace(item, rows=()))
            for row in item.rows:
                content[-1] = _with_row(content[-1], row)
        else:
            content[-1] = _with_row(last, item)
    return content


def continues(last: Item, item: Item) -> bool:
    return isinstance(last, PublishedTable) and isinstance(item, PublishedTable) and last.columns == item.columns


def _with_row(last: str | PublishedTable, row: Row) -> PublishedTable:
    if isinstance(last, str):
        raise ValueError(f"the row {row} has no table")
    if len(row) != len(last.columns):
        raise ValueError(f"{row} has {len(row)} cells, and the table {len(last.columns)} columns: {last.columns}")
    return replace(last, rows=(*last.rows, row))


def print_items(items: Iterable[Item]) -> None:
    """Print results as Markdown, each as it comes."""
    for line in lines_of(items):
        print(line, flush=True)


def lines_of(items: Iterable[Item]) -> Iterator[str]:
    last: Item = ""
    for item in items:
        if isinstance(item, tuple):
            yield f"| {' | '.join(item)} |"
            continue
        if continues(last, item):
            yield from (f"| {' | '.join(row)} |" for row in item.rows)
            continue
        yield from ("",) if last else ()
        yield item if isinstance(item, str) else item.markdown
        last = item
