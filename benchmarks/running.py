"""ResNet-50 by backend, layout and precision, each table measured interleaved.

The graph is the onnx package's light_resnet50 with random weights, batch norms folded; "channels-last" is the result of
the strategy `optimal`. The first table has torch, torch.compile, on a GPU CUDA graphs, and ONNX Runtime. The second has
every element type on torch, with the error against ONNX Runtime's float32.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx

import workbench as wb
from benchmarks.layouts import free_batch
from benchmarks.shared.benchmark import DEVICE, Benchmark, Item, Row, option, repeat, table
from benchmarks.shared.timing import interval
from sample_models.light import random_light
from workbench.run.measurement.formatting import machine_text
from workbench.run.measurement.measurement_result import FailedVariant, MeasuredVariant, Measurement
from workbench.run.measurement.statistics import Ratio, ratio
from workbench.run.measurement.variants import Variant
from workbench.run.tolerances import DTYPES

TABLE = table(
    *("variant", "median ms", "+- ms", "min ms", "p90 ms", "runs", "ratio", "95 % between", "first result s"),
    *("peak MB", "sum of operators ms", "error"),
)


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet50.onnx"
        model = random_light("resnet50", narrow=chosen.narrow)
        free_batch(model)
        onnx.save(model, path)
        graph = wb.load(path, dims={"N": chosen.batch})
        folded = wb.optimize(graph, preset="normalize").graph
        last = wb.optimize(graph, preset="normalize", layout="optimal", target="cuda").graph
        compiled = ("torch-compile",) if chosen.device == "cpu" else ("cuda-graphs", "torch-compile")
        first = {"torch, NCHW": Variant(folded), "torch, channels-last": Variant(last)}
        for backend in compiled:
            first[f"{backend}, NCHW"] = Variant(folded, backend)
            first[f"{backend}, channels-last"] = Variant(last, backend)
        first["ONNX Runtime, NCHW"] = Variant(folded, "onnxruntime")
        dtypes = [dtype for dtype in DTYPES if dtype != "tf32" or chosen.device != "cpu"]  # a CPU has none
        second = {f"{dtype}, {name}": Variant(g, dtype=dtype) for dtype in dtypes for name, g in
                  (("NCHW", folded), ("channels-last", last))}  # fmt: skip
        for number, variants in enumerate((first, second)):
            measurement = wb.measure(variants, device=chosen.device, repeat=chosen.repeat)
            if number == 0:
                yield f"Batch {chosen.batch}; {machine_text(measurement.machine)}."
            yield from items_of(measurement)


def items_of(measurement: Measurement) -> Iterator[Item]:
    yield TABLE
    first = next(iter(measurement.ran.values())).times_ms
    for label, v in measurement.variants.items():
        if isinstance(v, FailedVariant):
            yield (label, f"failed: {v.failed}", *[""] * 10)
        else:
            yield row(label, v, ratio(v.times_ms, first))
    roofs = "; ".join(
        f"{dtype}: {roof.flops_per_s / 1e9:,.0f} GFLOP/s, {roof.bytes_per_s / 1e9:,.0f} GB/s"
        for dtype, roof in measurement.ceilings.items()
        if roof is not None
    )
    yield f"Measured ceilings: {roofs}."
    fallbacks = {f"{label}: {what}: {why}" for label, v in measurement.ran.items()
            for what, why in v.fallbacks.items()}  # fmt: skip
    yield from (*sorted(fallbacks), *measurement.notes)


def row(label: str, v: MeasuredVariant, to_first: Ratio) -> Row:
    latency = v.latency
    times = (latency.median_ms, latency.median_error_ms, latency.min_ms, latency.p90_ms)
    return (
        *(label, *(f"{time:.2f}" for time in times), f"{len(v.times_ms)}", f"{to_first.ratio:.2f}"),
        *(interval(to_first), f"{v.first_result_s:.2f}", f"{v.memory.peak_bytes / 1e6:.0f}", f"{v.sum_ms:.2f}"),
        f"{v.error.max_rel_error:.1e}",
    )


OPTIONS = (
    option("--batch", type=int, default=1),
    option("--narrow", type=int, default=1, help="divide the channels by this, for a quick look"),
    DEVICE,
    repeat(None),
)
BENCHMARK = Benchmark(measure, (TABLE,), OPTIONS)
