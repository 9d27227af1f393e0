"""ResNet-50, random weights: as loaded, folded, and with each layout strategy, measured interleaved.

    python benchmarks/layouts.py [--batch 1] [--device cpu|cuda] [--dtype float32] [--repeat 20]

By torch and, on the CPU in float32, by ONNX Runtime; the variants of a backend run interleaved. The weights are random,
the graph is the onnx package's light_resnet50. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.run.measurement.measurement_result import Measurement

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main() -> None:
    import onnx

    import workbench as wb
    from sample_models.light import random_light

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--repeat", type=int, default=20)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet50.onnx"
        model = random_light("resnet50")
        free_batch(model)
        onnx.save(model, path)
        graph = wb.load(path, dims={"N": chosen.batch})
        variants = {"as loaded": graph}
        variants["batch norm folded"] = wb.optimize(graph, ["fold_batchnorm"]).graph
        for strategy in ("greedy", "record-then-insert"):
            name = f"layout_{strategy.replace('-', '_')}"
            variants[f"folded, {strategy} to NHWC"] = wb.optimize(graph, ["fold_batchnorm", name]).graph
        for backend in ("torch", "onnxruntime") if chosen.device == "cpu" and chosen.dtype == "float32" else ("torch",):
            measurement = wb.measure(
                variants, device=chosen.device, backend=backend, dtype=chosen.dtype, repeat=chosen.repeat
            )
            _print(measurement, backend, chosen.batch)


def free_batch(model) -> None:
    """Make the batch N, in place. The reshape before the classifier has a batch of 1 and gets -1."""
    import numpy as np
    from onnx import numpy_helper

    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "N"

    for tensor in model.graph.initializer:
        if tensor.data_type == 7 and list(numpy_helper.to_array(tensor)) == [1, 2048]:
            tensor.CopyFrom(numpy_helper.from_array(np.array([-1, 2048]), tensor.name))


def _print(measurement: Measurement, backend: str, batch: int) -> None:
    machine = measurement.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    print(f"\n{machine.device_name}, {machine.threads} threads; {versions}; {backend}, batch {batch}\n")
    print("| variant | median ms | min ms | p90 ms | ratio | 95 % between | peak MB | error |")
    print("|---|---|---|---|---|---|---|---|")
    for label, v in measurement.variants.items():
        interval = f"{v.ratio.ratio_low:.2f} and {v.ratio.ratio_high:.2f}"
        peak = v.memory.peak_bytes / 1e6
        error = v.error.max_rel_error if v.error else float("nan")
        print(
            f"| {label} | {v.latency.median_ms:.1f} | {v.latency.min_ms:.1f} | {v.latency.p90_ms:.1f} "
            f"| {v.ratio.ratio:.2f} | {interval} | {peak:,.0f} | {error:.1e} |"
        )
    for note in measurement.notes:
        print(f"\n{note}")


if __name__ == "__main__":
    main()
