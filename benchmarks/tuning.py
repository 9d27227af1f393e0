"""`tune` compared with a measurement of every candidate: quality of the choice, and time.

The default models are three samples. Each is tuned for latency on the CPU. Then, with empty caches again, every
distinct candidate is measured for as many turns as the last round of a tuning has, in lots together with the best so
far. A third measurement, interleaved, compares the two choices. The first table has the times of both, their ratio
("share"), both choices, and the ratio of tune's choice to the other with its 95 % interval. The aims are a ratio of at
most 1.03 and a share of at most a third.

The second table checks assumptions of the search (`workbench/interfaces/study/tuning/latency.py`). For each backend, it
has the time of the plainest pipeline and of the best preset over that of the backend's best pipeline; and the time of
the plainest and of the best pipeline over that of the best of all.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import workbench as wb
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, RealModels, Row, option, table
from benchmarks.shared.models import models_of
from benchmarks.shared.timing import interval
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.study.tuning.budget import Budget, parse_budget
from workbench.interfaces.study.tuning.halving import MAX_ITERATIONS, compare_arms
from workbench.interfaces.study.tuning.latency import SPAN, SPAN_OF_PRESETS, SPAN_OF_SAME_KERNELS, SPANS_OF_COMPILER
from workbench.interfaces.study.tuning.measuring import BatchMeasurer
from workbench.interfaces.study.tuning.pipelines import Configuration
from workbench.interfaces.study.tuning.recipe import Recipe
from workbench.interfaces.study.tuning.tune import TuneRequest, arms_of, prepared, tune
from workbench.ir import Graph
from workbench.run.measurement.formatting import machine_text
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.measurement_result import Measurement
from workbench.run.measurement.statistics import Ratio, ratio
from workbench.run.measurement.variants import Variant

DEFAULT = ("ppocr_cls_v2", "resnet50_narrow", "basic_pitch_nmp")
PUBLISHED = ("bert_12l_raw", "magika_v3_3", "open_nsfw_resnet")
CHOICES = table(
    *("model", "candidates", "distinct", "all s", "tune s", "share", "tune: measured", "best of all"),
    *("tune's choice", "ratio", "95 % between"),
)
SPANS = table(
    *("model", "backend", "plainest / best", "best preset / best", "plainest / best of all", "best / best of all")
)
_CACHES = ("WORKBENCH_CACHE", "TORCHINDUCTOR_CACHE_DIR")


@dataclass(frozen=True)
class Full:
    """The full enumeration: its choice, the candidates' ratios to it, the distinct candidates, and its seconds."""

    best: Configuration
    ratios: dict[str, Ratio]
    distinct: dict[str, Configuration]
    seconds: float


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    request = TuneRequest(budget_s=parse_budget(chosen.budget))
    spans: list[Row] = []
    yield CHOICES
    for model in models_of(chosen, DEFAULT):
        graph = wb.load(model)
        with empty_caches(), Verifier(graph) as verifier:
            recipe = tune(graph, request, verifier)
        with empty_caches(), Verifier(graph) as verifier:
            full = measure_all(graph, request, chosen.iterations, verifier)
            measurement, cells = judge(graph, recipe, full, chosen.judge, verifier)
        yield (model.stem, *cells)
        for backend, numbers in ratios_of_backends(full).items():
            spans.append((model.stem, backend, *(f"{number:.2f}" for number in numbers)))
    yield SPANS
    yield from spans
    compiler, of_presets = SPANS_OF_COMPILER
    yield (
        f"Assumed below {SPAN:g} and {SPAN_OF_PRESETS:g}, of torch-compile below {compiler:g} and {of_presets:g}; "
        f"the best of backends with the same kernels within {SPAN_OF_SAME_KERNELS:g}."
    )
    yield f"{machine_text(measurement.machine)}; {time.strftime('%Y-%m-%d')}"


@contextmanager
def empty_caches() -> Iterator[None]:
    """Inside the with block, measuring processes use empty caches, so that no kernel is compiled before."""
    before = {name: os.environ.get(name) for name in _CACHES}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update({name: f"{folder}/{name}" for name in _CACHES})
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def measure_all(graph: Graph, request: TuneRequest, turns: int, verifier: Verifier) -> Full:
    """Measure every distinct candidate, each for `turns` turns."""
    started, budget = time.monotonic(), Budget(request.budget_s)
    arms = arms_of(*prepared(graph, request, verifier))
    measurer = BatchMeasurer(arms, verifier, request.device, request.max_error, budget)
    *_, last_round = compare_arms(list(arms), measurer, turns)
    distinct = {label: candidate for label, (candidate, _) in arms.items()}
    return Full(distinct[last_round.best], dict(last_round.ratios), distinct, time.monotonic() - started)


def judge(graph: Graph, recipe: Recipe, full: Full, turns: int, verifier: Verifier) -> tuple[Measurement, Row]:
    """Measure both choices interleaved; returns the measurement and the cells of the row."""
    best = wb.optimize(graph, target=recipe.target, mode=recipe.mode, **recipe.pipeline.arguments)
    tuned = Variant(
        best.graph,
        recipe.backend,
        recipe.dtype,
    )
    passes = full.best.pipeline
    best = wb.optimize(graph, list(passes.passes), target=recipe.target, export_for=passes.export_for)
    measurement = measure_models(
        {"tune": tuned, "all": Variant(best.graph, full.best.backend, full.best.dtype)},
        inputs=verifier.inputs,
        reference=verifier.reference,
        repeat=turns,
        worker=verifier.worker,
    )
    ratio_ = ratio(measurement.ran["tune"].times_ms, measurement.ran["all"].times_ms)
    measured_count = sum(one.runs > 0 for one in recipe.evidence)
    cells = (
        *(f"{len(recipe.evidence)}", f"{len(full.distinct)}", f"{full.seconds:,.0f}", f"{recipe.seconds:,.0f}"),
        *(f"{recipe.seconds / full.seconds:.2f}", f"{measured_count}", full.best.label, recipe.label),
        *(f"{ratio_.ratio:.3f}", interval(ratio_, 3)),
    )
    return measurement, cells


def ratios_of_backends(full: Full) -> dict[str, tuple[float, float, float, float]]:
    """By backend: the times of its plainest pipeline (its first candidate) and of its best preset over its best; and
    the times of its plainest and of its best over the best of all."""
    results: dict[str, tuple[float, float, float, float]] = {}
    for backend in dict.fromkeys(one.backend for one in full.distinct.values()):
        ratios_of_backend = {
            label: full.ratios[label].ratio
            for label, one in full.distinct.items()
            if one.backend == backend and label in full.ratios
        }
        presets = [ratio for label, ratio in ratios_of_backend.items() if not full.distinct[label].pipeline.more]
        if presets:
            best = min(ratios_of_backend.values())
            results[backend] = presets[0] / best, min(presets) / best, presets[0], best
    return results


def published(real: RealModels) -> list[list[str]]:
    return [["--and-default", *real.named(*PUBLISHED)]]


OPTIONS = (
    *MODELS,
    option("--budget", default="1h", help="of each tuning, and of each full enumeration"),
    option("--iterations", type=int, default=MAX_ITERATIONS, help="of each candidate in the full enumeration"),
    option("--judge", type=int, default=200, help="turns of the comparison of the two choices"),
)
BENCHMARK = Benchmark(measure, (CHOICES, SPANS), OPTIONS, published)
