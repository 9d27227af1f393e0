"""How long the engine takes, and how much memory: `python benchmarks/engine.py [MODEL ...]`.

Each command runs as a process of its own, `--repeat` times; the median of wall
time and the largest peak memory (resident set) are printed as a Markdown table.
Beside models of 20 MB and more: the onnx package alone, which loads, checks,
infers shapes and saves. Without arguments: the samples and ResNet-50 with random weights.
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

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

COMPARED_FROM = 20_000_000  # bytes; below, a process is mostly its imports
ONNX_ALONE = """
import sys, onnx
model = onnx.load(sys.argv[1])
onnx.checker.check_model(model)
onnx.save(onnx.shape_inference.infer_shapes(model), sys.argv[2])
"""


def measured(command: list[str]) -> tuple[float, int]:
    """Seconds and peak bytes of one process."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"this command failed: {' '.join(command)}")
    return time.perf_counter() - started, usage.ru_maxrss * 1024


def row(name: str, size: int, command: list[str], repeat: int) -> str:
    runs = [measured(command) for _ in range(repeat)]
    seconds = [s for s, _ in runs]
    peak = max(p for _, p in runs)
    ratio = f"{peak / size:.1f}" if size else "-"
    spread = f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
    return f"| {name} | {size / 1e6:,.1f} | {spread} | {peak / 1e6:,.0f} | {ratio} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()
    python = [sys.executable, "-m", "workbench"]
    with tempfile.TemporaryDirectory() as folder:
        models = chosen.models or default_models(Path(folder))
        print("| command, model | file (MB) | seconds: median (min to max) | peak (MB) | peak / file |")
        print("|---|---|---|---|---|")
        print(row("`passes`", 0, [*python, "passes"], chosen.repeat))
        for model in models:
            words = ["optimize", str(model), "-o", str(Path(folder) / "out.onnx"), "--layout", "greedy", "--no-verify"]
            size = model.stat().st_size
            print(row(f"`optimize --no-verify`, {model.stem}", size, [*python, *words], chosen.repeat))
            if size > COMPARED_FROM:
                words = [sys.executable, "-c", ONNX_ALONE, str(model), str(Path(folder) / "onnx.onnx")]
                print(row(f"onnx alone, {model.stem}", size, words, chosen.repeat))


def default_models(folder: Path) -> list[Path]:
    """The samples, and a ResNet-50 with random weights that is written into `folder`."""
    resnet = folder / "resnet50_light_random.onnx"
    code = f"import onnx; from sample_models.light import random_light; onnx.save(random_light('resnet50'), '{resnet}')"
    # A process's peak memory starts at its parent's, so this one must stay small: another one makes the model.
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    return [*sorted((ROOT / "sample_models").glob("*.onnx")), resnet]


if __name__ == "__main__":
    main()
