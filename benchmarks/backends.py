"""Torch's backends beside ONNX Runtime.

One row per model, float32, batch 1; its variants run interleaved, a process for each backend. They are the model as
loaded by torch and by ONNX Runtime, and the result of the preset `simplify` by torch-compile, by `fused` and by ONNX
Runtime. The default models are six networks with random weights and two samples.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import workbench as wb
from benchmarks.shared.benchmark import DEVICE, MODELS, Benchmark, Item, Row, default_and_real, repeat, table
from benchmarks.shared.models import models_of
from benchmarks.shared.timing import with_interval
from workbench.run.measurement.formatting import machine_text
from workbench.run.measurement.measurement_result import Measurement
from workbench.run.measurement.statistics import ratio
from workbench.run.measurement.variants import Variant

DEFAULT = (
    *("resnet50", "squeezenet", "shufflenet", "inception_v1", "inception_v2", "densenet121"),
    *("ppocr_cls_v2", "basic_pitch_nmp"),
)
TORCH = ("torch", "torch-compile", "fused")
TABLE = table(
    *("model", *(f"{name} ms" for name in TORCH), "ONNX Runtime ms", "ONNX Runtime, ours ms", "best of torch"),
    *("ours", "groups"),
)


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    notes: dict[str, str] = {}
    for path in models_of(chosen, DEFAULT):
        measurement = measured(path, chosen.device, chosen.repeat)
        notes |= {f"{path.stem}, {label}": note for label, note in measurement.failures.items()}
        notes |= {f"{path.stem}, {label}": str(v.fallbacks) for label, v in measurement.ran.items() if v.fallbacks}
        yield (path.stem, *cells(measurement))
    yield f"{machine_text(measurement.machine)}."
    yield from (f"{name}: {note}" for name, note in notes.items())


def measured(path: Path, device: str, repeat: int | None) -> Measurement:
    loaded = wb.load(path)
    ours = wb.optimize(loaded, preset="simplify").graph
    variants = {
        "torch": Variant(loaded),
        "torch-compile": Variant(ours, "torch-compile"),
        "fused": Variant(ours, "fused"),
        "onnxruntime": Variant(loaded, "onnxruntime"),
        "ours": Variant(ours, "onnxruntime"),
    }
    return wb.measure(variants, device=device, repeat=repeat)


def cells(measurement: Measurement) -> Row:
    ran = measurement.ran
    fastest = min((name for name in TORCH if name in ran), key=lambda name: ran[name].latency.median_ms)
    original = ran["onnxruntime"].times_ms
    groups = Counter(kernel.by for kernel in ran["fused"].kernels)
    names = (*TORCH, "onnxruntime", "ours")
    return (
        *(f"{ran[name].latency.median_ms:.2f}" if name in ran else "-" for name in names),
        f"{ratio(ran[fastest].times_ms, original).ratio:.2f} ({fastest})",
        with_interval(ratio(ran["ours"].times_ms, original)),
        ", ".join(f"{count} {by}" for by, count in groups.most_common()),
    )


BENCHMARK = Benchmark(measure, (TABLE,), (*MODELS, DEVICE, repeat(None)), default_and_real)
