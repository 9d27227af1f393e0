"""How long the engine takes, and how much memory.

Each command runs as a process, `--repeat` times. The table has the median of wall time and the largest peak memory
(resident set), for models of 20 MB and more also as a multiple of the file. The memory of the model is the peak minus
that of the same command on a model of two nodes, which is the memory of Python with its libraries. One of the two nodes
is folded by ONNX Runtime if the model's own run uses that. For models of 20 MB and more there is also a row of the onnx
package alone, which loads, checks, infers shapes and saves. The default models are the samples and ResNet-50 with
random weights.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx.parser

from benchmarks.shared.benchmark import MODELS, Benchmark, Item, Row, default_and_real, repeat, table
from benchmarks.shared.models import RESNET50, SAMPLES, models_of
from benchmarks.shared.processes import compile_modules, ended, graph_workbench, ran

DEFAULT = (*SAMPLES, RESNET50)
TABLE = table(
    *("command, model", "file (MB)", "seconds: median (min to max)", "peak (MB)", "/ file", "of the model (MB)")
)
OPTIONS = ("--layout", "greedy", "--no-verify")
MIN_COMPARED_BYTES = 20_000_000  # bytes; below, most of a process is its imports
TWO_NODES = """
<ir_version: 10, opset_import: ["" : 21]> g (float[N, 2] x) => (float[N, 2] y) { c = Relu(x)  y = Neg(c) }
"""
ONE_FOLDED = """
<ir_version: 10, opset_import: ["" : 21]> g (float[N, 2] x) => (float[N, 2] y)
<float[2] a = {1.0, 2.0}> { c = Exp(a)  y = Add(x, c) }
"""
FOLDS = """
import sys
from workbench.__main__ import main
sys.exit(main(sys.argv[1:]) or "onnxruntime" not in sys.modules)
"""
ONNX_ALONE = """
import sys, onnx
model = onnx.load(sys.argv[1])
onnx.checker.check_model(model)
onnx.save(onnx.shape_inference.infer_shapes(model), sys.argv[2])
"""


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    compile_modules()
    yield f"Each command was started {chosen.repeat} times."
    yield TABLE
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = str(folder / "out.onnx")

        def words(model: Path) -> list[str]:
            return ["optimize", *OPTIONS, str(model), "-o", written]

        def alone(model: Path) -> list[str]:
            return [sys.executable, "-c", ONNX_ALONE, str(model), written]

        def folds(model: Path) -> bool:
            """Whether the run loads ONNX Runtime, for values that NumPy would round differently."""
            return ended([sys.executable, "-c", FOLDS, *words(model)]).code == 0

        smallest = {folded: smallest_model(folder, folded) for folded in (False, True)}
        bare = {folded: ran(graph_workbench(*words(model))).peak for folded, model in smallest.items()}
        bare_alone = ran(alone(smallest[False])).peak
        for model in models_of(chosen, DEFAULT):
            ours = graph_workbench(*words(model))
            yield row(f"`optimize --no-verify`, {model.stem}", model, ours, bare[folds(model)], chosen.repeat)
            if model.stat().st_size >= MIN_COMPARED_BYTES:
                yield row(f"onnx alone, {model.stem}", model, alone(model), bare_alone, chosen.repeat)


def row(name: str, model: Path, command: list[str], bare: int, repeat: int) -> Row:
    """bare: the peak bytes of the same command on a model of two nodes."""
    runs = [ran(command) for _ in range(repeat)]
    seconds = [run.seconds for run in runs]
    peak, size = max(run.peak for run in runs), model.stat().st_size
    return (
        name,
        f"{size / 1e6:,.1f}",
        f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})",
        f"{peak / 1e6:,.0f}",
        f"{peak / size:.1f}" if size >= MIN_COMPARED_BYTES else "-",
        f"{max(0, peak - bare) / 1e6:,.0f}",
    )


def smallest_model(folder: Path, folded: bool) -> Path:
    """A file of two nodes; with `folded`, `optimize` folds one of them with ONNX Runtime."""
    path = folder / f"smallest_{folded}.onnx"
    path.write_bytes(onnx.parser.parse_model(ONE_FOLDED if folded else TWO_NODES).SerializeToString())
    return path


BENCHMARK = Benchmark(measure, (TABLE,), (*MODELS, repeat(5, "starts of each command")), default_and_real)
