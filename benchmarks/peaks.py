"""Memory at its peak while a model runs.

One row per model, simplified (`--preset simplify`), by default ResNet-50 with random weights. Columns: the plan; its
arena with the temporary memory of operators; and the peak of torch's allocator operator by operator, compiled, and
compiled with inductor's memory planning. Each in a separate process, float32, batch 1, without weights and inputs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import workbench as wb
from benchmarks.shared.benchmark import DEVICE, MODELS, ROOT, Benchmark, Item, RealModels, table
from benchmarks.shared.models import models_of

COLUMNS: Mapping[str, tuple[str, dict[str, str]]] = {  # the backend of each, and variables of its environment
    "arena and in passing MB": ("arena", {}),
    "torch MB": ("torch", {}),
    "torch-compile MB": ("torch-compile", {}),
    "with inductor's planning MB": ("torch-compile", {"TORCHINDUCTOR_MEMORY_PLANNING": "1"}),
}
TABLE = table("model", "planned MB", *COLUMNS)
PEAK = """
import sys
from benchmarks.peaks import peak
print(peak(*sys.argv[1:]))
"""


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    with tempfile.TemporaryDirectory() as folder:
        for path in models_of(chosen, ("resnet50",)):
            simplified = Path(folder) / f"{path.stem}_simplified.onnx"
            graph = wb.optimize(wb.load(path), preset="simplify").graph
            wb.export(graph, simplified)
            planned = f"{wb.memory_plan(graph).packed.total / 1e6:.3f}"
            peaks = (peak_in_process(simplified, *column, chosen.device, folder) for column in COLUMNS.values())
            yield (path.stem, planned, *peaks)


def peak_in_process(path: Path, backend: str, settings: dict[str, str], device: str, folder: str) -> str:
    """The peak in MB, in a separate process with a separate cache of kernels."""
    command = [sys.executable, "-c", PEAK, str(path), backend, device]
    environment = {**settings, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/{backend}{len(settings)}"}
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1][:80]}"
    output = done.stdout.strip().splitlines()[-1]
    return f"{int(output) / 1e6:.3f}" if output.isdigit() else output


def peak(path: str, backend: str, device: str) -> int | str:
    """The bytes without weights and inputs, or why another backend runs instead."""
    from workbench.backends.torch.torch_run import TorchRun
    from workbench.run.inputs import seed_inputs

    torch_device = "cuda:0" if device == "cuda" else device
    model = TorchRun(path, seed_inputs(wb.load(path)), torch_device, backend, "float32", lambda stage: None)
    return model.fallbacks.get(backend, "")[:80] or model.peak_beside_bytes()


def published(real: RealModels) -> list[list[str]]:
    return [["--and-default", *real.named("unet_sd15_raw")]]


BENCHMARK = Benchmark(measure, (TABLE,), (*MODELS, DEVICE), published)
