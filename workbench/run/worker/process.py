"""The worker process from the client's side: starting, requests, limits, stopping.

It reads JSON objects from standard input, one per line, and answers likewise
(see `workbench.run.worker`).
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from workbench.backends.failures import shortened
from workbench.backends.memory import MEMORY_RESERVE, available_bytes, in_gigabytes, memory_kills
from workbench.errors import UserError
from workbench.support.child_process import (
    end_process_group,
    json_lines,
    last_line,
    module_command,
    package_environment,
    signal_name,
    start_process_group,
)

_POLL_S = 0.1  # between two checks of the time and of cancellation
MEMORY_POLL_S = 1.0  # between two checks of memory, each of which reads all of /proc during a measurement
ProgressSink = Callable[[dict[str, Any]], None]
# How often a thread of libgomp, which torch uses, looks for work before it sleeps. The default is 300,000, during which
# it occupies a core that another thread may need; docs/results/waiting.json has the costs of both.
_SPINNING = {} if "OMP_WAIT_POLICY" in os.environ else {"GOMP_SPINCOUNT": "10000"}


class RunError(UserError):
    """The run failed.

    stage: "load" if the model could not be opened, "run" if it failed while
           running, EVALUATOR if it did so in ONNX's own evaluator, "process"
           if its process died or was stopped.
    """

    def __init__(self, message: str, stage: str = "run") -> None:
        super().__init__(message)
        self.stage = stage


class TimeLimitError(RunError):
    """The run took longer than its limit."""


class CancelledError(RunError):
    """The user stopped the run."""

    def __init__(self) -> None:
        super().__init__("The run was cancelled.", "process")


@dataclass(frozen=True)
class Limits:
    """What a job may take.

    timeout_s:    wall time of the job; the start of the process, where it has to start first, may take as long again.
    memory_bytes: resident memory of the process and its children, including
                  libraries (0.1 to 0.4 GB); None for no limit. It is checked
                  once a second (MEMORY_POLL_S), so that a shorter peak may be
                  missed.
    """

    timeout_s: float
    memory_bytes: int | None = None


class WorkerProcess:
    """A process for runs, started at the first request, and again after it died. It answers one thread at a time.

    log: the file of its output; its folder is the working directory of the process.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._is_ready = False  # it has begun to read requests

    @property
    def pid(self) -> int | None:
        """The id of the process; None before the first request and after a failure."""
        return None if self._process is None else self._process.pid

    def ask(
        self,
        message: dict[str, Any],
        *,
        limits: Limits,
        check_cancelled: Callable[[], None],
        on_progress: ProgressSink | None = None,
        need_bytes: int | None = None,
    ) -> dict[str, Any]:
        """Send the message and wait for the answer.

        check_cancelled: called every _POLL_S; raises to stop the run, as
                     `on_progress` may, which gets each event as it comes.
        Raises RunError if there is no answer; the process has then ended.
        """
        with self._lock:
            free, kills = available_bytes(), memory_kills()
            deadline = time.monotonic() + limits.timeout_s
            process = self._running_process()
            try:
                _send(process, message)
                return self._answer(process, limits, deadline, check_cancelled, on_progress)
            except _EndedError:
                error = self._exit_error(process, need_bytes or 0, free, memory_kills() > kills)
                self.kill()
                raise error from None
            except BaseException:  # over a limit, cancelled, Ctrl-C: the run must not continue
                self.kill()
                raise

    def kill(self) -> None:
        """End the process and all processes that it started."""
        process, self._process = self._process, None
        if process is not None:
            end_process_group(process)

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.kill()
        try:
            with open(self._log, "wb") as log:
                process = start_process_group(
                    module_command("workbench.run.tasks"),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=self._log.parent,
                    env={**_SPINNING, **package_environment(), "PYTHONUNBUFFERED": "1"},
                )
        except OSError as error:
            raise RunError(
                f"The process for runs could not be started ({error.strerror or error}: {error.filename}); "
                "check that memory is free and that Python has not been moved.",
                "process",
            ) from None
        self._process, self._answers, self._is_ready = process, queue.Queue(), False
        assert process.stdout is not None  # it is a pipe
        threading.Thread(target=_pump, args=(process.stdout, self._answers), daemon=True).start()
        return process

    def _answer(
        self,
        process: subprocess.Popen[bytes],
        limits: Limits,
        deadline: float,
        check_cancelled: Callable[[], None],
        on_progress: ProgressSink | None,
    ) -> dict[str, Any]:
        look_at = memory_look_at = 0.0
        while True:
            now = time.monotonic()
            if now >= look_at:
                check_cancelled()
                _refuse_more_time(limits, deadline)
                look_at = now + _POLL_S
            if now >= memory_look_at:
                _refuse_more_memory(process, limits)
                memory_look_at = now + MEMORY_POLL_S
            try:
                answer = self._answers.get(timeout=max(0.0, look_at - now))
            except queue.Empty:
                if process.poll() is not None:  # ended, although a child may keep its output open
                    raise _EndedError from None
                continue
            if answer is None:
                raise _EndedError
            if "ready" in answer:
                self._is_ready = True
                deadline = time.monotonic() + limits.timeout_s
            elif "progress" not in answer:
                return answer
            elif on_progress is not None:
                on_progress(answer["progress"])

    def _exit_error(self, process: subprocess.Popen[bytes], need: int, free: int, memory_kill: bool) -> RunError:
        """The error for a process that ended by itself.

        need:        the estimated bytes of the run, 0 if there is no estimate.
        free:        the free bytes when it began.
        memory_kill: whether the system killed a process for memory meanwhile.
        """
        code = process.wait()
        name = signal_name(code)
        if name == "SIGKILL" and (memory_kill or need + MEMORY_RESERVE > free):
            needed = f"needed about {in_gigabytes(need)}, " if need else ""
            return RunError(
                f"The run was killed by the system, most likely out of memory ({needed}{in_gigabytes(free)} were free);"
                " bind smaller dimensions or close other programs.",
                "process",
            )
        if name == "SIGKILL":
            return RunError(
                f"The run was killed from outside (signal 9), though {in_gigabytes(free)} of memory were free when it "
                "began; check what ends processes on this machine, and run it again.",
                "process",
            )
        if name:
            return RunError(f"The run crashed ({name}){self._last_log_line()}.", "process")
        if not self._is_ready:
            return RunError(
                f"The run's process ended with code {code} while it started{self._last_log_line()}; "
                "install graph-workbench again, with all that it requires.",
                "process",
            )
        return RunError(f"The run's process ended with code {code}{self._last_log_line()}.", "process")

    def _last_log_line(self) -> str:
        line = last_line(self._log.read_text(errors="replace"))
        return f"; its last line was: {shortened(line, 200)}" if line else ""


class _EndedError(Exception):
    """The process has ended."""


def _send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None  # it is a pipe
    try:
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise _EndedError from None


def _refuse_more_time(limits: Limits, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TimeLimitError(
            f"The run took more than its limit of {limits.timeout_s:g} s and was stopped; "
            "bind smaller dimensions or allow more time.",
            "process",
        )


def _refuse_more_memory(process: subprocess.Popen[bytes], limits: Limits) -> None:
    if limits.memory_bytes is None:
        return
    used = _resident_bytes(process.pid)
    if used > limits.memory_bytes:
        raise RunError(
            f"The run took {in_gigabytes(used)} of memory, more than its limit of "
            f"{in_gigabytes(limits.memory_bytes)}, and was stopped; bind smaller dimensions or allow more memory.",
            "process",
        )


def _resident_bytes(pid: int) -> int:
    """The resident memory of the process and its children; 0 if it has just ended."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    used = 0
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            used += member.memory_info().rss
    return used


def _pump(stream: BinaryIO, answers: queue.Queue[dict[str, Any] | None]) -> None:
    """Put the answers of the stream into the queue, and None at its end."""
    for answer in json_lines(stream):
        answers.put(answer)
    answers.put(None)
