"""The simplified file beside the original, in ONNX Runtime.

One row a model: its nodes, the nodes of the simplified file, and the time of one run of both with all of ONNX Runtime's
optimizations, on one thread, interleaved in one process. "slower" marks rows whose whole 95 % interval is above 1.01.
The default models are the samples.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import workbench as wb
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, Row, default_and_real, repeat, table
from benchmarks.shared.models import SAMPLES, models_of
from benchmarks.shared.sessions import count_nodes, session
from benchmarks.shared.timing import interleaved, with_interval
from workbench.evidence.verification.verifier import Verifier
from workbench.run.measurement.statistics import ratio, spread

TABLE = table("model", "nodes", "ours", "original ms", "ours ms", "ours over original", "")
MAX_RATIO = 1.01


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    with tempfile.TemporaryDirectory() as folder:
        for path in models_of(chosen, SAMPLES):
            yield row(path, Path(folder) / "ours.onnx", chosen.repeat)


def row(path: Path, ours: Path, repeat: int) -> Row:
    graph = wb.load(path)
    wb.export(wb.optimize(graph, preset="simplify").graph, ours)
    with Verifier(graph) as verifier:
        inputs = verifier.inputs
    sessions = {name: session(file, "ORT_ENABLE_ALL", threads=1) for name, file in (("original", path), ("ours", ours))}
    runs = {name: lambda one=one: one.run(None, inputs) for name, one in sessions.items()}
    times = interleaved(runs, repeat)
    to_original = ratio(times["ours"], times["original"])
    return (
        path.stem,
        *(f"{count_nodes(file):,}" for file in (path, ours)),
        *(f"{spread(times[name]).median_ms:.2f}" for name in sessions),
        with_interval(to_original, 3),
        "slower" if to_original.ratio_low > MAX_RATIO else "",
    )


BENCHMARK = Benchmark(measure, (TABLE,), (*MODELS, repeat(60)), default_and_real)
