"""Runs in a process of their own: whatever happens to it becomes one sentence.

The worker reads one JSON object a line from its standard input and answers
with one a line; tensors pass through .npz files in a folder of the client's.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from workbench.errors import UserError
from workbench.run.memory import available_bytes, in_gigabytes
from workbench.run.tensors import load_tensors, save_tensors

ROOT = Path(__file__).resolve().parents[2]  # holds the package `workbench`
RUN_LIMIT_S = 600.0
Progress = Callable[[dict[str, Any]], None]


class RunError(UserError):
    """The run did not come to its end.

    stage: "load" where the model could not be opened, "run" where it failed
           while it ran, "process" where its process died or was stopped.
    """

    def __init__(self, message: str, stage: str = "run") -> None:
        super().__init__(message)
        self.stage = stage


class CancelledError(RunError):
    """The user stopped the run."""

    def __init__(self) -> None:
        super().__init__("The run was cancelled.", "process")


@dataclass(frozen=True)
class Outputs:
    """tensors: the outputs by name; seconds: of the run alone; fallbacks: node -> why torch did not run it."""

    tensors: dict[str, np.ndarray]
    seconds: float
    fallbacks: Mapping[str, str]


class Worker:
    """A process for runs, started when it is first needed, and again after it died.

    One request at a time; others wait. `cancel` may be called from any thread.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[bytes | None] = queue.Queue()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._busy = self._cancelled = False
        self._numbers = itertools.count()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Where files for the worker may be put; gone after `close`."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="workbench-")
        return Path(self._folder.name)

    @property
    def pid(self) -> int | None:
        """The process that serves now, None before the first request and after a failure."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """End the process and remove its folder."""
        self._kill()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def cancel(self) -> None:
        """Stop the request that runs now, if one does: it raises CancelledError, and later ones go on."""
        process = self._process
        if self._busy and process is not None:
            self._cancelled = True
            process.kill()

    def request(
        self,
        kind: str,
        *,
        on_progress: Progress | None = None,
        timeout_s: float = RUN_LIMIT_S,
        need_bytes: int | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Ask the worker for `kind` and wait for the answer.

        `on_progress` gets each event as it comes; what it raises stops the
        run. `need_bytes`, the estimate, is told to the user when the system
        kills the run. Raises RunError for everything that goes wrong there.
        """
        with self._turn:
            self._busy, self._cancelled = True, False
            free = available_bytes()
            try:
                answer = self._exchange({"kind": kind, **fields}, on_progress, time.monotonic() + timeout_s)
            except _EndedError:
                raise self._obituary(need_bytes, free) from None
            except TimeoutError:
                self._kill()
                raise RunError(
                    f"The run took more than its limit of {timeout_s:g} s and was stopped; "
                    "bind smaller dimensions or allow more time.",
                    "process",
                ) from None
            except BaseException:  # on_progress gave up, or Ctrl-C: the run must not go on by itself
                self._kill()
                raise
            finally:
                self._busy = False
            if "error" in answer:
                raise RunError(answer["error"], answer.get("stage", "run"))
            return answer["result"]

    def outputs(
        self,
        model: str | Path,
        inputs: Mapping[str, np.ndarray],
        *,
        backend: str = "onnxruntime",
        level: str = "disabled",
        device: str = "cpu",
        dtype: str | None = None,
        timeout_s: float = RUN_LIMIT_S,
        need_bytes: int | None = None,
    ) -> Outputs:
        """Run a model file once and return its outputs.

        backend: "onnxruntime", whose optimizations are set by `level`
                 ("disabled", "basic", "all"), or "torch" (opset 23 files).
        """
        number = next(self._numbers)
        source, target = (self.folder / f"{word}{number}.npz" for word in ("inputs", "outputs"))
        save_tensors(source, inputs)
        try:
            result = self.request(
                "outputs",
                model=str(Path(model).resolve()),
                inputs=str(source),
                outputs=str(target),
                backend=backend,
                level=level,
                device=device,
                dtype=dtype,
                timeout_s=timeout_s,
                need_bytes=need_bytes,
            )
            return Outputs(load_tensors(target), result["seconds"], result["fallbacks"])
        finally:
            source.unlink(missing_ok=True)
            target.unlink(missing_ok=True)

    # ---- the process -----------------------------------------------------------

    def _exchange(self, message: dict[str, Any], on_progress: Progress | None, deadline: float) -> dict[str, Any]:
        process = self._process if self._process is not None and self._process.poll() is None else self._start()
        assert process.stdin is not None  # it is a pipe
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise _EndedError from None
        while True:
            try:
                line = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError from None
            if line is None:
                raise _EndedError
            if not line.startswith(b'{"'):  # printed by something before the worker took hold of its output
                continue
            answer = json.loads(line)
            if "progress" not in answer:
                return answer
            if on_progress is not None:
                on_progress(answer["progress"])

    def _start(self) -> subprocess.Popen[bytes]:
        self._kill()
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        with open(self._log, "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "workbench.run.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,  # Ctrl-C is ours to handle
            )
        self._process, self._answers = process, queue.Queue()
        assert process.stdout is not None  # it is a pipe
        threading.Thread(target=_pump, args=(process.stdout, self._answers), daemon=True).start()
        return process

    @property
    def _log(self) -> Path:
        return self.folder / "worker.log"

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        assert process.stdin is not None  # it is a pipe
        with contextlib.suppress(BrokenPipeError):  # what was left to write has no reader any more
            process.stdin.close()

    def _obituary(self, need_bytes: int | None, free: int) -> RunError:
        """The error for a process that ended by itself, or that `cancel` ended."""
        process = self._process
        assert process is not None  # it was asked something
        code = process.wait()
        self._kill()
        if self._cancelled:
            return CancelledError()
        if code == -signal.SIGKILL:
            need = "" if need_bytes is None else f"needed about {in_gigabytes(need_bytes)}, "
            return RunError(
                f"The run was killed by the system, most likely out of memory ({need}{in_gigabytes(free)} were free); "
                "bind smaller dimensions or close other programs.",
                "process",
            )
        if code < 0:
            return RunError(f"The run crashed ({signal.Signals(-code).name}){self._last_words()}.", "process")
        return RunError(f"The run's process ended with code {code}{self._last_words()}.", "process")

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"; its last line was: {lines[-1][:200]}" if lines else ""


class _EndedError(Exception):
    """The process is gone."""


def _pump(stream: BinaryIO, answers: queue.Queue[bytes | None]) -> None:
    """Lines into the queue, None at the end."""
    with stream:
        for line in stream:
            answers.put(line)
    answers.put(None)
