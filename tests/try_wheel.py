"""The wheel as a user has it: `python tests/try_wheel.py WHEEL`, with any Python and nothing else installed.

Installs the wheel with the app and without torch into a new environment, says how large that is, optimizes, verifies
and checks a sample in a folder of its own, and opens the app. It reads nothing of the repository.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

_STARTS_WITHIN_S = 120
_BIN = "Scripts" if os.name == "nt" else "bin"
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
_SAMPLE = """
import importlib.util, shutil
from pathlib import Path
import workbench
assert importlib.util.find_spec("torch") is None, "torch was installed"
shutil.copy(Path(workbench.__file__).parent / "sample_models" / "ppocr_cls_v2.onnx", "model.onnx")
"""
_COMMANDS = (
    "inspect model.onnx",
    "optimize model.onnx -o out.onnx --layout greedy --target cuda --certificate c.json",
    "verify model.onnx out.onnx",
    "check model.onnx out.onnx c.json --run 1",
    "explain fold_batchnorm",
)


def main() -> None:
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder, home = Path(name), Path(name) / "venv"
        venv.create(home, with_pip=True)
        python, program = home / _BIN / "python", home / _BIN / "graph-workbench"
        _run(folder, python, "-m", "pip", "install", "--quiet", f"{wheel}[app]")
        megabytes = sum(file.stat().st_size for file in home.rglob("*") if file.is_file()) / 1e6
        print(f"The environment has {megabytes:,.0f} MB.")
        _run(folder, python, "-c", _SAMPLE)
        for command in _COMMANDS:
            _run(folder, program, *command.split())
        _open_app(folder, program)


def _run(folder: Path, *words: str | Path) -> None:
    print("$", *words, flush=True)
    subprocess.run([str(word) for word in words], cwd=folder, env=_ENVIRONMENT, check=True)


def _open_app(folder: Path, program: Path) -> None:
    """Start the app, and wait until it answers."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    words = [str(program), "app", "--port", str(port), "--headless"]
    started = time.monotonic()
    with subprocess.Popen(words, cwd=folder, env=_ENVIRONMENT) as server:
        try:
            while not _answers(f"http://localhost:{port}/_stcore/health"):
                if server.poll() is not None or time.monotonic() - started > _STARTS_WITHIN_S:
                    raise SystemExit("The app did not start.")
                time.sleep(0.5)
        finally:
            server.terminate()
    print(f"The app answered after {time.monotonic() - started:.0f} s.")


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    main()
