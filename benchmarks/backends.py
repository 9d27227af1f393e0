"""Torch's backends beside ONNX Runtime: `python benchmarks/backends.py [--repeat N] [--device cuda] [MODEL.onnx ...]`.

One row per model, float32, batch 1; its variants run interleaved, a process for each backend. They are the model as
loaded by torch and by ONNX Runtime, and the result of the preset `simplify` by torch-compile, by `fused` and by ONNX
Runtime. The default models are six networks with random weights and two samples. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

NETWORKS = ("resnet50", "squeezenet", "shufflenet", "inception_v1", "inception_v2", "densenet121")
SAMPLES = ("ppocr_cls_v2", "basic_pitch_nmp")
TORCH = ("torch", "torch-compile", "fused")
COLUMNS = (
    "model",
    *(f"{name} ms" for name in TORCH),
    "ONNX Runtime ms",
    "ONNX Runtime, ours ms",
    "best of torch",
    "ours",
    "groups",
)


def main() -> None:
    import workbench as wb
    from workbench.run.measurement.formatting import machine_text
    from workbench.run.measurement.statistics import ratio
    from workbench.run.measurement.variants import Variant

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--repeat", type=int, help="runs of each (default: until every median is known to one percent)")
    chosen = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    notes: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in chosen.models or models(Path(folder)):
            loaded = wb.load(path)
            ours = wb.optimize(loaded, preset="simplify").graph
            variants = {
                "torch": Variant(loaded),
                "torch-compile": Variant(ours, "torch-compile"),
                "fused": Variant(ours, "fused"),
                "onnxruntime": Variant(loaded, "onnxruntime"),
                "ours": Variant(ours, "onnxruntime"),
            }
            measurement = wb.measure(variants, device=chosen.device, repeat=chosen.repeat)
            ran = measurement.ran
            notes |= {f"{path.stem}, {label}": note for label, note in measurement.failures.items()}
            notes |= {f"{path.stem}, {label}": str(v.fallbacks) for label, v in ran.items() if v.fallbacks}
            torch_backends = [name for name in TORCH if name in ran]
            fastest = min(torch_backends, key=lambda name, ran=ran: ran[name].latency.median_ms)
            original = ran["onnxruntime"].times_ms
            ratio_of_ours = ratio(ran["ours"].times_ms, original)
            counts = Counter(kernel.by for kernel in ran["fused"].kernels)
            cells = [
                path.stem,
                *(
                    f"{ran[name].latency.median_ms:.2f}" if name in ran else "-"
                    for name in (*TORCH, "onnxruntime", "ours")
                ),
                f"{ratio(ran[fastest].times_ms, original).ratio:.2f} ({fastest})",
                f"{ratio_of_ours.ratio:.2f} ({ratio_of_ours.ratio_low:.2f} to {ratio_of_ours.ratio_high:.2f})",
                ", ".join(f"{count} {by}" for by, count in counts.most_common()),
            ]
            print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\n{machine_text(measurement.machine)}.")
    for name, note in notes.items():
        print(f"\n{name}: {note}")


def models(folder: Path) -> Iterator[Path]:
    import onnx

    from sample_models.light import random_light

    for name in NETWORKS:
        onnx.save(random_light(name), folder / f"{name}.onnx")
        yield folder / f"{name}.onnx"
    yield from (ROOT / "sample_models" / f"{name}.onnx" for name in SAMPLES)


if __name__ == "__main__":
    main()
