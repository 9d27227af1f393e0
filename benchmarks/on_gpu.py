"""All measurements that need a GPU, in minutes.

`python benchmarks/on_gpu.py [--minutes 7] [--out FOLDER]` measures. The most important parts run first, each in a
process that is ended at its time limit. Its results so far stay: FOLDER/PART.jsonl has a row in each line,
FOLDER/PART.log the printed text. A second start with the same folder skips parts that ended by themselves, and of the
others what they have measured. `python -m benchmarks on_gpu FOLDER` prints the tables. --device cpu --small runs
everything on any machine in three minutes.

Beside torch with numpy it needs onnx, onnxruntime, onnx-ir, SQLAlchemy, psutil and pytest, and what these need.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # since this file is a command too

from benchmarks.gpu.section import BENCHMARK  # noqa: E402

__all__ = ["BENCHMARK", "MORE_TO_DO", "ROOT", "run_part"]
MORE_TO_DO = 75  # the exit code of a part that another start goes on with: EX_TEMPFAIL of sysexits.h
# The largest share of the whole time for each part; time that it does not use is left for the parts after it.
SHARES: Mapping[str, float] = {
    "environment": 0.05,
    "tests": 0.25,
    "conformance": 0.15,
    "networks": 0.45,
    "profiler": 0.1,
    "oneflow": 0.2,
    "streams": 0.15,
    "memory": 0.15,
    "fusions": 0.1,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--out", type=Path, default=Path("gpu_results"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="narrow networks and few runs: whether everything runs")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + 60 * chosen.minutes
    for part, share in SHARES.items():
        done = chosen.out / f"{part}.done"
        left = deadline - time.monotonic()
        if done.exists():
            print(f"{part}: done before")
        elif left <= 0:
            print(f"{part}: no time is left; start again with the same folder")
        else:
            start = time.monotonic()
            outcome = run_part(part, chosen.out, chosen.device, chosen.small, min(left, 60 * chosen.minutes * share))
            if outcome == "done":
                done.touch()
            print(
                f"{part}: {outcome} after {time.monotonic() - start:.0f} s, {rows_of(chosen.out, part):,} rows",
                flush=True,
            )


def run_part(part: str, out: Path, device: str, small: bool, limit_s: float) -> str:
    """Run a part for at most limit_s; then end its processes. Returns "done", or how it ended."""
    arguments = [part, str(out.resolve()), device, str(int(small)), f"{limit_s:.0f}"]
    command = [sys.executable, "-m", "benchmarks.gpu.parts", *arguments]
    cache = {"WORKBENCH_CACHE": str((out / "cache").resolve()), "PYTHONUNBUFFERED": "1"}
    with (out / f"{part}.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **cache}, cwd=ROOT, start_new_session=True
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return "ended at its limit"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code == MORE_TO_DO:
        return "not all of it done: start again with the same folder"
    return "done" if code == 0 else f"failed with {code}, see {part}.log"


def rows_of(out: Path, part: str) -> int:
    file = out / f"{part}.jsonl"
    return len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0


if __name__ == "__main__":
    main()
