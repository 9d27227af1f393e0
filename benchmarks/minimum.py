"""Transposes that are left of networks written in several ways: by every strategy, and by ONNX Runtime.

First table: each network is simplified without its rules for Transposes, and then written in three ways. "nhwc": values
are NHWC, and each operator that needs channels first is between two Transposes; a network that has such values in its
file stands "as it is" instead. "mixed": every 1x1 convolution of stride 1 is a MatMul on NHWC values. "wrapped": a
third of its values is transposed to a random order and back. A cell has the Transposes and the megabytes that they
move in one run. The target demands channels first, as ONNX Runtime's kernels do. "proven by a cut": the least that the
checker proves of `optimal`'s file by a minimum cut of its own.

Second table: chains of residual blocks, two of three with a MatMul on NHWC values instead of a convolution.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import workbench as wb
from benchmarks.shared.benchmark import MODELS, Benchmark, Item, Row, default_and_real, table
from benchmarks.shared.models import LIGHT, models_of
from benchmarks.shared.sessions import session
from benchmarks.shared.timing import timed
from sample_models.variants import mixed_layouts, nhwc_dataflow, residual_chain, wrapped
from workbench.analysis.metrics.transpose_cost import Counts, count_transposes
from workbench.formats.io import load_model
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.layout.problem.orders import order_problem
from workbench.planning.layout.profile import load_profile
from workbench.planning.solvers.solving import solve_integer_program

TARGET = "nchw"
STRATEGIES = ("greedy", "record-then-insert", "insert-and-cancel", "convert-layout", "optimal")
LEFT = table("network", "written", "in", "ONNX Runtime, basic", *STRATEGIES, "proven by a cut (MB)", "simplify")
GROWTH = table("operators", "choose and convert (s)", "of it the search (s)", "transposes in", "left")
DEFAULT = (*LIGHT, "bert_torchscript", "vit_b16_narrow", "convnext_t_narrow", "inception_v2_narrow", "unet_narrow")
BLOCKS = (70, 220, 700, 2200)
BEFORE = ["fold_constants", "fold_batchnorm", "common_subexpressions", "dead_nodes"]


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield LEFT
    with tempfile.TemporaryDirectory() as folder:
        for path in models_of(chosen, DEFAULT):
            graph = wb.optimize(wb.load(path), BEFORE).graph
            for written, variant in ways_to_write(graph).items():
                yield (path.stem, written, *left(variant, Path(folder)))
    yield (
        "The growth of the time: residual blocks, two of three with a MatMul on NHWC values between transposes, "
        "profile `cpu`."
    )
    yield GROWTH
    yield from map(growth, BLOCKS)


def ways_to_write(graph: wb.Graph) -> dict[str, wb.Graph]:
    has_nhwc = "NHWC" in infer_layouts(graph).values()
    first = {"as it is": graph} if has_nhwc else {"nhwc": nhwc_dataflow(graph)}
    return {**first, "mixed": mixed_layouts(graph), "wrapped": wrapped(graph)}


def left(graph: wb.Graph, folder: Path) -> Row:
    """What each leaves of a graph, which is written to a file and read again."""
    source, out, evidence = (folder / name for name in ("in.onnx", "out.onnx", "certificate.json"))
    wb.export(graph, source)
    graph = wb.load(source, dims=graph.dims)
    results = {name: wb.optimize(graph, preset="none", layout=name, target=TARGET) for name in STRATEGIES}
    wb.export(results["optimal"].graph, out)
    wb.certificate(results["optimal"], source, out, evidence)
    cells = [cell(count_transposes(results[name].graph)) for name in STRATEGIES]
    simple = cell(count_transposes(wb.optimize(graph).graph))
    return cell(count_transposes(graph)), by_onnx_runtime(source), *cells, proven(source, out, evidence), simple


def cell(counts: Counts) -> str:
    return f"{counts.transposes} ({counts.bytes_moved / 1e6:.3f})"


def by_onnx_runtime(source: Path) -> str:
    return cell(left_by_onnx_runtime(source))


def left_by_onnx_runtime(source: Path) -> Counts:
    """The Transposes in what its basic optimizations leave."""
    written = source.with_suffix(".basic.onnx")
    session(source, "ORT_ENABLE_BASIC", written)
    return count_transposes(load_model(written))


def proven(source: Path, out: Path, evidence: Path) -> str:
    """The checker's own bound."""
    said = str(wb.check_certificate(source, out, evidence))
    found = re.search(r"no alternative moves less than ([0-9,]+) bytes", said)
    return "-" if found is None else f"{int(found[1].replace(',', '')) / 1e6:.3f}"


def growth(blocks: int) -> Row:
    graph = residual_chain(blocks)
    step_seconds, search_seconds = [], []
    for _ in range(3):
        history, seconds = timed(lambda: wb.optimize(graph, ["layout_optimal"], target="cpu"))
        step_seconds.append(seconds)
        problem = order_problem(graph, infer_layouts(graph, through_reshapes=True), load_profile("cpu")).problem
        search_seconds.append(timed(lambda problem=problem: solve_integer_program(problem))[1])
    medians = (f"{statistics.median(seconds):.2f}" for seconds in (step_seconds, search_seconds))
    counts = (f"{counted['transposes']:,}" for counted in (history[1].before, history[1].after))
    return (f"{len(graph):,}", *medians, *counts)


BENCHMARK = Benchmark(measure, (LEFT, GROWTH), (*MODELS,), default_and_real)
