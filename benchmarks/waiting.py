"""The effect of waiting threads on a run of torch: `python benchmarks/waiting.py [MODEL.onnx]`.

The median and the 90th percentile of 60 runs, by libgomp's settings for waiting threads, alone and beside a process
that spins on one core. A measurement that takes over 60 s is "-". Prints Markdown.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "sample_models" / "resnet50_narrow.onnx"
SETTINGS = {
    "300,000 spins (libgomp's default)": {"GOMP_SPINCOUNT": "300000"},
    "30,000 spins": {"GOMP_SPINCOUNT": "30000"},
    "10,000 spins (ours)": {"GOMP_SPINCOUNT": "10000"},
    "1,000 spins": {"GOMP_SPINCOUNT": "1000"},
    "passive": {"OMP_WAIT_POLICY": "passive"},
}
COLUMNS = ("threads wait by", "alone ms", "alone, p90 ms", "beside one ms", "beside one, p90 ms")
LIMIT_S = 60


def main() -> None:
    model = sys.argv[1] if sys.argv[1:] else str(MODEL)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for setting, environment in SETTINGS.items():
        alone = times(model, environment)
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
            beside = times(model, environment)
            other.kill()
        print(f"| {setting} | {' | '.join((*alone, *beside))} |", flush=True)


def times(model: str, environment: dict[str, str]) -> tuple[str, str]:
    """The median and the 90th percentile in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bench.json"
        command = [sys.executable, "-m", "workbench", "bench", model, "--backend", "torch", "--repeat", "60"]
        environment = {**os.environ, **environment, "WORKBENCH_CACHE": folder, "PYTHONPATH": str(ROOT)}
        command += ["--json", str(out)]
        try:
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return "-", "-"
        (variant,) = json.loads(out.read_text())["variants"].values()
        return f"{variant['median_ms']:.2f}", f"{variant['p90_ms']:.2f}"


if __name__ == "__main__":
    main()
