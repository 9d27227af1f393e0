"""How long the engine takes, and how much memory: `python benchmarks/engine.py [MODEL ...]`.

Each command runs as a process of its own, `--repeat` times; the median of wall
time and the largest peak memory (resident set) are printed as a Markdown table,
and what of it the model took: the peak over that of the same command on a model
of two nodes, one of which is folded; that is Python with the libraries it needs.
Beside models of 20 MB and more: the onnx package alone, which loads, checks,
infers shapes and saves. Without arguments: the samples and ResNet-50 with random weights.
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

COMPARED_FROM = 20_000_000  # bytes; below, a process is mostly its imports
NEXT_TO_NOTHING = """
<ir_version: 10, opset_import: ["" : 21]> g (float[N, 2] x) => (float[N, 2] y)
<float[2] a = {1.0, 2.0}, float[2] b = {3.0, 4.0}> { c = Mul(a, b)  y = Add(x, c) }
"""
ONNX_ALONE = """
import sys, onnx
model = onnx.load(sys.argv[1])
onnx.checker.check_model(model)
onnx.save(onnx.shape_inference.infer_shapes(model), sys.argv[2])
"""


def compile_modules() -> None:
    """As pip does with what it installs: a first start, or one that may not write beside the source, takes longer."""
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
    """One line of the table; bare: the peak bytes of the same command on next to nothing."""
    runs = [measured(command) for _ in range(repeat)]
    seconds = [s for s, _ in runs]
    peak = max(p for _, p in runs)
    size = model.stat().st_size
    spread = f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
    taken = max(0, peak - bare)
    ratio = f"{taken / size:.1f}" if size >= COMPARED_FROM else "-"
    cells = (name, f"{size / 1e6:,.1f}", spread, f"{peak / 1e6:,.0f}", f"{taken / 1e6:,.0f}", ratio)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()
    compile_modules()
    with tempfile.TemporaryDirectory() as folder:
        models = chosen.models or default_models(Path(folder))
        ours = [sys.executable, "-m", "workbench", "optimize", "--layout", "greedy", "--no-verify"]
        alone = [sys.executable, "-c", ONNX_ALONE]
        written = str(Path(folder) / "out.onnx")
        smallest = Path(folder) / "smallest.onnx"
        smallest.write_bytes(onnx.parser.parse_model(NEXT_TO_NOTHING).SerializeToString())
        bare_ours = measured([*ours, str(smallest), "-o", written])[1]
        bare_alone = measured([*alone, str(smallest), written])[1]
        print("| command, model | file (MB) | seconds: median (min to max) | peak (MB) | of the model (MB) | / file |")
        print("|---|---|---|---|---|---|")
        for model in models:
            words = [*ours, str(model), "-o", written]
            print(row(f"`optimize --no-verify`, {model.stem}", model, words, bare_ours, chosen.repeat))
            if model.stat().st_size >= COMPARED_FROM:
                words = [*alone, str(model), written]
                print(row(f"onnx alone, {model.stem}", model, words, bare_alone, chosen.repeat))


def default_models(folder: Path) -> list[Path]:
    """The samples, and a ResNet-50 with random weights that is written into `folder`."""
    resnet = folder / "resnet50_light_random.onnx"
    code = f"import onnx; from sample_models.light import random_light; onnx.save(random_light('resnet50'), '{resnet}')"
    # A process's peak memory starts at its parent's, so this one must stay small: another one makes the model.
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    return [*sorted((ROOT / "sample_models").glob("*.onnx")), resnet]


if __name__ == "__main__":
    main()
