"""Rewrites of a second run.

The first table has one row for each model and preset: its nodes, the nodes of the file that `optimize` writes, the
rewrites of that run, the rewrites of a second run on that file, and whether the second run writes the same bytes. If
the engine works at a newer opset than the file has, loading may undo what writing converted. Then the second run
repeats rewrites and writes the same bytes.

The second table has one row for each strategy for layouts or element types behind `simplify`: of how many models a
second run writes a file that computes by the same nodes, constants and names of values, and the same bytes, and of how
many it makes a rewrite. `measured` is left out, since times differ from run to run. The default models are the samples.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx

import passes
import workbench as wb
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, Row, default_and_real, table
from benchmarks.shared.models import SAMPLES, models_of

TABLE = table("model", "preset", "nodes", "after", "rewrites", "of the second run", "the same bytes")
OF_STRATEGIES = table("strategy", "models", "the same result", "the same bytes", "rewrites in the second run")
PRESETS = ("simplify", "normalize")


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    yield from (row(path, preset) for path in models_of(chosen, SAMPLES) for preset in PRESETS)
    yield OF_STRATEGIES
    yield from (row_of_strategy(models_of(chosen, SAMPLES), choice) for choice in strategies())


def row(path: Path, preset: str) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "first.onnx", Path(folder) / "second.onnx"
        nodes, left, rewrites = written(path, first, preset=preset)
        _, _, again = written(first, second, preset=preset)
        same = "yes" if first.read_bytes() == second.read_bytes() else "no"
    return path.stem, preset, f"{nodes:,}", f"{left:,}", f"{rewrites:,}", f"{again:,}", same


def strategies() -> list[dict[str, str]]:
    layouts = [name for name in passes.compared_strategies() if name != "measured"]
    return [*({"layout": name} for name in layouts), *({"precision": name} for name in passes.precision_strategies())]


def row_of_strategy(models: Iterable[Path], choice: dict[str, str]) -> Row:
    """target: the NPU's, or blocks for the strategy of these."""
    ((kind, strategy),) = choice.items()
    target = "blocked" if strategy == "blocked" else "npu"
    count = same = same_bytes = rewritten = 0
    for path in models:
        count += 1
        with tempfile.TemporaryDirectory() as folder:
            first, second = Path(folder) / "first.onnx", Path(folder) / "second.onnx"
            written(path, first, target=target, **choice)
            _, _, again = written(first, second, target=target, **choice)
            same += computed(first) == computed(second)
            same_bytes += first.read_bytes() == second.read_bytes()
            rewritten += again > 0
    return f"{kind} {strategy}", f"{count}", f"{same}", f"{same_bytes}", f"{rewritten}"


def computed(path: Path) -> onnx.ModelProto:
    """The model without types of values between nodes, and nodes without their names and notes."""
    model = onnx.load(path)
    graphs = [model.graph, *model.functions]
    while graphs:
        graph = graphs.pop()
        del graph.value_info[:]
        for node in graph.node:
            del node.metadata_props[:]
            node.name = ""
            bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
            for output in (output for body in bodies for output in body.output):
                output.ClearField("type")
            graphs += bodies
    return model


def written(path: Path, out: Path, **options: str) -> tuple[int, int, int]:
    """The nodes before and after, and the rewrites between them."""
    history = wb.optimize(wb.load(path), **options)
    wb.export(history.graph, out)
    return len(history.initial), len(history.graph), sum(len(step.rewrites) for step in history.steps)


BENCHMARK = Benchmark(measure, (TABLE, OF_STRATEGIES), MODELS, default_and_real)
