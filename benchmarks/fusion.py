"""Memory traffic of groups of operators.

One row per model: the operators alone, the groups of `fuse_groups`, and the minimum of `fuse_minimum` under each set of
rules, with the lower bound where it is not proved. The default models are ten networks with random weights, without
other passes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import workbench as wb
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, Row, default_and_real, table
from benchmarks.shared.models import models_of
from benchmarks.shared.timing import timed

DEFAULT = (
    *("basic_pitch_nmp", "ppocr_cls_v2", "resnet50", "densenet121", "inception_v1", "inception_v2"),
    *("squeezenet", "shufflenet", "vgg19", "zfnet512"),
)
SECONDS = 60  # of each search
RULES = ("same", "wider", "several")
TABLE = table(
    *("model", "operators", "alone MB", "fuse_groups MB", "groups"),
    *(column for rules in RULES for column in (f"minimum MB, {rules}", "groups", "s")),
)


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    yield from map(row, models_of(chosen, DEFAULT))


def row(model: Path) -> Row:
    graph = wb.load(model)
    groups = wb.optimize(graph, ["fuse_groups"])[1].facts
    if groups.traffic.bytes is None:
        return (model.stem, f"{len(graph):,}", "unknown sizes", *["-"] * (2 + 3 * len(RULES)))
    cells = [model.stem, f"{len(graph):,}", size(groups.traffic.unfused_bytes), size(groups.traffic.bytes)]
    cells.append(f"{len(groups.groups):,}")
    for rules in RULES:
        options = {"fuse_minimum.rules": rules, "fuse_minimum.seconds": SECONDS}
        history, seconds = timed(lambda options=options: wb.optimize(graph, ["fuse_minimum"], options=options))
        minimum = history[1].facts
        lower_bound = "" if minimum.traffic.certified else f", at least {size(minimum.traffic.bound_bytes)}"
        cells += [f"{size(minimum.traffic.bytes)}{lower_bound}", f"{len(minimum.groups):,}", f"{seconds:.1f}"]
    return tuple(cells)


def size(count: int) -> str:
    return f"{count / 1e6:,.2f}"


BENCHMARK = Benchmark(measure, (TABLE,), MODELS, default_and_real)
