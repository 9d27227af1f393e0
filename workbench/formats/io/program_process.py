"""Converts a `.pt2` file to an ONNX file in a separate process, with limits of time and memory.

torch evaluates expressions of the file, builds source from it and allocates what its sizes say. Even after the checks
this may take a long time or crash, and must not block a server.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from workbench.errors import reading
from workbench.formats.io.errors import LoadError
from workbench.support.child_process import module_command, package_environment, process_group, signal_name

LIMIT_S = 600.0
MEMORY_BYTES, MEMORY_PER_BYTE = 4e9, 6  # limit of torch's memory, plus this for each byte of the file
_POLL_S = 0.05
_ANSWER = "answer.txt"


def exported(path: Path, scratch: Path, limit_s: float = LIMIT_S) -> Path:
    """The program in the file as an ONNX file in `scratch`. Raises LoadError, or OSError if no process can start."""
    memory = int(MEMORY_BYTES + MEMORY_PER_BYTE * path.stat().st_size)
    command = module_command("workbench.formats.io.program_process", str(path.resolve()), str(scratch))
    pipe = subprocess.PIPE  # which ends with this process
    with (
        open(scratch / "log.txt", "wb") as log,
        process_group(command, stdin=pipe, stdout=log, stderr=log, cwd=scratch, env=package_environment()) as process,
    ):
        _wait(process, limit_s, memory)
    answer = scratch / _ANSWER
    message = answer.read_text(encoding="utf-8") if answer.is_file() else _ended(process.returncode)
    if message:
        raise LoadError(message)
    return scratch / "model.onnx"


def _wait(process: subprocess.Popen[bytes], limit_s: float, memory: int) -> None:
    deadline = time.monotonic() + limit_s
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise LoadError(f"torch did not read the program within {limit_s:g} s; export it with torch.onnx.export")
        with contextlib.suppress(psutil.NoSuchProcess):
            used = psutil.Process(process.pid).memory_info().rss
            if used > memory:
                raise LoadError(
                    f"torch took {used / 1e9:.1f} GB to read the program, more than the {memory / 1e9:.1f} GB that a "
                    "file of this size may take; export it with torch.onnx.export"
                )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)


def _ended(code: int) -> str:
    how = signal_name(code) or f"exit code {code}"
    return f"torch's process ended while it read the program ({how}); export it with torch.onnx.export"


def _main(path: str, scratch: str) -> None:
    """Write the ONNX file to `scratch`, or a sentence that says why there is none."""
    from workbench.formats.io.torch_program import open_program, to_onnx

    _prefer_to_be_killed()
    threading.Thread(target=_end_with_the_application, daemon=True).start()
    folder, message = Path(scratch), ""
    try:
        with reading("the program", LoadError, "save it again"):
            to_onnx(open_program(Path(path), folder), folder)
    except (LoadError, OSError) as error:
        message = str(error)
    (folder / _ANSWER).write_text(message, encoding="utf-8")


def _prefer_to_be_killed() -> None:
    """Ask the system to kill this process first if memory runs out (proc(5), oom_score_adj)."""
    with contextlib.suppress(OSError):  # not Linux, or not permitted: the system chooses
        Path("/proc/self/oom_score_adj").write_text("1000")


def _end_with_the_application() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    _main(*sys.argv[1:])
