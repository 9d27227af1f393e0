"""Memory plans and their runs: `python benchmarks/memory.py [--repeat N] [--device cuda] [MODEL.onnx ...]`.

One row per model, as loaded, batch 1: the most bytes in use at once without shared memory and with it, the exact arena,
and by turns with torch operator by operator (a process for each backend, float32) what the backend `arena` takes.
Without models, the nine light networks with random weights, a BERT and a sample. With --minimalloc FOLDER,
instead, MiniMalloc's instances (`*.csv`) by every planner, each for at most 20 s. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

COLUMNS = (
    "model",
    "unshared MB",
    "shared",
    "arena MB",
    "gap",
    "plan s",
    "arena ms",
    "of torch",
    "torch MB",
    "in passing",
)
SECONDS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--repeat", type=int, help="runs of each (default: until every median is known to one percent)")
    parser.add_argument("--minimalloc", type=Path, metavar="FOLDER")
    chosen = parser.parse_args()
    if chosen.minimalloc is not None:
        instances(chosen.minimalloc)
    else:
        networks(chosen)


def networks(chosen: argparse.Namespace) -> None:
    import workbench as wb
    from workbench.run.measurement.formatting import machine_words
    from workbench.run.measurement.measure import Variant
    from workbench.run.measurement.statistics import ratio

    row(COLUMNS)
    row(["---"] * len(COLUMNS))
    with tempfile.TemporaryDirectory() as folder:
        for path in chosen.models or models(Path(folder)):
            graph = wb.load(path)
            plan = wb.memory_plan(graph, seconds=SECONDS)
            bound, packed = plan.sharing.unshared_bound, plan.packed
            found = wb.measure(
                {"torch": Variant(graph), "arena": Variant(graph, "arena")},
                device=chosen.device,
                repeat=chosen.repeat,
            )
            torch, arena = found.ran["torch"], found.ran["arena"]
            beside = ratio(arena.times_ms, torch.times_ms)
            values = torch.memory.peak_bytes - torch.memory.weights_bytes
            row(
                [
                    path.stem,
                    f"{bound / 1e6:.3f}",
                    f"{packed.lower_bound / bound:.3f}",
                    f"{packed.total / 1e6:.3f}",
                    "proven" if plan.certified else f"{packed.gap:.1%}",
                    f"{packed.seconds:.3f}",
                    f"{arena.latency.median_ms:.2f}",
                    f"{beside.ratio:.2f} ({beside.ratio_low:.2f} to {beside.ratio_high:.2f})",
                    f"{values / 1e6:.3f}",
                    arena.memory.kind.partition("in passing (")[2].partition(")")[0] or "-",
                ]
            )
    print(f"\n{machine_words(found.machine)}.")


def models(folder: Path) -> Iterator[Path]:
    from sample_models.light import light_paths
    from tests.torch_bert import exported_bert

    yield from light_paths(folder)
    yield exported_bert(folder / "bert.onnx")
    yield ROOT / "sample_models" / "ppocr_cls_v2.onnx"


def instances(folder: Path) -> None:
    from workbench.memory.minimalloc import read_packing
    from workbench.memory.planners import pack, planners

    row(["instance", "at least", *planners(), "exact is", "s"])
    row(["---"] * (len(planners()) + 4))
    for path in sorted(folder.glob("*.csv")):
        packing = read_packing(str(path))
        found = {name: pack(packing, planner, SECONDS) for name, planner in planners().items()}
        exact = found["exact"]
        proven = "proven" if exact.certified else f"{exact.gap:.2%} above"
        totals = [f"{packed.total:,}" for packed in found.values()]
        row([path.stem, f"{packing.lower_bound:,}", *totals, proven, f"{exact.seconds:.1f}"])


def row(cells) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
