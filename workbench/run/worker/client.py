"""Client of the worker processes, one per device; every failure becomes one sentence.

Tensors are passed as files in the client's folder.
"""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from workbench.backends.tensors import load_tensors, save_tensors
from workbench.run.worker.device_queue import queue_of_device, turn, waiting_text
from workbench.run.worker.process import CancelledError, Limits, ProgressSink, RunError, WorkerProcess

RUN_LIMIT_S = 600.0
_WITHOUT_TURN = frozenset({"devices"})  # requests that run no model and so do not queue
# Requests whose time does not matter, and the process that answers them on the CPU: it takes a second to start.
_UNTIMED = {
    "outputs": "outputs",
    "record_values": "outputs",
    "compare_values": "outputs",
    "parts": "parts",
    "placement": "placement",
}


@dataclass(frozen=True)
class Outputs:
    """The result of one run.

    tensors:   the outputs by name.
    seconds:   the time of the run alone.
    fallbacks: node -> why torch did not run it.
    by:        what ran the model instead of ONNX Runtime, and why; "" if ONNX Runtime or torch ran it.
    """

    tensors: dict[str, np.ndarray]
    seconds: float
    fallbacks: Mapping[str, str]
    by: str = ""


class Worker:
    """A process for each device, started when first needed, and again after it died.

    Any number of threads, the clients, may send requests. A device runs one job
    at a time, in order of arrival, over all workers of this user on this machine
    (see `workbench.run.worker.device_queue`). Outputs on the CPU, whose time does
    not matter, are computed by a process with a queue of its own. `cancel` may be
    called from any thread.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()  # guards the folder and the processes
        self._processes: dict[str, WorkerProcess] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._busy: set[threading.Thread] = set()  # clients whose job runs now
        self._interrupted: set[threading.Thread] = set()  # busy clients whose job must stop
        self._dismissed: WeakSet[threading.Thread] = WeakSet()  # clients whose later requests are cancelled too
        self._numbers = itertools.count()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """A folder for the worker's files; deleted by `close`."""
        with self._guard:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="workbench-")
            return Path(self._folder.name)

    @property
    def pid(self) -> int | None:
        """The CPU process's id; None before its first request and after a failure."""
        return self._pid_of("cpu")

    @property
    def outputs_pid(self) -> int | None:
        """The id of the process that computes outputs on the CPU; None before its first request and after a failure."""
        return self._pid_of("outputs")

    def _pid_of(self, name: str) -> int | None:
        process = self._processes.get(name)
        return None if process is None else process.pid

    def close(self) -> None:
        """End the processes and remove the folder."""
        with self._guard:
            for process in self._processes.values():
                process.kill()
            self._processes.clear()
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def cancel(self, client: threading.Thread | None = None) -> None:
        """Stop running requests, which raise CancelledError; later ones are not affected.

        client: stop only that thread's requests, running or waiting, and its
        later ones too.
        """
        if client is None:
            self._interrupted |= self._busy
        else:
            self._dismissed.add(client)

    def request(
        self,
        kind: str,
        *,
        device: str = "cpu",
        on_progress: ProgressSink | None = None,
        timeout_s: float = RUN_LIMIT_S,
        memory_limit_bytes: int | None = None,
        need_bytes: int | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Send a request to the process of `device`, in the order of its queue, and wait for the answer.

        "devices" is answered at once; during a job, by a temporary process.

        on_progress: is called with each event, and while waiting repeatedly with
                     {"stage", "done", "total"}; an exception it raises stops
                     the run.
        timeout_s:   from the start of the run, waiting in the queue excluded.
        memory_limit_bytes: the memory limit of the process (see `Limits`), and on a CUDA device
                     what torch's allocator may take there.
        need_bytes:  the estimated memory, which the error names if the system kills the run.
        Raises RunError for every failure of the run.
        """
        client, queue = threading.current_thread(), queue_of_device(device)
        self._interrupted.discard(client)
        self._check_cancelled(client)
        on_cpu = queue == "cpu"
        message = {"kind": kind, "device": device, "memory_limit_bytes": memory_limit_bytes, **fields}
        with self._process_in_turn(kind, queue, client, on_progress) as process, self._marked_busy(client):
            answer = process.ask(
                message,
                limits=Limits(timeout_s, memory_limit_bytes if on_cpu else None),
                check_cancelled=lambda: self._check_cancelled(client),
                on_progress=on_progress,
                need_bytes=need_bytes,
            )
        if "error" in answer:
            raise RunError(answer["error"], answer.get("stage", "run"))
        result: dict[str, Any] = answer["result"]
        return result

    def outputs(
        self,
        model: str | Path,
        inputs: Mapping[str, np.ndarray],
        *,
        backend: str = "onnxruntime",
        level: str = "disabled",
        anew: bool = False,
        device: str = "cpu",
        dtype: str | None = None,
        timeout_s: float = RUN_LIMIT_S,
        memory_limit_bytes: int | None = None,
        need_bytes: int | None = None,
    ) -> Outputs:
        """Run a model file once and return its outputs.

        backend: "onnxruntime", whose optimizations are set by `level`
                 ("disabled", "basic", "all"), or "torch" (opset 23 files).
        anew:    whether ONNX Runtime opens the file for this run alone: the second run of a session draws other random
                 numbers, and a graph of thousands of operators opens in seconds if no memory is planned.
        """
        number = next(self._numbers)
        source, target = (self.folder / f"{name}{number}.npz" for name in ("inputs", "outputs"))
        save_tensors(source, inputs)
        try:
            result = self.request(
                "outputs",
                model=str(Path(model).resolve()),
                inputs=str(source),
                outputs=str(target),
                backend=backend,
                level=level,
                anew=anew,
                device=device,
                dtype=dtype,
                timeout_s=timeout_s,
                memory_limit_bytes=memory_limit_bytes,
                need_bytes=need_bytes,
            )
            return Outputs(load_tensors(target), result["seconds"], result["fallbacks"], result["by"])
        finally:
            source.unlink(missing_ok=True)
            target.unlink(missing_ok=True)

    @contextmanager
    def _process_in_turn(
        self, kind: str, queue: str, client: threading.Thread, on_progress: ProgressSink | None
    ) -> Iterator[WorkerProcess]:
        def on_wait(ahead: Sequence[str]) -> None:
            self._check_cancelled(client)
            if on_progress is not None:
                on_progress({"stage": waiting_text(ahead, queue), "done": 0, "total": 1})

        if kind in _WITHOUT_TURN and not self._busy:  # a running process answers sooner than a new one
            yield self._process("cpu")
            return
        if kind in _WITHOUT_TURN:
            with self._process_for_once(f"{kind}{next(self._numbers)}") as process:
                yield process
            return
        if kind in _UNTIMED and queue == "cpu":  # inspecting a model does not wait for measurements
            name = _UNTIMED[kind]
            with turn(f"{queue}-{name}", on_wait):
                yield self._process(name)
            return
        with turn(queue, on_wait):
            yield self._process(queue)

    @contextmanager
    def _process_for_once(self, name: str) -> Iterator[WorkerProcess]:
        """A temporary process, stopped at the end of the block."""
        process = self._process(name)
        try:
            yield process
        finally:
            process.kill()
            with self._guard:
                self._processes.pop(name, None)  # `close` may have been called before

    @contextmanager
    def _marked_busy(self, client: threading.Thread) -> Iterator[None]:
        self._busy.add(client)
        try:
            yield
        finally:
            self._busy.discard(client)

    def _check_cancelled(self, client: threading.Thread) -> None:
        if client in self._interrupted or client in self._dismissed:
            raise CancelledError

    def _process(self, name: str) -> WorkerProcess:
        log = self.folder / f"worker-{name.replace(':', '')}.log"
        with self._guard:
            return self._processes.setdefault(name, WorkerProcess(log))
