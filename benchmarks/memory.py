"""Memory plans, and their runs.

One row per model, as loaded, batch 1: the peak of live bytes without shared memory and with it; the exact arena; the
arena of onnxsim's planner for the same file (installed in a virtual environment, which --peers FOLDER keeps); and the
times of the backend `arena` and of torch operator by operator, interleaved, a process for each backend, float32. The
default models are the nine light networks with random weights, a BERT and a sample. --plans measures nothing. --orders
has instead the order of the file beside the one with the lowest peak. --minimalloc FOLDER has MiniMalloc's instances
(`*.csv`) by every planner, each for at most 20 s.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import workbench as wb
from benchmarks.shared.benchmark import DEVICE, MODELS, Benchmark, Item, RealModels, Row, option, repeat, table
from benchmarks.shared.models import LIGHT, models_of
from benchmarks.shared.processes import environment_with
from benchmarks.shared.timing import timed, with_interval
from workbench.planning.memory.blocks.minimalloc import read_packing
from workbench.planning.memory.planners import pack, planners
from workbench.run.measurement.formatting import machine_text
from workbench.run.measurement.measurement_result import Measurement
from workbench.run.measurement.statistics import ratio
from workbench.run.measurement.variants import Variant

DEFAULT = (*LIGHT, "bert", "ppocr_cls_v2")
PLANS = table(
    *("model", "unshared MB", "shared", "arena MB", "gap", "onnxsim MB", "plan s", "arena ms", "of torch", "torch MB"),
    "in passing",
)
ORDERS = table("model", "order of the file MB", "lowest peak MB", "at least MB", "s")
INSTANCES = table("instance", "at least", *planners(), "exact is", "s")
SECONDS = 20
ONNXSIM = """
import sys, onnx, onnxsim
plan = onnxsim.plan_activation_memory(onnx.load(sys.argv[1]))
print(plan.arena_bytes, len(plan.unplanned))
"""
PINNED = ("onnxsim==0.8.1", f"onnx=={version('onnx')}")


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    if chosen.minimalloc is not None:
        return instances(chosen.minimalloc)
    return orders(chosen) if chosen.orders else plans(chosen)


def plans(chosen: argparse.Namespace) -> Iterator[Item]:
    yield PLANS
    measurement = None
    with tempfile.TemporaryDirectory() as folder:
        onnxsim = environment_with(chosen.peers or Path(folder) / "peers", PINNED)
        for path in models_of(chosen, DEFAULT):
            graph = wb.load(path)
            plan = wb.memory_plan(graph, seconds=SECONDS)
            bound, packed = plan.sharing.unshared_bound, plan.packed
            cells = (
                *(path.stem, f"{bound / 1e6:.3f}", f"{packed.lower_bound / bound:.3f}", f"{packed.total / 1e6:.3f}"),
                "proven" if plan.certified else f"{packed.gap:.1%}",
                *(by_onnxsim(onnxsim, path), f"{packed.seconds:.3f}"),
            )
            if chosen.plans:
                yield (*cells, *["-"] * 4)
                continue
            variants = {"torch": Variant(graph), "arena": Variant(graph, "arena")}
            measurement = wb.measure(variants, device=chosen.device, repeat=chosen.repeat)
            yield (*cells, *of_run(measurement))
    if measurement is not None:
        yield f"{machine_text(measurement.machine)}."


def of_run(measurement: Measurement) -> Row:
    torch, arena = measurement.ran["torch"], measurement.ran["arena"]
    return (
        f"{arena.latency.median_ms:.2f}",
        with_interval(ratio(arena.times_ms, torch.times_ms)),
        f"{(torch.memory.peak_bytes - torch.memory.weights_bytes) / 1e6:.3f}",
        arena.memory.kind.partition("in passing (")[2].partition(")")[0] or "-",
    )


def by_onnxsim(python: Path, model: Path) -> str:
    """The MB of its arena, and in brackets the number of values of unknown size."""
    done = subprocess.run([str(python), "-I", "-c", ONNXSIM, str(model)], check=False, capture_output=True, text=True)
    if done.returncode:
        return "failed"
    total, unplanned = map(int, done.stdout.split()[-2:])
    return f"{total / 1e6:.3f}" + (f" ({unplanned:,})" if unplanned else "")


def orders(chosen: argparse.Namespace) -> Iterator[Item]:
    """Of the pass `order_for_memory`, within 20 s for each model."""
    yield (
        "The peak of live bytes in the order of the file, and in the order that `order_for_memory` finds within 20 s; "
        "`python -m benchmarks memory --orders`."
    )
    yield ORDERS
    for path in models_of(chosen, DEFAULT):
        graph = wb.load(path)
        history, seconds = timed(lambda graph=graph: wb.optimize(graph, ["order_for_memory"]))
        facts = history[1].facts
        bound = "proven" if facts.certified else f"{facts.bound_bytes / 1e6:.3f}"
        peaks = (f"{size / 1e6:.3f}" for size in (facts.before_bytes, facts.after_bytes))
        yield (path.stem, *peaks, bound, f"{seconds:.2f}")


def instances(folder: Path) -> Iterator[Item]:
    yield (
        "MiniMalloc's instances (capacity 1,048,576) by every planner, at most 20 s each; "
        "`python -m benchmarks memory --minimalloc FOLDER`."
    )
    yield INSTANCES
    for path in sorted(folder.glob("*.csv")):
        packing = read_packing(str(path))
        packings = {name: pack(packing, planner, SECONDS) for name, planner in planners().items()}
        exact = packings["exact"]
        proven = "proven" if exact.certified else f"{exact.gap:.2%} above"
        totals = (f"{packed.total:,}" for packed in packings.values())
        yield (path.stem, f"{packing.lower_bound:,}", *totals, proven, f"{exact.seconds:.1f}")


def published(real: RealModels) -> list[list[str]]:
    lines = [["--and-default", *real.named("bert_12l_raw", "unet_sd15_raw")], ["--orders"]]
    return [*lines, *([["--minimalloc", str(real.instances)]] if real.instances else [])]


OPTIONS = (
    *(*MODELS, DEVICE, repeat(None)),
    option("--plans", action="store_true", help="the plans alone; nothing is measured"),
    option("--orders", action="store_true", help="execution orders in place of plans"),
    option("--peers", type=Path, help="folder of onnxsim's virtual environment (default: a temporary one)"),
    option("--minimalloc", type=Path, metavar="FOLDER"),
)
BENCHMARK = Benchmark(measure, (PLANS, ORDERS, INSTANCES), OPTIONS, published)
