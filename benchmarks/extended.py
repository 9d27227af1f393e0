"""`--export-for onnxruntime` beside ONNX Runtime's extended level.

One row a model. Nodes: of the file, of the result of ONNX Runtime's extended level (basic and extended fusions, without
the layouts of the next level), and of the file that `--preset simplify --export-for onnxruntime` writes. Times of one
run on ONNX Runtime's CPU provider, interleaved in one process: the original file at the extended level, and our file
with all of ONNX Runtime's optimizations off and at the extended level. The error is the largest of our file against the
original, both unoptimized. The default models are two BERTs of 12 layers, exported by TorchScript with random weights,
and ResNet-50.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import workbench as wb
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, RealModels, Row, repeat, table
from benchmarks.shared.models import models_of
from benchmarks.shared.sessions import count_nodes, session
from benchmarks.shared.timing import interleaved, with_interval
from workbench.run.inputs import seed_inputs
from workbench.run.measurement.statistics import ratio

DEFAULT = ("bert_torchscript", "bert_torchscript_dynamic", "resnet50")
TABLE = table(
    *("model", "nodes", "extended", "ours", "original, extended ms", "ours, none ms", "ours, extended ms"),
    *("ours, none / original", "ours, extended / original", "error"),
)


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    with tempfile.TemporaryDirectory() as folder:
        for path in models_of(chosen, DEFAULT):
            yield row(path, Path(folder), chosen.repeat)


def row(path: Path, folder: Path, repeat: int) -> Row:
    ours, optimized = folder / "ours.onnx", folder / "extended.onnx"
    graph = wb.load(path)
    wb.export(wb.optimize(graph, preset="simplify", export_for="onnxruntime").graph, ours)
    inputs = seed_inputs(graph, dict(graph.dims), 0)
    sessions = {
        "original": session(path, "ORT_ENABLE_EXTENDED", written=optimized),
        "none": session(ours, "ORT_DISABLE_ALL"),
        "extended": session(ours, "ORT_ENABLE_EXTENDED"),
    }
    runs = {name: lambda one=one: one.run(None, inputs) for name, one in sessions.items()}
    times = interleaved(runs, repeat)
    return (
        path.stem,
        *(f"{count_nodes(file):,}" for file in (path, optimized, ours)),
        *(f"{median(times[name]):.2f}" for name in sessions),
        *(with_interval(ratio(times[name], times["original"])) for name in ("none", "extended")),
        f"{error(session(path, 'ORT_DISABLE_ALL'), sessions['none'], inputs):.1e}",
    )


def error(original: Any, ours: Any, inputs: dict[str, Any]) -> float:
    """The largest difference of floating-point outputs, over the original output's largest absolute value."""
    pairs = zip(original.run(None, inputs), ours.run(None, inputs), strict=True)
    errors = [
        float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30))
        for a, b in pairs
        if np.issubdtype(a.dtype, np.floating)
    ]
    return max(errors, default=0.0)


def published(real: RealModels) -> list[list[str]]:
    return [["--and-default", *real.named("bert_12l_raw")]]


BENCHMARK = Benchmark(measure, (TABLE,), (*MODELS, repeat(60)), published)
