"""Commands as processes, with their time, their CPU time and their peak memory."""

from __future__ import annotations

import compileall
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.shared.benchmark import ROOT


@dataclass(frozen=True)
class Ran:
    """A process that has ended. seconds: of wall time. cpu_seconds: user and system, with its children. peak: its
    largest resident set in bytes, which starts at that of this process. text: what it printed."""

    seconds: float
    cpu_seconds: float
    peak: int
    code: int
    text: str


def graph_workbench(*arguments: object) -> list[str]:
    """The command `graph-workbench` of the folder in which it is run."""
    return [sys.executable, "-m", "workbench", *map(str, arguments)]


def ended(
    command: Sequence[str],
    folder: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    limit_s: float | None = None,
    limit_bytes: int | None = None,
) -> Ran:
    """The command, run in the folder until it ends, or for at most limit_s with at most limit_bytes of data."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes or 0, limit_bytes or 0))

    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdout=output,
            stderr=output,
            preexec_fn=limit if limit_bytes else None,
        )
        timer = threading.Timer(limit_s or threading.TIMEOUT_MAX, process.kill)
        timer.daemon = True
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    return Ran(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, process.returncode, text)


def ran(
    command: Sequence[str],
    folder: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    allowed: Collection[int] = (0,),
) -> Ran:
    """The same. Raises SystemExit if it fails, with another exit code than those allowed."""
    done = ended(command, folder, environment)
    if done.code not in allowed:
        raise SystemExit(f"this command failed: {' '.join(command)}\n{done.text}")
    return done


def python(code: str, *arguments: object) -> str:
    """What the code prints. It runs in another process, so that this one stays small."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def environment_with(folder: Path, packages: Sequence[str]) -> Path:
    """The Python of a virtual environment in the folder; what is missing of the packages is installed."""
    interpreter = folder.resolve() / "bin" / "python"
    if not interpreter.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(interpreter), "-m", "pip", "install", "--quiet", *packages]
    subprocess.run(install, check=True, stdout=sys.stderr)
    return interpreter


def compile_modules() -> None:
    """Compile all modules, as pip does at installation; else the first start takes longer."""
    for folder in ("workbench", "passes"):
        compileall.compile_dir(ROOT / folder, quiet=1)
