"""Operators side by side.

One row per model: the bound by the cost model of an H100 and by operators' times measured on the device; streams and
the waits between them; the median time on streams and sequentially, of the same operators in the same arena,
interleaved; and the memory planned for both. The default models are
light networks with random weights, a BERT and a sample.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import workbench as wb
from benchmarks.shared.benchmark import DEVICE, MODELS, Benchmark, Item, RealModels, Row, table
from benchmarks.shared.models import models_of
from workbench.backends.profiling.profile_result import MeasuredStreams
from workbench.planning.streams.analysis import analyze_streams
from workbench.run.measurement.stream_times import STREAM_ROUNDS, ran_on_streams, stream_variants

DEFAULT = ("inception_v2", "inception_v1", "squeezenet", "shufflenet", "resnet50", "bert", "ppocr_cls_v2")
TABLE = table(
    *("model", "bound, H100 model", "bound, measured", "streams", "waits", "one by one ms", "side by side ms"),
    *("of one by one", "by", "memory MB, one by one", "memory MB, on streams", "lower bound"),
)


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    yield from (row(path, chosen.device) for path in models_of(chosen, DEFAULT))


def row(path: Path, device: str) -> Row:
    graph = wb.load(path)
    by_model = analyze_streams(graph)
    ran = ran_on_streams(wb.measure(stream_variants(graph), device=device, repeat=STREAM_ROUNDS))
    by_times = analyze_streams(graph, ran.times_us)
    concurrent = by_times.concurrent
    return (
        path.stem,
        *(f"{one.schedule.dependencies.bound:.2f}" for one in (by_model, by_times)),
        *(f"{len(by_times.schedule.streams):,}", f"{by_times.schedule.waits:,}"),
        *(("-", "-", "-", ran.reason) if ran.streams is None else times(ran.streams)),
        *(f"{plan.packed.total / 1e6:.3f}" for plan in (by_times.sequential, concurrent)),
        "proven" if concurrent.certified else f"{concurrent.packed.lower_bound / 1e6:.3f}",
    )


def times(streams: MeasuredStreams) -> Row:
    return (*(f"{figure:.2f}" for figure in (streams.sequential_ms, streams.concurrent_ms, streams.ratio)), "streams")


def published(real: RealModels) -> list[list[str]]:
    return [["--and-default", *real.named("ppocrv4_det", "bert_12l_raw", "ddddocr_det_yolox")]]


BENCHMARK = Benchmark(measure, (TABLE,), (*MODELS, DEVICE), published)
