"""The effect of waiting threads on a run of torch.

The median and the 90th percentile of 60 runs, by libgomp's settings for waiting threads, alone and beside a process
that spins on one core. A measurement that takes over 60 s is "-". The
default model is a narrow ResNet-50.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.shared.benchmark import Benchmark, Item, option, table
from benchmarks.shared.models import SAMPLE_FOLDER
from benchmarks.shared.processes import ended, graph_workbench

TABLE = table("threads wait by", "alone ms", "alone, p90 ms", "beside one ms", "beside one, p90 ms")
SETTINGS = {
    "300,000 spins (libgomp's default)": {"GOMP_SPINCOUNT": "300000"},
    "30,000 spins": {"GOMP_SPINCOUNT": "30000"},
    "10,000 spins (ours)": {"GOMP_SPINCOUNT": "10000"},
    "1,000 spins": {"GOMP_SPINCOUNT": "1000"},
    "passive": {"OMP_WAIT_POLICY": "passive"},
}
LIMIT_S = 60


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    for setting, environment in SETTINGS.items():
        alone = times(chosen.model, environment)
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
            beside = times(chosen.model, environment)
            other.kill()
        yield (setting, *alone, *beside)


def times(model: str, environment: dict[str, str]) -> tuple[str, str]:
    """The median and the 90th percentile in milliseconds. Raises SystemExit if the run fails."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bench.json"
        command = graph_workbench("bench", model, "--backend", "torch", "--repeat", "60", "--json", out)
        run = ended(command, environment={**environment, "WORKBENCH_CACHE": folder}, limit_s=LIMIT_S)
        if run.seconds >= LIMIT_S:
            return "-", "-"
        if run.code:
            raise SystemExit(run.text)
        (variant,) = json.loads(out.read_text())["variants"].values()
        return f"{variant['median_ms']:.2f}", f"{variant['p90_ms']:.2f}"


MODEL = option("model", nargs="?", default=str(SAMPLE_FOLDER / "resnet50_narrow.onnx"))
BENCHMARK = Benchmark(measure, (TABLE,), (MODEL,))
