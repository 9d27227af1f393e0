"""Models through every installed optimizer.

The results of `compare-tools MODEL` for all given models, as tables: nodes left, latency in ONNX Runtime interleaved,
and wrong results, with the optimizer of ONNX Runtime that causes them if it is one. --known: the graphs of
`tests/known_wrong.py`, after public reports, on which a tool is wrong or fails, with the rewrite that verification
names.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import workbench as wb
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, RealModels, option, table
from benchmarks.shared.models import SAMPLES, models_of
from tests.known_wrong import CASES
from tests.running import typed
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.api import optimize
from workbench.interfaces.study.compare_tools.comparing import (
    ORIGINAL,
    OURS,
    ComparedTool,
    ToolOutcome,
    comparable_tools,
    compare_tools,
)
from workbench.run.records.published import PublishedTable
from workbench.run.worker.client import Worker

Results = Mapping[str, ToolOutcome]
KNOWN = table("report", "tool", "what goes wrong", "in which rewrite")
_MAX_SENTENCE = 110  # characters of a sentence in a table


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    return known() if chosen.known else on_models(chosen)


def on_models(chosen: argparse.Namespace) -> Iterator[Item]:
    results_of = {file.stem: through_all(file) for file in models_of(chosen, SAMPLES)}
    tools = [result.tool for result in next(iter(results_of.values())).values()]
    for what, cell in CELLS.items():
        yield head(what, tools)
        yield from ((name, *map(cell, results.values())) for name, results in results_of.items())
    for name, results in results_of.items():
        for tool, result in results.items():
            if failed := result.row()["failed"]:
                yield f"{name}, {tool}: {failed}"


def head(what: str, tools: Iterable[ComparedTool]) -> PublishedTable:
    return table(what, *(f"{tool.name} {tool.version}".rstrip() for tool in tools))


def through_all(file: Path) -> Results:
    print(file.stem, file=sys.stderr)
    graph = wb.load(file)
    with tempfile.TemporaryDirectory() as folder, Verifier(graph) as verifier:
        return compare_tools(graph, comparable_tools(), Path(folder), verifier)


def _nodes(result: ToolOutcome) -> str:
    if result.nodes is None:
        return "failed"
    wrong = result.verdict is not None and result.verdict.ok is False
    return f"{result.nodes:,}{', wrong' if wrong else ''}"


def _latency(result: ToolOutcome) -> str:
    median = result.row()["median_ms"]
    return "-" if median is None else f"{median:,.2f}"


CELLS: Mapping[str, Callable[[ToolOutcome], str]] = {"nodes left": _nodes, "latency (ms)": _latency}


# ---- known wrong results ------------------------------------------------------------------


def known() -> Iterator[Item]:
    yield (
        "Small graphs of `tests/known_wrong.py`, after public reports, on which a present tool is wrong or fails. Each "
        "tool is a pass of a pipeline, and verification names the rewrite (`python -m benchmarks compared --known`)."
    )
    yield KNOWN
    with Worker() as worker:
        for source, text in {case.source: case.text for case in CASES}.items():
            for tool, why, wrong_rewrite in wrong_tools(text, worker):
                yield source, tool, why[:_MAX_SENTENCE], wrong_rewrite[:_MAX_SENTENCE]


def wrong_tools(text: str, worker: Worker) -> Iterator[tuple[str, str, str]]:
    """The (tool, sentence, wrong rewrite) of each tool that fails on the graph or changes its results."""
    reported: set[tuple[str, str]] = set()  # (tool, failure); a higher level of a tool fails like a lower one
    for tool in comparable_tools():
        if tool.name in (ORIGINAL, OURS) or tool.missing:
            continue
        name, _, level = tool.name.partition(":")
        graph = typed(text)
        with Verifier(graph, worker=worker) as verifier:
            options = {f"{name}.level": level} if level else {}
            step = optimize(graph, [name], verifier=verifier, verify="end", options=options)[1]
        failed = getattr(step.facts, "failed", "")
        if failed and (name, failed) not in reported:
            reported.add((name, failed))
            yield tool.name, failed, "-"
        elif step.verdict is not None and step.verdict.ok is False:
            wrong_rewrite = "-" if step.broken_by is None else step.rewrites[step.broken_by].sentence
            yield tool.name, step.verdict.sentence, wrong_rewrite


def published(real: RealModels) -> list[list[str]]:
    return [[*map(str, real.files)], ["--known"]]


OF_KNOWN = option("--known", action="store_true", help="graphs on which other tools are known to be wrong")
TABLES = (*(head(what, comparable_tools()) for what in CELLS), KNOWN)
BENCHMARK = Benchmark(measure, TABLES, (*MODELS, OF_KNOWN), published)
