"""Memory at its peak while a model runs: `python benchmarks/peaks.py [--device cuda] [MODEL.onnx ...]`.

One row per model, simplified (`--preset simplify`), the first ResNet-50 with random weights. Columns: the plan; its
arena with the temporary memory of operators; and the peak of torch's allocator operator by operator, compiled, and
compiled with inductor's memory planning. Each in a separate process, float32, batch 1, without weights and inputs.
Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

COLUMNS = {
    "arena and in passing MB": ("arena", {}),
    "torch MB": ("torch", {}),
    "torch-compile MB": ("torch-compile", {}),
    "with inductor's planning MB": ("torch-compile", {"TORCHINDUCTOR_MEMORY_PLANNING": "1"}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--narrow", type=int, default=1, help="divide ResNet-50's channels by this")
    parser.add_argument("--backend", help="print the peak of one model by this backend, in bytes")
    chosen = parser.parse_args()
    if chosen.backend is not None:
        print(peak(chosen.models[0], chosen.backend, chosen.device))
        return
    row(["model", "planned MB", *COLUMNS])
    row(["---"] * (2 + len(COLUMNS)))
    with tempfile.TemporaryDirectory() as folder:
        for path in [resnet50(Path(folder), chosen.narrow), *chosen.models]:
            simplified = Path(folder) / f"{path.stem}_simplified.onnx"
            total = prepare(path, simplified)
            row(
                [
                    path.stem,
                    total,
                    *(peak_in_process(simplified, *column, chosen.device, folder) for column in COLUMNS.values()),
                ]
            )


def resnet50(folder: Path, narrow: int) -> Path:
    from sample_models.light import random_light

    path = folder / "resnet50.onnx"
    path.write_bytes(random_light("resnet50", narrow=narrow).SerializeToString())
    return path


def prepare(path: Path, simplified: Path) -> str:
    """Write the simplified model; returns the MB of its plan."""
    import workbench as wb

    graph = wb.optimize(wb.load(path), preset="simplify").graph
    wb.export(graph, simplified)
    return f"{wb.memory_plan(graph).packed.total / 1e6:.3f}"


def peak_in_process(path: Path, backend: str, settings: dict[str, str], device: str, folder: str) -> str:
    """The peak in MB, in a separate process with a separate cache of kernels."""
    command = [sys.executable, __file__, str(path), "--backend", backend, "--device", device]
    environment = {**os.environ, **settings, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/{backend}{len(settings)}"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1][:80]}"
    output = done.stdout.strip().splitlines()[-1]
    return f"{int(output) / 1e6:.3f}" if output.isdigit() else output


def peak(path: Path, backend: str, device: str) -> int | str:
    """The bytes without weights and inputs, or why another backend runs instead."""
    import workbench as wb
    from workbench.backends.torch.torch_run import TorchRun
    from workbench.run.inputs import seed_inputs

    torch_device = "cuda:0" if device == "cuda" else device
    model = TorchRun(str(path), seed_inputs(wb.load(path)), torch_device, backend, "float32", lambda stage: None)
    return model.fallbacks.get(backend, "")[:80] or model.peak_beside_bytes()


def row(cells: list[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
