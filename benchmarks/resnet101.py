"""ResNet-101 by every layout strategy in mixed precision: OneFlow's table, on this machine.

    python -m benchmarks resnet101 --device cuda                              batch 16, 32 and 64
    python -m benchmarks resnet101 --batches 1 --side 64 --stages 1,1,1,1     a small one

All variants of a batch run interleaved. The graph is ResNet-101's, with random weights. `time weighed` and `measured`
are the strategies that weigh operators by their times on the device.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx

import passes
import workbench as wb
from benchmarks.shared.benchmark import DEVICE, Benchmark, Item, Row, option, repeat, table
from benchmarks.shared.timing import interval
from sample_models.resnet import resnet
from workbench.run.measurement.formatting import machine_text
from workbench.run.measurement.measurement_result import Measurement

TABLE = table(
    *("batch", "variant", "transposes", "median ms", "p90 ms", "ratio", "95 % between", "peak MB", "error", "OneFlow")
)
ONEFLOW = {16: (14, 13), 32: (24, 22), 64: (44, 38)}  # seconds on a V100, NCHW and auto NHWC


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    stages = tuple(int(blocks) for blocks in chosen.stages.split(","))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet.onnx"
        onnx.save(resnet(stages, chosen.side), path)
        for number, batch in enumerate(int(size) for size in chosen.batches.split(",")):
            graph = wb.load(path, dims={"N": batch})
            measurement = wb.measure(
                _variants(graph, chosen.device, chosen.dtype),
                device=chosen.device,
                dtype=chosen.dtype,
                repeat=chosen.repeat,
            )
            if number == 0:
                yield f"{machine_text(measurement.machine)}; {chosen.dtype}"
                yield TABLE
            yield from _rows(measurement, batch)


def _variants(graph, device: str, dtype: str) -> dict:
    """By name: the network with batch norms folded, and each strategy's result. Times are on the device in `dtype`."""
    variants = {"NCHW": wb.optimize(graph, preset="normalize").graph}
    for name, cls in passes.compared_strategies().items():
        timing = {"device": device, "dtype": dtype}
        options = {f"{cls().name}.{key}": value for key, value in timing.items() if key in cls().options()}
        variants[name] = wb.optimize(graph, preset="normalize", layout=name, options=options, target="cuda").graph
    by_time = {"layout_optimal.weigh": "time", "layout_optimal.device": device, "layout_optimal.dtype": dtype}
    variants["optimal, time weighed"] = wb.optimize(
        graph, preset="normalize", layout="optimal", options=by_time, target="cuda"
    ).graph
    return variants


def _rows(measurement: Measurement, batch: int) -> Iterator[Row]:
    first, second = ONEFLOW.get(batch, (None, None))
    oneflow = {"NCHW": f"{first} s"} | {"insert-and-cancel": f"{second} s, ratio {second / first:.2f}"} if first else {}
    for label, v in measurement.variants.items():
        transposes = sum(operator.op == "Transpose" for operator in v.operators)
        error = v.error.max_rel_error if v.error else float("nan")
        yield (
            *(f"{batch}", label, f"{transposes}", f"{v.latency.median_ms:.1f}", f"{v.latency.p90_ms:.1f}"),
            *(f"{v.ratio.ratio:.2f}", interval(v.ratio), f"{v.memory.peak_bytes / 1e6:,.0f}"),
            *(f"{error:.1e}", oneflow.get(label, "-")),
        )
    for note in measurement.notes:
        print(note, file=sys.stderr)


OPTIONS = (
    DEVICE,
    option("--dtype", default="mixed"),
    option("--batches", default="16,32,64"),
    option("--side", type=int, default=224, help="height and width of the images"),
    option("--stages", default="3,4,23,3", help="blocks of each stage"),
    repeat(20),
)
PUBLISHED = ["--batches", "1", "--dtype", "float32", "--repeat", "10"]
BENCHMARK = Benchmark(measure, (TABLE,), OPTIONS, lambda real: [PUBLISHED])
