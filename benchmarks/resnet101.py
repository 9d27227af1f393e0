"""ResNet-101 by every layout strategy in mixed precision: OneFlow's table, on this machine.

    python benchmarks/resnet101.py --device cuda                              batch 16, 32 and 64
    python benchmarks/resnet101.py --batches 1 --side 64 --stages 1,1,1,1     a small one

All variants of a batch run interleaved. The graph is ResNet-101's, with random weights. `time weighed` and `measured`
are the strategies that weigh operators by their times on the device. Prints Markdown.
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

ONEFLOW = {16: (14, 13), 32: (24, 22), 64: (44, 38)}  # seconds on a V100, NCHW and auto NHWC


def main() -> None:
    import onnx

    import workbench as wb
    from sample_models.resnet import RESNET_101, resnet

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="mixed")
    parser.add_argument("--batches", default="16,32,64")
    parser.add_argument("--side", type=int, default=224, help="height and width of the images")
    parser.add_argument("--stages", default=",".join(map(str, RESNET_101)), help="blocks of each stage")
    parser.add_argument("--repeat", type=int, default=20)
    chosen = parser.parse_args()
    stages = tuple(int(blocks) for blocks in chosen.stages.split(","))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet.onnx"
        onnx.save(resnet(stages, chosen.side), path)
        for number, batch in enumerate(int(size) for size in chosen.batches.split(",")):
            graph = wb.load(path, dims={"N": batch})
            measurement = wb.measure(
                _variants(graph, chosen.device, chosen.dtype),
                device=chosen.device,
                dtype=chosen.dtype,
                repeat=chosen.repeat,
            )
            if number == 0:
                _print_head(measurement, chosen.dtype)
            _print(measurement, batch)


def _variants(graph, device: str, dtype: str) -> dict:
    """By name: the network with batch norms folded, and each strategy's result. Times are on the device in `dtype`."""
    import passes
    import workbench as wb

    variants = {"NCHW": wb.optimize(graph, preset="normalize").graph}
    for name, cls in passes.compared_strategies().items():
        timing = {"device": device, "dtype": dtype}
        options = {f"{cls().name}.{key}": value for key, value in timing.items() if key in cls().options()}
        variants[name] = wb.optimize(graph, preset="normalize", layout=name, options=options, target="cuda").graph
    by_time = {"layout_optimal.weigh": "time", "layout_optimal.device": device, "layout_optimal.dtype": dtype}
    variants["optimal, time weighed"] = wb.optimize(
        graph, preset="normalize", layout="optimal", options=by_time, target="cuda"
    ).graph
    return variants


def _print_head(measurement: Measurement, dtype: str) -> None:
    machine = measurement.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    print(f"{machine.device_name}, {machine.threads} threads; {versions}; {dtype}\n")
    print("| batch | variant | transposes | median ms | p90 ms | ratio | 95 % between | peak MB | error | OneFlow |")
    print("|---|---|---|---|---|---|---|---|---|---|")


def _print(measurement: Measurement, batch: int) -> None:
    first, second = ONEFLOW.get(batch, (None, None))
    oneflow = {"NCHW": f"{first} s"} | {"insert-and-cancel": f"{second} s, ratio {second / first:.2f}"} if first else {}
    for label, v in measurement.variants.items():
        transposes = sum(operator.op == "Transpose" for operator in v.operators)
        interval = f"{v.ratio.ratio_low:.2f} and {v.ratio.ratio_high:.2f}"
        error = v.error.max_rel_error if v.error else float("nan")
        print(
            f"| {batch} | {label} | {transposes} | {v.latency.median_ms:.1f} | {v.latency.p90_ms:.1f} "
            f"| {v.ratio.ratio:.2f} | {interval} | {v.memory.peak_bytes / 1e6:,.0f} "
            f"| {error:.1e} | {oneflow.get(label, '-')} |"
        )
    for note in measurement.notes:
        print(f"\n{note}", file=sys.stderr)


if __name__ == "__main__":
    main()
