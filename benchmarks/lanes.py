"""Operators side by side: `python benchmarks/lanes.py [--device cuda] [--narrow N] [MODEL.onnx ...]`.

One row per model: the bound by the cost model of an H100 and by operators' times measured on the device; streams and
the waits between them; the median time on streams and sequentially, of the same operators in the same arena,
interleaved, each with the faster number of threads in a kernel; and the memory planned for both. Light networks with
random weights, a BERT and a sample come before the given models. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

NETWORKS = ("inception_v2", "inception_v1", "squeezenet", "shufflenet", "resnet50")
COLUMNS = (
    "model",
    "bound, H100 model",
    "bound, measured",
    "streams",
    "waits",
    "one by one ms",
    "side by side ms",
    "of one by one",
    "by",
    "memory MB, one by one",
    "memory MB, on streams",
    "lower bound",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--narrow", type=int, default=1, help="divide channels by this (not of ShuffleNet)")
    chosen = parser.parse_args()
    row(COLUMNS)
    row(["---"] * len(COLUMNS))
    with tempfile.TemporaryDirectory() as folder:
        for path in models(chosen, Path(folder)):
            row(measured(path, chosen.device))


def measured(path: Path, device: str) -> list[str]:
    import workbench as wb
    from workbench.planning.streams.analysis import analyze_streams
    from workbench.run.measurement.stream_times import STREAM_ROUNDS, ran_on_streams, stream_variants

    graph = wb.load(path)
    by_model = analyze_streams(graph)
    ran = ran_on_streams(wb.measure(stream_variants(graph), device=device, repeat=STREAM_ROUNDS))
    by_times = analyze_streams(graph, ran.times_us)
    cells = [
        path.stem,
        f"{by_model.schedule.dependencies.bound:.2f}",
        f"{by_times.schedule.dependencies.bound:.2f}",
        f"{len(by_times.schedule.streams):,}",
        f"{by_times.schedule.waits:,}",
    ]
    if ran.streams is None:
        cells += ["-", "-", "-", ran.reason]
    else:
        threads = f"{ran.streams.threads:,} threads, {ran.streams.threads_of_kernel:,} in a kernel"
        cells += [
            f"{ran.streams.one_by_one_ms:.2f}",
            f"{ran.streams.side_by_side_ms:.2f}",
            f"{ran.streams.ratio:.2f}",
            threads if ran.streams.threads else "streams",
        ]
    concurrent = by_times.concurrent
    cells += [
        f"{by_times.sequential.packed.total / 1e6:.3f}",
        f"{concurrent.packed.total / 1e6:.3f}",
        "proven" if concurrent.certified else f"{concurrent.packed.lower_bound / 1e6:.3f}",
    ]
    return cells


def models(chosen: argparse.Namespace, folder: Path) -> Iterator[Path]:
    from sample_models.light import random_light
    from tests.torch_bert import exported_bert

    for name in NETWORKS:
        path = folder / f"{name}.onnx"
        path.write_bytes(random_light(name, narrow=1 if name == "shufflenet" else chosen.narrow).SerializeToString())
        yield path
    yield exported_bert(folder / "bert.onnx")
    yield ROOT / "sample_models" / "ppocr_cls_v2.onnx"
    yield from chosen.models


def row(cells) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
