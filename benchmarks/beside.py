"""Whether ONNX Runtime is as fast interleaved with torch as alone.

Each round measures a model by ONNX Runtime alone, and then interleaved with torch; a round's number is the minimum, and
the median, of its runs. The ratio of interleaved to alone is that of the rounds' medians, with its 95 % interval over
rounds (`run/measurement/statistics.py`). An interval that contains 1 shows no loss.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

import workbench as wb
from benchmarks.shared.benchmark import Benchmark, Item, option, repeat, table
from benchmarks.shared.timing import interval
from workbench.formats.io.samples import samples
from workbench.run.inputs import seed_inputs
from workbench.run.measurement.formatting import machine_text
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.statistics import ratio
from workbench.run.measurement.variants import Variant
from workbench.run.worker.client import Worker

MODELS = ("conv_relu_conv_relu", "ppocr_cls_v2", "resnet50_narrow")
TABLE = table("model", "statistic", "alone ms", "interleaved ms", "ratio", "95 % between")


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield f"{chosen.rounds} rounds of {chosen.repeat} runs."
    yield TABLE
    machine = ""
    with Worker() as worker:
        for sample in (s for s in samples() if s.file.stem in MODELS):
            graph = wb.load(sample.file, dims=dict(sample.dims))
            inputs = seed_inputs(graph, dict(graph.dims), 0)
            alone = {"onnxruntime": Variant(graph, "onnxruntime")}
            variants_of = {"alone": alone, "interleaved": alone | {"torch": Variant(graph)}}
            times: dict[str, list] = {name: [] for name in variants_of}
            for _ in range(chosen.rounds):
                for name, variants in variants_of.items():
                    measurement = measure_models(variants, inputs=inputs, repeat=chosen.repeat, worker=worker)
                    times[name].append(measurement.ran["onnxruntime"].latency)
                    machine = machine_text(measurement.machine)
            for key, statistic in (("min_ms", "minimum"), ("median_ms", "median")):
                alone_ms, beside_ms = ([float(getattr(v, key)) for v in found] for found in times.values())
                medians = (f"{np.median(found):.3f}" for found in (alone_ms, beside_ms))
                of_medians = ratio(beside_ms, alone_ms)
                between = interval(of_medians, between="to")
                yield (sample.file.stem, statistic, *medians, f"{of_medians.ratio:.2f}", between)
    yield f"{machine}."


BENCHMARK = Benchmark(measure, (TABLE,), (option("--rounds", type=int, default=12), repeat(20, "runs a round")))
