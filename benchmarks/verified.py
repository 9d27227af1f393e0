"""The cost of verification: `python benchmarks/verified.py [MODEL ...]`.

CPU seconds (user and system, of all processes) of `optimize --preset simplify`: with `--no-verify`, by default (the
result compared with the original), and with `--verify each`; and of one run of the model, a process that opens the file
in ONNX Runtime without its optimizations and runs it once on the same inputs. Commands are interleaved; figures are
medians of `--repeat`. The bound is 1.5 times the first plus three runs. The default models are the samples.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.engine import compile_modules  # noqa: E402

ONE_RUN = """
import sys
import onnxruntime
from workbench.support.imports import import_onnx_ir
import_onnx_ir()
from workbench.backends.onnxruntime.sessions import open_session, run_session
from workbench.backends.tensors import load_tensors
run_session(open_session(sys.argv[1], "disabled", arena=False), load_tensors(sys.argv[2]))
"""


def cpu_seconds(command: list[str]) -> float:
    """CPU seconds of a process and its children. Raises SystemExit if it fails; code 3, not verified, is allowed."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 3):
        raise SystemExit(f"this command failed: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime


def save_inputs(model: Path, file: Path) -> None:
    """Write the inputs of the model's verification."""
    from workbench.backends.tensors import save_tensors
    from workbench.evidence.verification.verifier import Verifier
    from workbench.interfaces.api import load

    with Verifier(load(model)) as verifier:
        save_tensors(file, verifier.inputs)


def row(model: Path, folder: Path, repeat: int) -> str:
    """One line of the table."""
    save_inputs(model, folder / "inputs.npz")
    optimize = [sys.executable, "-m", "workbench", "optimize", str(model), "-o", str(folder / "out.onnx")]
    optimize += ["--preset", "simplify", "--verify"]
    commands = [*([*optimize, mode] for mode in ("off", "end", "each"))]
    commands.append([sys.executable, "-c", ONE_RUN, str(model), str(folder / "inputs.npz")])
    rounds = [[cpu_seconds(command) for command in commands] for _ in range(repeat)]
    off, end, each, one = (statistics.median(times) for times in zip(*rounds, strict=True))
    bound = 1.5 * off + 3 * one
    cells = (model.stem, *(f"{s:.2f}" for s in (off, end, each, one, bound)), f"{end / bound:.2f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    chosen = parser.parse_args()
    compile_modules()
    units = [f"{column} (CPU s)" for column in ("not verified", "end", "each step", "one run", "bound")]
    print(f"| model | {' | '.join(units)} | end / bound |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for model in chosen.models or sorted((ROOT / "sample_models").glob("*.onnx")):
            print(row(model, Path(folder), chosen.repeat), flush=True)


if __name__ == "__main__":
    main()
