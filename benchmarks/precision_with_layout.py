"""Layout and type of every operator, one after the other and together.

One row per model and target. Each model is simplified first. A number is what Casts and Transposes of the result read
and write in one run, in megabytes. Types are chosen without values of a run. The default models are four samples.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import workbench as wb
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, Row, default_and_real, table
from benchmarks.shared.models import models_of
from benchmarks.shared.timing import timed
from passes.layout.layout_optimal import LayoutOptimal
from passes.precision.precision_optimal import PrecisionOptimal
from passes.precision.precision_optimal_with_layout import PrecisionOptimalWithLayout
from workbench.analysis.inference.bound_shapes import infer_sizes
from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.ir import DataType
from workbench.planning.layout.profile import load_profile
from workbench.planning.precision.cast_cost import count_casts
from workbench.rewrite import PassContext, run_pass

DEFAULT = ("precision/resize_conv_resize", "ppocr_cls_v2", "basic_pitch_nmp", "resnet50_narrow")
TARGETS = ("cuda", "npu")
TABLE = table(
    *("model", "target", "layouts, then types (MB)", "types, then layouts (MB)", "together (MB)", "bound (MB)"),
    *("Casts", "Transposes", "seconds"),
)


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    for model in models_of(chosen, DEFAULT):
        simple = wb.optimize(wb.load(model)).graph
        yield from ((model.stem, target, *_numbers(simple, target)) for target in TARGETS)


def _numbers(graph, target: str) -> Row:
    context = PassContext(load_profile(target))

    def after(*passes) -> str:
        copy = graph.copy()
        for one in passes:
            run_pass(one, copy, context)
        return _megabytes(copy)

    one_after_the_other = (
        after(LayoutOptimal(), PrecisionOptimal()),
        after(PrecisionOptimal(), LayoutOptimal()),
    )
    together = graph.copy()
    step, seconds = timed(lambda: run_pass(PrecisionOptimalWithLayout(), together, context))
    facts = step.facts
    bound = "-" if facts.bound is None else f"{facts.bound / 1e6:.3f}, {'reached' if facts.certified else 'not'}"
    numbers = (f"{facts.casts:,}", f"{facts.transposes.transposes:,}", f"{seconds:.1f}")
    return (*one_after_the_other, _megabytes(together), bound, *numbers)


def _megabytes(graph) -> str:
    """What the Casts and Transposes read and write; and how many of them are of unknown size."""
    infer_sizes(graph)
    casts, transposes = count_casts(graph, DataType.FLOAT16), count_transposes(graph)
    unknown = casts.unknown + transposes.unknown
    return f"{(casts.bytes + 2 * transposes.bytes_moved) / 1e6:.3f}" + (f", {unknown} unknown" if unknown else "")


BENCHMARK = Benchmark(measure, (TABLE,), MODELS, default_and_real)
