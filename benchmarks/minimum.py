"""The proven minimum of Transposes on networks written in several ways, and how its time grows.

First table: the transposes that remain, all certified. The last column has those that ONNX Runtime 1.31 leaves, and the
minimum known before with fewer operators in the table. Second table: chains of residual blocks, two of three with a
MatMul on NHWC values instead of a convolution.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator

import workbench as wb
from benchmarks.shared.benchmark import Benchmark, Item, Row, table
from benchmarks.shared.models import model_files
from benchmarks.shared.timing import timed
from sample_models.variants import mixed_layouts, nhwc_dataflow, residual_chain
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.problem.orders import order_problem
from workbench.planning.layout.profile import load_profile
from workbench.planning.solvers.solving import solve_integer_program

LEFT = table(
    *("network", "written", "profile", "in", "left", "millions of elements", "known: ONNX Runtime, minimum"),
)
GROWTH = table("operators", "choose and convert (s)", "of it the cut (s)", "transposes in", "left")
# network, written, target -> left by ONNX Runtime 1.31, minimum known before
KNOWN = {
    ("resnet50", "nhwc", "cpu"): (1, 1),
    ("densenet121", "nhwc", "cpu"): (1, 1),
    ("inception_v1", "nhwc", "cpu"): (1, 1),
    ("squeezenet", "nhwc", "cpu"): (1, 1),
    ("shufflenet", "nhwc", "cpu"): (17, 17),
    ("resnet50", "mixed", "cpu"): (59, 40),
    ("squeezenet", "mixed", "cpu"): (26, 20),
    ("inception_v2", "mixed", "cpu"): (56, 56),
    ("inception_v1", "mixed", "cpu"): (56, 56),
    ("densenet121", "mixed", "cpu"): (124, 124),
}
NETWORKS = ("resnet50", "densenet121", "inception_v1", "inception_v2", "squeezenet", "shufflenet")
BLOCKS = (70, 220, 700, 2200)


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield LEFT
    for path in model_files(NETWORKS):
        graph = wb.optimize(wb.load(path), ["fold_constants", "fold_batchnorm"]).graph
        for written, variant in (("plain", graph), ("nhwc", nhwc_dataflow(graph)), ("mixed", mixed_layouts(graph))):
            for target in ("cpu", "cuda"):
                yield minimum(path.stem, written, target, variant)
    yield (
        "The growth of the time: residual blocks, two of three with a MatMul on NHWC values between transposes, "
        "profile `cpu`."
    )
    yield GROWTH
    yield from map(growth, BLOCKS)


def minimum(name: str, written: str, target: str, graph: wb.Graph) -> Row:
    step = wb.optimize(graph, ["layout_optimal"], target=target)[1]
    assert step.facts.certified
    known = KNOWN.get((name, written, target))
    counts = (
        f"{step.before['transposes']}",
        f"{step.after['transposes']}",
        f"{step.after['elements_moved'] / 1e6:.2f}",
    )
    return (name, written, target, *counts, "-" if known is None else f"{known[0]}, {known[1]}")


def growth(blocks: int) -> Row:
    graph = residual_chain(blocks)
    step_seconds, cut_seconds = [], []
    for _ in range(3):
        history, seconds = timed(lambda: wb.optimize(graph, ["layout_optimal"], target="cpu"))
        step_seconds.append(seconds)
        problem = order_problem(graph, infer_layouts(graph, through_reshapes=True), load_profile("cpu")).problem
        cut_seconds.append(timed(lambda problem=problem: solve_integer_program(problem))[1])
    medians = (f"{statistics.median(seconds):.2f}" for seconds in (step_seconds, cut_seconds))
    counts = (f"{counted['transposes']:,}" for counted in (history[1].before, history[1].after))
    return (f"{len(graph):,}", *medians, *counts)


BENCHMARK = Benchmark(measure, (LEFT, GROWTH))
