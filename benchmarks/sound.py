"""A model on which other rounding would be visible, optimized without it.

It is generated after an audio model of 3,614 nodes that is not public. It has 8-bit weights with ONNX Runtime's own
operators, from its quantizer and its optimizer on a generated BERT. After them are turns that are summed up, two
products that make them millions of radians, a Resize and a Sin. One product by both factors would change the sound by
up to a half. `optimize --preset simplify` must not make that rewrite, and write the model. Seconds and CPU seconds, of
all processes, are medians of `--repeat` interleaved runs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from benchmarks.shared.benchmark import Benchmark, Item, option, repeat, table
from benchmarks.shared.bert import bert
from benchmarks.shared.processes import Ran, compile_modules, ended, graph_workbench

TABLE = table("nodes", "`optimize --preset simplify`", "seconds", "CPU seconds", "nodes written")
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


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    compile_modules()
    yield TABLE
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file, out = folder / "sound.onnx", folder / "out.onnx"
        model = sound_model(chosen.layers, folder)
        onnx.save(model, file)
        command = graph_workbench("optimize", file, "-o", out, "--preset", "simplify")
        variants = {"--no-verify": ["--no-verify"], "(verified)": []}
        runs_of: dict[str, list[Ran]] = {variant: [] for variant in variants}
        written = dict.fromkeys(variants, "none: not equal")
        for _ in range(chosen.repeat):
            for variant, options in variants.items():
                out.unlink(missing_ok=True)
                runs_of[variant].append(ended([*command, *options]))
                if out.exists():
                    written[variant] = f"{len(onnx.load(out).graph.node):,}"
    for variant, runs in runs_of.items():
        seconds = (statistics.median(run.seconds for run in runs), statistics.median(run.cpu_seconds for run in runs))
        yield (f"{len(model.graph.node):,}", variant, *(f"{s:.1f}" for s in seconds), written[variant])


OPTIONS = (option("--layers", type=int, default=LAYERS), repeat(3))
BENCHMARK = Benchmark(measure, (TABLE,), OPTIONS)
