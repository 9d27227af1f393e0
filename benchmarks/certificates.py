"""What a certificate costs.

For each model and each pipeline: the seconds of `optimize --no-verify` without and with `--certificate`, the bytes of
the certificate, and the seconds and the peak memory of `check`. Each command is a process, interleaved; the figures are
medians of `--repeat`. The last column says whether `check --require bounds` accepts the bound. The default models are
the samples of 0.2 MB and more, and ResNet-50 with random weights.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.shared.benchmark import MODELS, Benchmark, Item, RealModels, Row, repeat, table
from benchmarks.shared.models import RESNET50, SAMPLE_FOLDER, SAMPLES, models_of
from benchmarks.shared.processes import compile_modules, ended, graph_workbench, ran

TABLE = table("model", "passes", "rewrites", "optimize s", "with it s", "kB", "check s", "peak MB", "bound")
MIN_BYTES = 200_000  # bytes; smaller samples are not measured
PIPELINES = {
    "simplify": ("--preset", "simplify"),
    "default, layout optimal": ("--layout", "optimal", "--target", "cuda"),
    "fuse_minimum": ("--passes", "fuse_minimum"),
    "order_for_memory": ("--passes", "order_for_memory"),
}


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    compile_modules()
    yield TABLE
    large = [name for name in SAMPLES if (SAMPLE_FOLDER / f"{name}.onnx").stat().st_size >= MIN_BYTES]
    with tempfile.TemporaryDirectory() as folder:
        for model in models_of(chosen, (*large, RESNET50)):
            for pipeline in PIPELINES:
                yield row(model, pipeline, Path(folder), chosen.repeat)


def row(model: Path, pipeline: str, folder: Path, repeat: int) -> Row:
    """Passes with a time limit get 10 s."""
    out, path = folder / "out.onnx", folder / "certificate.json"
    options = [*PIPELINES[pipeline]]
    if options[0] == "--passes":
        options += ["--option", f"{options[1]}.seconds=10"]
    optimize = graph_workbench("optimize", model, "-o", out, "--no-verify", *options)
    check = graph_workbench("check", model, out, path)
    rounds = [[ran(c) for c in (optimize, [*optimize, "--certificate", str(path)], check)] for _ in range(repeat)]
    seconds = [f"{statistics.median(run.seconds for run in runs):.2f}" for runs in zip(*rounds, strict=True)]
    content = json.loads(path.read_text())
    bound = "-"
    if content["bounds"]:
        bound = "not proven" if ended([*check, "--require", "log,bounds"]).code else "proven"
    rewrites = sum(len(step["rewrites"]) for step in content["steps"][1:-1])
    peak = max(runs[2].peak for runs in rounds)
    size = f"{path.stat().st_size / 1e3:,.0f}"
    return (model.stem, pipeline, f"{rewrites:,}", *seconds[:2], size, seconds[2], f"{peak / 1e6:,.0f}", bound)


def published(real: RealModels) -> list[list[str]]:
    return [[], *([["--repeat", "1", *real.paths]] if real.paths else [])]


BENCHMARK = Benchmark(measure, (TABLE,), (*MODELS, repeat(3)), published)
