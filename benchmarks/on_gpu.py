"""Everything that only a GPU shows, in minutes: `python benchmarks/on_gpu.py [--minutes 7] [--out FOLDER]`.

Parts run in the order of their worth, each in a process that is ended at its limit. What a part has found by then
stays: FOLDER/PART.jsonl has a row a line, FOLDER/PART.log what was printed. Started again with the same folder, parts
that ended by themselves are skipped. `python benchmarks/gpu_section.py FOLDER` makes Markdown of it. It needs what
requirements.txt names, streamlit aside; --device cpu --small runs everything on any machine in three minutes.
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

HERE = Path(__file__).resolve().parent
# The share of the whole time that each part may take; what one leaves is for those behind it.
SHARES: Mapping[str, float] = {
    "environment": 0.05,
    "tests": 0.25,
    "conformance": 0.15,
    "networks": 0.45,
    "profiler": 0.1,
    "oneflow": 0.2,
    "lanes": 0.15,
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
    ends = time.monotonic() + 60 * chosen.minutes
    for part, share in SHARES.items():
        done = chosen.out / f"{part}.done"
        left = ends - time.monotonic()
        if done.exists():
            print(f"{part}: done before")
        elif left <= 0:
            print(f"{part}: no time is left; start again with the same folder")
        else:
            begun = time.monotonic()
            outcome = run_part(part, chosen.out, chosen.device, chosen.small, min(left, 60 * chosen.minutes * share))
            if outcome == "done":
                done.touch()
            print(
                f"{part}: {outcome} after {time.monotonic() - begun:.0f} s, {rows_of(chosen.out, part):,} rows",
                flush=True,
            )


def run_part(part: str, out: Path, device: str, small: bool, limit_s: float) -> str:
    """ "done", or how it ended otherwise. Its processes end with it."""
    command = [sys.executable, str(HERE / "gpu_parts.py"), part, str(out), device, str(int(small))]
    cache = {"WORKBENCH_CACHE": str((out / "cache").resolve()), "PYTHONUNBUFFERED": "1"}
    with (out / f"{part}.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **cache}, cwd=HERE.parent, start_new_session=True
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return "ended at its limit"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return "done" if code == 0 else f"failed with {code}, see {part}.log"


def rows_of(out: Path, part: str) -> int:
    file = out / f"{part}.jsonl"
    return len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0


if __name__ == "__main__":
    main()
