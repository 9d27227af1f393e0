"""Transposes and elements moved of each layout strategy.

Counts, which do not depend on the machine; weights are not counted. The preset is `normalize`. The default models are
the samples and ResNet-50 with random weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import passes
import workbench as wb
from benchmarks.engine import DEFAULT
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, default_and_real, table
from benchmarks.shared.models import models_of

STRATEGIES = sorted(passes.compared_strategies())
TABLE = table("model", "profile", "as loaded", *STRATEGIES)


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    for path in models_of(chosen, DEFAULT):
        graph = wb.load(path)
        for target in ("cuda", "npu"):
            results = [wb.optimize(graph, target=target, preset="normalize", layout=name) for name in STRATEGIES]
            counts = (result[-1].after for result in results)
            yield (path.stem, target, *map(counted, (results[0][0].after, *counts)))


def counted(measured) -> str:
    return f"{measured.text('transposes')} ({measured.text('elements_moved')})"


BENCHMARK = Benchmark(measure, (TABLE,), MODELS, default_and_real)
