"""A model on which other rounding would be visible, optimized without it: `python benchmarks/sound.py [--layers N]`.

It is generated after an audio model of 3,614 nodes that is not public. It has 8-bit weights with ONNX Runtime's own
operators, from its quantizer and its optimizer on a generated BERT. After them are turns that are summed up, two
products that make them millions of radians, a Resize and a Sin. One product by both factors would change the sound by
up to a half. `optimize --preset simplify` must not make that rewrite, and write the model. Seconds and CPU seconds, of
all processes, are medians of `--repeat` interleaved runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.engine import compile_modules  # noqa: E402
from benchmarks.simplify_models import bert  # noqa: E402

LAYERS, WIDTH = 156, 128  # 3,610 nodes
TURN, RATE = 6.2831855, 48_000.3  # radians; samples in a frame


def sound_model(layers: int, folder: Path) -> ModelProto:
    """The model. folder: for intermediate files."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    floats, quantized, merged = (folder / f"{name}.onnx" for name in ("floats", "quantized", "merged"))
    onnx.save(bert(layers, WIDTH), floats)
    quantize_dynamic(floats, quantized, weight_type=QuantType.QInt8)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(merged)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(quantized), options, providers=["CPUExecutionProvider"])
    model = onnx.load(merged)
    graph = model.graph
    for name, value in (("one", 1.0), ("turn", TURN), ("rate", RATE), ("scales", [1.0, 2.0, 1.0])):
        graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    graph.initializer.append(numpy_helper.from_array(np.array(1), "axis"))
    graph.node.extend(
        [
            helper.make_node("Mod", [graph.output[0].name, "one"], ["turns"], "turns", fmod=1),
            helper.make_node("CumSum", ["turns", "axis"], ["phase"], "phase"),
            helper.make_node("Mul", ["phase", "turn"], ["radians"], "radians"),
            helper.make_node("Mul", ["radians", "rate"], ["angle"], "angle"),
            helper.make_node("Resize", ["angle", "", "scales"], ["angles"], "angles", mode="nearest"),
            helper.make_node("Sin", ["angles"], ["sound"], "sound"),
        ]
    )
    graph.output.append(helper.make_tensor_value_info("sound", TensorProto.FLOAT, None))
    return model


def measured(command: list[str]) -> tuple[float, float]:
    """Wall-clock seconds, and CPU seconds of the process and its children."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--repeat", type=int, default=3)
    chosen = parser.parse_args()
    compile_modules()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file, out = folder / "sound.onnx", folder / "out.onnx"
        model = sound_model(chosen.layers, folder)
        onnx.save(model, file)
        command = [sys.executable, "-m", "workbench", "optimize", str(file), "-o", str(out), "--preset", "simplify"]
        variants = {"--no-verify": ["--no-verify"], "": []}
        runs_of: dict[str, list[tuple[float, float, int]]] = {variant: [] for variant in variants}
        for _ in range(chosen.repeat):
            for variant, options in variants.items():
                out.unlink(missing_ok=True)
                nodes = 0
                seconds, cpu = measured([*command, *options])
                if out.exists():
                    nodes = len(onnx.load(out).graph.node)
                runs_of[variant].append((seconds, cpu, nodes))
    print("| nodes | `optimize --preset simplify` | seconds | CPU seconds | nodes written |")
    print("|---|---|---|---|---|")
    for variant, runs in runs_of.items():
        seconds, cpu = (statistics.median(run[part] for run in runs) for part in (0, 1))
        written = f"{runs[0][2]:,}" if runs[0][2] else "none: not equal"
        print(f"| {len(model.graph.node):,} | {variant or '(verified)'} | {seconds:.1f} | {cpu:.1f} | {written} |")


if __name__ == "__main__":
    main()
