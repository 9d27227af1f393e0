"""Equality saturation beside lists of rules.

Operators in algebraic regions before and after `saturate_algebra`, of the model as it is and after the preset
`simplify` in the same mode; the number of regions for which no expression is smaller under the rules, with proof;
seconds. The default models are four samples and the files of `sample_models/saturation`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import workbench as wb
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, Row, default_and_real, table
from benchmarks.shared.models import SAMPLE_FOLDER, models_of
from benchmarks.shared.timing import timed

DEFAULT = (
    *("resnet50_narrow", "ppocr_cls_v2", "basic_pitch_nmp", "silero_vad"),
    *map(str, sorted((SAMPLE_FOLDER / "saturation").glob("*.onnxtxt"))),
)
MODES = ("exact", "ieee", "fast")
PART = ("regions", "largest", "operators", "after", "proved", "s")
TABLE = table("model", "mode", "nodes", *PART, "nodes, simplified", *PART)


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    for model in models_of(chosen, DEFAULT):
        yield from (row(model, mode) for mode in MODES)


def row(model: Path, mode: str) -> Row:
    graph = wb.load(model)
    simplified = wb.optimize(graph, preset="simplify", mode=mode).graph
    return (model.stem, mode, *cells(graph, mode), *cells(simplified, mode))


def cells(graph: wb.Graph, mode: str) -> Row:
    history, seconds = timed(lambda: wb.optimize(graph, ["saturate_algebra"], mode=mode))
    facts = history[1].facts
    assert not facts.missing, facts.missing
    regions = facts.regions
    return (
        f"{len(graph):,}",
        f"{len(regions) + facts.late:,}",
        f"{max((region.operators for region in regions), default=0)}",
        f"{sum(region.operators for region in regions):,}",
        f"{sum(region.smallest for region in regions):,}",
        f"{sum(region.certified for region in regions)}",
        f"{seconds:.1f}",
    )


BENCHMARK = Benchmark(measure, (TABLE,), MODELS, default_and_real)
