"""Memory plans and their runs: `python benchmarks/memory.py [--repeat N] [--device cuda] [MODEL.onnx ...]`.

One row per model, as loaded, batch 1: the peak of live bytes without shared memory and with it; the exact arena; the
arena of onnxsim's planner for the same file (installed in a virtual environment, which --peers FOLDER keeps); and the
times of the backend `arena` and of torch operator by operator, interleaved, a process for each backend, float32.
Without models, or with --and-light, the nine light networks with random weights, a BERT and a sample. --plans prints no
measurements. --orders prints instead the order of the file beside the one with the lowest peak. --minimalloc FOLDER
prints MiniMalloc's instances (`*.csv`) by every planner, each for at most 20 s. Prints Markdown.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.run.worker.machine import Machine

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

COLUMNS = (
    "model",
    "unshared MB",
    "shared",
    "arena MB",
    "gap",
    "onnxsim MB",
    "plan s",
    "arena ms",
    "of torch",
    "torch MB",
    "in passing",
)
SECONDS = 20
ONNXSIM = """
import sys, onnx, onnxsim
plan = onnxsim.plan_activation_memory(onnx.load(sys.argv[1]))
print(plan.arena_bytes, len(plan.unplanned))
"""
PINNED = ("onnxsim==0.8.1", f"onnx=={version('onnx')}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--repeat", type=int, help="runs of each (default: until every median is known to one percent)")
    parser.add_argument("--and-light", action="store_true", help="the light networks beside the models named")
    parser.add_argument("--plans", action="store_true", help="print the plans, measure nothing")
    parser.add_argument("--orders", action="store_true", help="execution orders in place of plans")
    parser.add_argument("--peers", type=Path, help="folder of onnxsim's virtual environment (default: a temporary one)")
    parser.add_argument("--minimalloc", type=Path, metavar="FOLDER")
    chosen = parser.parse_args()
    if chosen.minimalloc is not None:
        instances(chosen.minimalloc)
    elif chosen.orders:
        orders(chosen)
    else:
        networks(chosen)


def networks(chosen: argparse.Namespace) -> None:
    import workbench as wb

    row(COLUMNS)
    row(["---"] * len(COLUMNS))
    machine: Machine | None = None
    with tempfile.TemporaryDirectory() as folder:
        onnxsim = environment(chosen.peers or Path(folder) / "peers")
        for path in models(chosen, Path(folder)):
            graph = wb.load(path)
            plan = wb.memory_plan(graph, seconds=SECONDS)
            bound, packed = plan.sharing.unshared_bound, plan.packed
            cells = [
                path.stem,
                f"{bound / 1e6:.3f}",
                f"{packed.lower_bound / bound:.3f}",
                f"{packed.total / 1e6:.3f}",
                "proven" if plan.certified else f"{packed.gap:.1%}",
                by_onnxsim(onnxsim, path),
                f"{packed.seconds:.3f}",
            ]
            ran, machine = ([], machine) if chosen.plans else measured(graph, chosen)
            row([*cells, *(ran or ["-"] * 4)])
    if machine is not None:
        from workbench.run.measurement.formatting import machine_text

        print(f"\n{machine_text(machine)}.")


def orders(chosen: argparse.Namespace) -> None:
    """A table of the pass `order_for_memory`, within 20 s for each model."""
    import workbench as wb

    row(["model", "order of the file MB", "lowest peak MB", "at least MB", "s"])
    row(["---"] * 5)
    with tempfile.TemporaryDirectory() as folder:
        for path in models(chosen, Path(folder)):
            graph = wb.load(path)
            start = time.perf_counter()
            facts = wb.optimize(graph, ["order_for_memory"])[1].facts
            seconds = time.perf_counter() - start
            bound = "proven" if facts.certified else f"{facts.bound_bytes / 1e6:.3f}"
            peaks = (f"{size / 1e6:.3f}" for size in (facts.before_bytes, facts.after_bytes))
            row([path.stem, *peaks, bound, f"{seconds:.2f}"])


def measured(graph, chosen: argparse.Namespace) -> tuple[list[str], Machine]:
    import workbench as wb
    from workbench.run.measurement.statistics import ratio
    from workbench.run.measurement.variants import Variant

    variants = {"torch": Variant(graph), "arena": Variant(graph, "arena")}
    measurement = wb.measure(variants, device=chosen.device, repeat=chosen.repeat)
    torch, arena = measurement.ran["torch"], measurement.ran["arena"]
    ratio_to_torch = ratio(arena.times_ms, torch.times_ms)
    cells = [
        f"{arena.latency.median_ms:.2f}",
        f"{ratio_to_torch.ratio:.2f} ({ratio_to_torch.ratio_low:.2f} to {ratio_to_torch.ratio_high:.2f})",
        f"{(torch.memory.peak_bytes - torch.memory.weights_bytes) / 1e6:.3f}",
        arena.memory.kind.partition("in passing (")[2].partition(")")[0] or "-",
    ]
    return cells, measurement.machine


def environment(folder: Path) -> Path:
    """The Python of a virtual environment with onnxsim, which is created if it does not exist."""
    python = folder.resolve() / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PINNED], check=True, stdout=sys.stderr)
    return python


def by_onnxsim(python: Path, model: Path) -> str:
    """The MB of its arena, and in brackets the number of values of unknown size."""
    done = subprocess.run([str(python), "-I", "-c", ONNXSIM, str(model)], check=False, capture_output=True, text=True)
    if done.returncode:
        return "failed"
    total, unplanned = map(int, done.stdout.split()[-2:])
    return f"{total / 1e6:.3f}" + (f" ({unplanned:,})" if unplanned else "")


def models(chosen: argparse.Namespace, folder: Path) -> Iterator[Path]:
    yield from chosen.models
    if chosen.models and not chosen.and_light:
        return
    from sample_models.light import light_paths
    from tests.torch_bert import exported_bert

    yield from light_paths(folder)
    yield exported_bert(folder / "bert.onnx")
    yield ROOT / "sample_models" / "ppocr_cls_v2.onnx"


def instances(folder: Path) -> None:
    from workbench.planning.memory.blocks.minimalloc import read_packing
    from workbench.planning.memory.planners import pack, planners

    row(["instance", "at least", *planners(), "exact is", "s"])
    row(["---"] * (len(planners()) + 4))
    for path in sorted(folder.glob("*.csv")):
        packing = read_packing(str(path))
        packings = {name: pack(packing, planner, SECONDS) for name, planner in planners().items()}
        exact = packings["exact"]
        proven = "proven" if exact.certified else f"{exact.gap:.2%} above"
        totals = [f"{packed.total:,}" for packed in packings.values()]
        row([path.stem, f"{packing.lower_bound:,}", *totals, proven, f"{exact.seconds:.1f}"])


def row(cells) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
