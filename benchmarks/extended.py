"""`--export-for onnxruntime` beside ONNX Runtime's extended level: `python benchmarks/extended.py [MODEL.onnx ...]`.

One row a model. Nodes: of the file, of the result of ONNX Runtime's extended level (basic and extended fusions, without
the layouts of the next level), and of the file that `--preset simplify --export-for onnxruntime` writes. Times of one
run on ONNX Runtime's CPU provider, interleaved in one process: the original file at the extended level, and our file
with all of ONNX Runtime's optimizations off and at the extended level. The error is the largest of our file against the
original, both unoptimized. The default models are two BERTs of 12 layers, exported by TorchScript with random weights,
and ResNet-50. Prints Markdown.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

COLUMNS = (
    "model",
    "nodes",
    "extended",
    "ours",
    "original, extended ms",
    "ours, none ms",
    "ours, extended ms",
    "ours, none / original",
    "ours, extended / original",
    "error",
)


def main() -> None:
    import workbench as wb
    from workbench.run.inputs import seed_inputs
    from workbench.run.measurement.statistics import ratio

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--repeat", type=int, default=60, help="runs of each")
    chosen = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for path in (*models(Path(folder)), *chosen.models):
            ours, optimized = Path(folder) / "ours.onnx", Path(folder) / "extended.onnx"
            graph = wb.load(path)
            wb.export(wb.optimize(graph, preset="simplify", export_for="onnxruntime").graph, ours)
            inputs = seed_inputs(graph, dict(graph.dims), 0)
            sessions = {
                "original": session(path, "ORT_ENABLE_EXTENDED", written=optimized),
                "none": session(ours, "ORT_DISABLE_ALL"),
                "extended": session(ours, "ORT_ENABLE_EXTENDED"),
            }
            times = interleaved(sessions, inputs, chosen.repeat)
            none, extended = (ratio(times[name], times["original"]) for name in ("none", "extended"))
            cells = (
                path.stem,
                *(f"{count_nodes(file):,}" for file in (path, optimized, ours)),
                *(f"{sorted(times[name])[len(times[name]) // 2]:.2f}" for name in sessions),
                *(f"{r.ratio:.2f} ({r.ratio_low:.2f} to {r.ratio_high:.2f})" for r in (none, extended)),
                f"{error(session(path, 'ORT_DISABLE_ALL'), sessions['none'], inputs):.1e}",
            )
            print(f"| {' | '.join(cells)} |", flush=True)


def session(path: Path, level: str, written: Path | None = None, threads: int = 0) -> Any:
    """A session on the CPU. written: where it saves its optimized model. threads: 0 for ONNX Runtime's default."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    if written is not None:
        options.optimized_model_filepath = str(written)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def interleaved(sessions: dict[str, Any], inputs: dict[str, Any], repeat: int) -> dict[str, list[float]]:
    """By session, the milliseconds of each run. Rounds have a random order; the first three are not counted."""
    times: dict[str, list[float]] = {name: [] for name in sessions}
    order = list(sessions)
    for round_ in range(repeat + 3):
        random.shuffle(order)
        for name in order:
            start = time.perf_counter()
            sessions[name].run(None, inputs)
            if round_ >= 3:
                times[name].append((time.perf_counter() - start) * 1e3)
    return times


def count_nodes(path: Path) -> int:
    import onnx

    return len(onnx.load(path, load_external_data=False).graph.node)


def error(original: Any, ours: Any, inputs: dict[str, Any]) -> float:
    """The largest difference of floating-point outputs, over the original output's largest absolute value."""
    import numpy as np

    pairs = zip(original.run(None, inputs), ours.run(None, inputs), strict=True)
    errors = [
        float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30))
        for a, b in pairs
        if np.issubdtype(a.dtype, np.floating)
    ]
    return max(errors, default=0.0)


def models(folder: Path) -> Iterator[Path]:
    import onnx

    from sample_models.light import random_light
    from tests.torch_bert import exported_bert

    yield exported_bert(folder / "bert_torchscript.onnx")
    yield exported_bert(folder / "bert_torchscript_dynamic.onnx", dynamic=True)
    onnx.save(random_light("resnet50"), folder / "resnet50.onnx")
    yield folder / "resnet50.onnx"


if __name__ == "__main__":
    main()
