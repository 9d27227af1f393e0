"""How long the engine takes, and how much memory: `python benchmarks/engine.py [MODEL ...]`.

Each command runs as a process, `--repeat` times. A Markdown table has the median of wall time and the largest peak
memory (resident set), for models of 20 MB and more also as a multiple of the file. The memory of the model is the peak
minus that of the same command on a model of two nodes, which is the memory of Python with its libraries. One of the
two nodes is folded by ONNX Runtime if the model's own run uses that. For models of 20 MB and more there is also a row
of the onnx package alone, which loads, checks, infers shapes and saves. The default models are the samples and
ResNet-50 with random weights.
"""

from __future__ import annotations

import argparse
import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnx.parser

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

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


def compile_modules() -> None:
    """Compile all modules, as pip does at installation; else the first start takes longer."""
    for folder in ("workbench", "passes"):
        compileall.compile_dir(ROOT / folder, quiet=1)


def measured(command: list[str]) -> tuple[float, int]:
    """Seconds and peak bytes of one process."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"this command failed: {' '.join(command)}")
    return time.perf_counter() - started, usage.ru_maxrss * 1024


def row(name: str, model: Path, command: list[str], bare: int, repeat: int) -> str:
    """One line of the table. bare: the peak bytes of the same command on a model of two nodes."""
    runs = [measured(command) for _ in range(repeat)]
    seconds = [s for s, _ in runs]
    peak = max(p for _, p in runs)
    size = model.stat().st_size
    spread = f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
    ratio = f"{peak / size:.1f}" if size >= MIN_COMPARED_BYTES else "-"
    model_bytes = max(0, peak - bare)
    cells = (name, f"{size / 1e6:,.1f}", spread, f"{peak / 1e6:,.0f}", ratio, f"{model_bytes / 1e6:,.0f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()
    compile_modules()
    with tempfile.TemporaryDirectory() as folder:
        models = chosen.models or default_models(Path(folder))
        options = ["optimize", "--layout", "greedy", "--no-verify"]
        written = str(Path(folder) / "out.onnx")

        def ours(model: Path) -> list[str]:
            return [sys.executable, "-m", "workbench", *options, str(model), "-o", written]

        def alone(model: Path) -> list[str]:
            return [sys.executable, "-c", ONNX_ALONE, str(model), written]

        def folds(model: Path) -> bool:
            """Whether the run loads ONNX Runtime, for values that NumPy would round differently."""
            command = [sys.executable, "-c", FOLDS, *options, str(model), "-o", written]
            return subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode == 0

        smallest = {folded: smallest_model(Path(folder), folded) for folded in (False, True)}
        bare = {folded: measured(ours(model))[1] for folded, model in smallest.items()}
        bare_alone = measured(alone(smallest[False]))[1]
        print("| command, model | file (MB) | seconds: median (min to max) | peak (MB) | / file | of the model (MB) |")
        print("|---|---|---|---|---|---|")
        for model in models:
            own = bare[folds(model)]
            print(row(f"`optimize --no-verify`, {model.stem}", model, ours(model), own, chosen.repeat))
            if model.stat().st_size >= MIN_COMPARED_BYTES:
                print(row(f"onnx alone, {model.stem}", model, alone(model), bare_alone, chosen.repeat))


def smallest_model(folder: Path, folded: bool) -> Path:
    """A file of two nodes; with `folded`, `optimize` folds one of them with ONNX Runtime."""
    path = folder / f"smallest_{folded}.onnx"
    path.write_bytes(onnx.parser.parse_model(ONE_FOLDED if folded else TWO_NODES).SerializeToString())
    return path


def default_models(folder: Path) -> list[Path]:
    """The samples, and a ResNet-50 with random weights, which is written into `folder`."""
    resnet = folder / "resnet50_light_random.onnx"
    code = f"import onnx; from sample_models.light import random_light; onnx.save(random_light('resnet50'), '{resnet}')"
    # A process's peak memory starts at its parent's; another process makes the model, so that this one stays small.
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    return [*sorted((ROOT / "sample_models").glob("*.onnx")), resnet]


if __name__ == "__main__":
    main()
