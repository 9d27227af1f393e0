"""Other CPUs than this machine's: one with AVX2 alone, emulated by QEMU, and libraries that are told to use less.

torch and oneDNN read variables of the environment; ONNX Runtime has none, so that only an emulated CPU shows what its
kernels do there. QEMU 7.2 computes GridSample's gathers otherwise than a CPU, and crashes on some.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conftest import ROOT

EMULATOR = shutil.which("qemu-x86_64") if platform.machine() == "x86_64" else None
LESS = {
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "no vectors": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}


def emulated_python(folder: Path) -> Path:
    """A virtual environment with the packages of this one, whose interpreter and its children run in QEMU.

    QEMU's `max` is the largest CPU that it emulates: AVX2, without AVX-512 and VNNI.
    """
    python = folder / "bin" / "python"
    packages = Path(*Path(os.__file__).parts[-3:-1], "site-packages")  # lib/python3.11/site-packages
    python.parent.mkdir(parents=True)
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
    (folder / packages).parent.mkdir(parents=True)
    (folder / packages).symlink_to(Path(sys.prefix) / packages)
    python.write_text(f'#!/bin/sh\nexec {EMULATOR} -cpu max -0 {python} {os.path.realpath(sys.executable)} "$@"\n')
    python.chmod(0o755)
    return python


def run_tests(python: str | Path, arguments: Sequence[str], variables: Mapping[str, str] = {}) -> str:
    """What pytest prints of these tests, in one process; its last line has the counts."""
    command = [python, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True).stdout
