"""Child processes: process groups that end as a whole, modules of this package as programs, and what they print."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

PACKAGE_FOLDER = Path(__file__).resolve().parents[2]  # holds the package `workbench`
_TAIL_BYTES = 4096
CLOSING_S = 1.0  # how long a child of an ended process may keep the output open


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module in this Python; `package_environment` lets it find this package."""
    return [sys.executable, "-m", module, *arguments]


def package_environment() -> dict[str, str]:
    """The environment of this process, with this package on the path of modules, whatever the working directory is."""
    path = os.pathsep.join(filter(None, [str(PACKAGE_FOLDER), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def start_process_group(
    command: Sequence[str], *, stdin: int = subprocess.DEVNULL, **settings: Any
) -> subprocess.Popen[bytes]:
    """Start the command as the leader of a process group, which gets no Ctrl-C; `end_process_group` ends it.

    settings: of Popen. Raises OSError if it cannot be started.
    """
    return subprocess.Popen(command, stdin=stdin, start_new_session=True, **settings)


def end_process_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and all processes that it started, and wait for it."""
    if sys.platform == "win32":  # it has no process groups that can be killed
        _kill_family(process.pid)
    else:
        with contextlib.suppress(ProcessLookupError):  # every process of the group has ended
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):  # unwritten data has no reader
            process.stdin.close()


def _kill_family(pid: int) -> None:
    """Kill a process and its descendants; those whose parent has ended are not found."""
    import psutil  # imported late: reading a pass's name does not need it

    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for member in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()


@contextlib.contextmanager
def process_group(
    command: Sequence[str], *, stdin: int = subprocess.DEVNULL, **settings: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A process group (`start_process_group`) that ends with the block."""
    process = start_process_group(command, stdin=stdin, **settings)
    try:
        yield process
    finally:
        end_process_group(process)


def json_lines(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The lines of the stream that are JSON objects, as they come; what libraries print there is skipped."""
    with stream:
        for line in stream:
            with contextlib.suppress(ValueError):
                if isinstance(answer := json.loads(line), dict):
                    yield answer


class OutputTail:
    """The end of a stream, which may be endless. A thread reads it from now on."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._tail = b""
        self._reader = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._reader.start()

    def last_line(self) -> str:
        """Its last line, "" if there is none. Waits for the end of the stream, for at most CLOSING_S."""
        self._reader.join(CLOSING_S)
        return last_line(self._tail.decode(errors="replace"))

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := stream.read1(_TAIL_BYTES):  # type: ignore[attr-defined]  # pipes are buffered readers
                self._tail = (self._tail + chunk)[-_TAIL_BYTES:]


def last_line(text: str) -> str:
    """The last line of a text that is not empty; "" if there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def signal_name(code: int) -> str | None:
    """The signal that ended a process with this exit code ("SIGSEGV"); None if it ended by itself."""
    return signal.Signals(-code).name if code < 0 else None
