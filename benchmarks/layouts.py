"""ResNet-50, random weights: as loaded, folded, and with each layout strategy, measured interleaved.

By torch and, on the CPU in float32, by ONNX Runtime; the variants of a backend run interleaved. The weights are random,
the graph is the onnx package's light_resnet50.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

import workbench as wb
from benchmarks.shared.benchmark import Benchmark, Item, option, repeat, table
from benchmarks.shared.timing import interval
from sample_models.light import random_light
from workbench.run.measurement.formatting import machine_text
from workbench.run.measurement.measurement_result import Measurement

TABLE = table("variant", "median ms", "min ms", "p90 ms", "ratio", "95 % between", "peak MB", "error")


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
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
            yield from items_of(measurement, backend, chosen.batch)


def free_batch(model) -> None:
    """Make the batch N, in place. The reshape before the classifier has a batch of 1 and gets -1."""
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "N"

    for tensor in model.graph.initializer:
        if tensor.data_type == 7 and list(numpy_helper.to_array(tensor)) == [1, 2048]:
            tensor.CopyFrom(numpy_helper.from_array(np.array([-1, 2048]), tensor.name))


def items_of(measurement: Measurement, backend: str, batch: int) -> Iterator[Item]:
    yield f"{machine_text(measurement.machine)}; {backend}, batch {batch}"
    yield TABLE
    for label, v in measurement.variants.items():
        times = (f"{time:.1f}" for time in (v.latency.median_ms, v.latency.min_ms, v.latency.p90_ms))
        error = v.error.max_rel_error if v.error else float("nan")
        yield (
            *(label, *times, f"{v.ratio.ratio:.2f}", interval(v.ratio)),
            *(f"{v.memory.peak_bytes / 1e6:,.0f}", f"{error:.1e}"),
        )
    yield from measurement.notes


OPTIONS = (
    option("--batch", type=int, default=1),
    option("--device", default="cpu"),
    option("--dtype", default="float32"),
    repeat(20),
)
BENCHMARK = Benchmark(measure, (TABLE,), OPTIONS, lambda real: [["--batch", "1"], ["--batch", "2"]])
