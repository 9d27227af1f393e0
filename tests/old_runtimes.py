"""Environments with other runtimes, kept in the user's cache: `python -m tests.old_runtimes` makes them.

Each has one runtime, an older ONNX Runtime or OpenVINO, and nothing of ours: files are run there as their users would.
"""

from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path

VERSIONS = ("1.17.3", "1.20.1", "1.22.1")
OPENVINO = "openvino==2026.4.1"
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graph-workbench-old-runtimes"
INSTALL_LIMIT_S = 300
RUN_LIMIT_S = 300
# Runs each (model, inputs) and saves its outputs in order, or the error, in one process for all.
_RUN = """
import json, sys
import numpy as np
try:
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    def run(model, inputs):
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return session.run(None, inputs)
except ImportError:
    import openvino
    core = openvino.Core()
    def run(model, inputs):
        compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        return list(compiled(inputs).values())
said = []
for model, inputs, outputs in json.load(open(sys.argv[1])):
    try:
        found = run(model, dict(np.load(inputs)))
        np.savez(outputs, **{str(index): array for index, array in enumerate(found)})
        said.append("")
    except Exception as error:
        said.append(f"{type(error).__name__}: {error}")
json.dump(said, open(sys.argv[2], "w"))
"""


def python_with(*packages: str) -> Path | None:
    """The interpreter of the environment, made if it is not there; None if it cannot be installed."""
    folder = FOLDER / packages[0]
    python, done = folder / "bin" / "python", folder / "done"
    if done.exists():
        return python
    venv.create(folder, with_pip=True, clear=True)
    install = [python, "-m", "pip", "install", "--quiet", *packages]
    try:
        subprocess.run(install, check=True, capture_output=True, timeout=INSTALL_LIMIT_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    done.touch()
    return python


def run_in(python: Path, jobs: list[tuple[Path, Path, Path]], folder: Path) -> list[str]:
    """Run (model, inputs, outputs) there; for each the error, or ""."""
    asked, said = folder / "jobs.json", folder / "said.json"
    asked.write_text(json.dumps([list(map(str, job)) for job in jobs]))
    subprocess.run([python, "-c", _RUN, asked, said], check=True, timeout=RUN_LIMIT_S)
    return list(json.loads(said.read_text()))


def python_with_onnxruntime(version: str) -> Path | None:
    """With an older ONNX Runtime, and the NumPy of its time."""
    return python_with(f"onnxruntime=={version}", "numpy<2")


if __name__ == "__main__":
    for wanted in VERSIONS:
        print(f"onnxruntime {wanted}: {python_with_onnxruntime(wanted) or 'cannot be installed here'}")
    print(f"{OPENVINO}: {python_with(OPENVINO) or 'cannot be installed here'}")
