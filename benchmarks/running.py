"""ResNet-50 by backend, layout and precision, each table measured interleaved.

    python benchmarks/running.py [--batch 1] [--device cpu|cuda] [--repeat N]

The graph is the onnx package's light_resnet50 with random weights, batch norms folded; "channels-last" is the result of
the strategy `optimal`. The first table has torch, torch.compile, on a GPU CUDA graphs, and ONNX Runtime. The second has
every element type on torch, with the error against ONNX Runtime's float32. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.run.measurement.measurement_result import Measurement

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

HEAD = (
    "| variant | median ms | +- ms | min ms | p90 ms | runs | ratio | 95 % between | first result s "
    "| peak MB | sum of operators ms | error |\n|" + "---|" * 12
)


def main() -> None:
    import onnx

    import workbench as wb
    from benchmarks.layouts import free_batch
    from sample_models.light import random_light
    from workbench.run.measurement.formatting import machine_text
    from workbench.run.measurement.variants import Variant
    from workbench.run.tolerances import DTYPES

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--narrow", type=int, default=1, help="divide the channels by this, for a quick look")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--repeat", type=int, help="runs of each (default: until every median is known to one percent)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet50.onnx"
        model = random_light("resnet50", narrow=chosen.narrow)
        free_batch(model)
        onnx.save(model, path)
        graph = wb.load(path, dims={"N": chosen.batch})
        folded = wb.optimize(graph, preset="normalize").graph
        last = wb.optimize(graph, preset="normalize", layout="optimal", target="cuda").graph
        compiled = ("torch-compile",) if chosen.device == "cpu" else ("cuda-graphs", "torch-compile")
        first = {"torch, NCHW": Variant(folded), "torch, channels-last": Variant(last)}
        for backend in compiled:
            first[f"{backend}, NCHW"] = Variant(folded, backend)
            first[f"{backend}, channels-last"] = Variant(last, backend)
        first["ONNX Runtime, NCHW"] = Variant(folded, "onnxruntime")
        dtypes = [dtype for dtype in DTYPES if dtype != "tf32" or chosen.device != "cpu"]  # a CPU has none
        second = {f"{dtype}, {name}": Variant(g, dtype=dtype) for dtype in dtypes for name, g in
                  (("NCHW", folded), ("channels-last", last))}  # fmt: skip
        for number, variants in enumerate((first, second)):
            measurement = wb.measure(variants, device=chosen.device, repeat=chosen.repeat)
            if number == 0:
                print(f"Batch {chosen.batch}; {machine_text(measurement.machine)}.")
            _print(measurement)


def _print(measurement: Measurement) -> None:
    from workbench.run.measurement.measurement_result import FailedVariant
    from workbench.run.measurement.statistics import ratio

    print(f"\n{HEAD}")
    first = next(iter(measurement.ran.values())).times_ms
    for label, v in measurement.variants.items():
        if isinstance(v, FailedVariant):
            print(f"| {label} | failed: {v.failed} |" + " |" * 10)
            continue
        error = v.error.max_rel_error
        to_first = ratio(v.times_ms, first)
        between = f"{to_first.ratio_low:.2f} and {to_first.ratio_high:.2f}"
        print(
            f"| {label} | {v.latency.median_ms:.2f} | {v.latency.median_error_ms:.2f} "
            f"| {v.latency.min_ms:.2f} | {v.latency.p90_ms:.2f} "
            f"| {len(v.times_ms)} | {to_first.ratio:.2f} | {between} | {v.first_result_s:.2f} "
            f"| {v.memory.peak_bytes / 1e6:.0f} | {v.sum_ms:.2f} | {error:.1e} |"
        )
    roofs = "; ".join(
        f"{dtype}: {roof.flops_per_s / 1e9:,.0f} GFLOP/s, {roof.bytes_per_s / 1e9:,.0f} GB/s"
        for dtype, roof in measurement.ceilings.items()
        if roof is not None
    )
    print(f"\nMeasured ceilings: {roofs}.")
    fallbacks = {f"{label}: {what}: {why}" for label, v in measurement.ran.items()
            for what, why in v.fallbacks.items()}  # fmt: skip
    for line in (*sorted(fallbacks), *measurement.notes):
        print(f"\n{line}")


if __name__ == "__main__":
    main()
