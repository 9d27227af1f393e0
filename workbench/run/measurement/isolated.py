"""Models opened in a separate process for measurement, without the threads and memory of other libraries.

Each backend has a process, started by the worker if several backends are measured
together. It is a child of the worker: it ends with the worker, and its memory counts as
the worker's. It is reused for the next measurement, since its library takes seconds to
load, unless memory is limited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.backends.profiling.progress import StageCallback
from workbench.run.measurement.in_process import LocalBackend
from workbench.run.worker.process import Limits, ProgressSink, RunError, WorkerProcess

_ENDED = "The run's process was ended between two runs; check what ends processes on this machine, and measure again."


class ProcessBackend:
    """A `LocalBackend` in a separate process. Raises RunError for failures, and if the process dies."""

    def __init__(self, process: WorkerProcess, device: str, memory_limit: int | None, reference: str | None) -> None:
        self._process = process
        self._common_fields = {"device": device, "memory_limit_bytes": memory_limit, "reference": reference}
        self._failure: RunError | None = None

    def open(self, variant: Mapping[str, Any], on_stage: StageCallback) -> dict[str, Any]:
        return self._ask("open", lambda event: on_stage(event["stage"]), variant=dict(variant))

    def time_ms(self, label: str, cold: bool) -> float:
        result: float = self._ask("time", label=label, cold=cold)["time_ms"]
        return result

    def profile(self, label: str, operators: bool) -> dict[str, Any]:
        return self._ask("profile", label=label, operators=operators)

    def close(self) -> None:
        """Release the models."""
        if self._failure is None:
            self._ask("end")

    def _ask(self, act: str, on_progress: ProgressSink | None = None, **fields: Any) -> dict[str, Any]:
        if self._failure is not None:  # a new process would not have the models
            raise self._failure
        message = {"kind": "apart", "act": act, **self._common_fields, **fields}
        try:  # time, memory and cancelling are handled by the worker's client, which ends both
            answer = self._process.ask(
                message, limits=Limits(math.inf), check_cancelled=lambda: None, on_progress=on_progress
            )
        except RunError as error:
            self._failure = error
            raise
        if "error" in answer:
            raise RunError(answer["error"], answer.get("stage", "run"))
        result: dict[str, Any] = answer["result"]
        return result


_processes: dict[str, WorkerProcess] = {}  # by backend


@contextmanager
def opened_backends(
    backends: Sequence[str], device: str, memory_limit: int | None, reference: str | None
) -> Iterator[Mapping[str, LocalBackend | ProcessBackend]]:
    """The backends by name, each in a separate process, or in this process if there is only one."""
    if memory_limit is not None:
        _end_processes()
    if len(backends) == 1:
        yield {backends[0]: LocalBackend(device, memory_limit, reference)}
        return
    for backend in backends:  # their logs are in the worker's folder, which its client removes
        _processes.setdefault(backend, WorkerProcess(Path(f"{backend}.log").absolute()))
    results = {backend: ProcessBackend(_processes[backend], device, memory_limit, reference) for backend in backends}
    try:
        yield results
    finally:
        for opened in results.values():
            opened.close()
        if memory_limit is not None:
            _end_processes()


def _end_processes() -> None:
    while _processes:
        _, process = _processes.popitem()
        process.kill()


def isolated_task() -> Callable[[Mapping[str, Any], Any], dict[str, Any]]:
    """The task that a `ProcessBackend` requests; opened models are kept between requests."""
    opened: list[LocalBackend] = []

    def answer(request: Mapping[str, Any], report: Any) -> dict[str, Any]:
        act = request["act"]
        if act == "end":
            opened.clear()
            return {}
        if act == "open":
            if not opened:
                opened.append(LocalBackend(request["device"], request["memory_limit_bytes"], request["reference"]))
            return opened[0].open(request["variant"], lambda stage: report({"stage": stage}))
        if not opened or not opened[0].has(request["label"]):  # this process replaces one that died between requests
            raise RunError(_ENDED, "process")
        if act == "time":
            return {"time_ms": opened[0].time_ms(request["label"], request["cold"])}
        return opened[0].profile(request["label"], request["operators"])

    return answer
