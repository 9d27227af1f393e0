"""Models opened in a separate process for measurement, without the threads and memory of other libraries.

One process for each backend, started by the worker when several are measured
together. It is the worker's child: it ends with the worker, and its memory counts there.
It is reused for the next measurement, since its library takes seconds to load, unless
memory is limited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.run.measurement.in_process import LocalBackend
from workbench.run.profiling.progress import OnStage
from workbench.run.worker.process import Limits, ProgressSink, RunError, WorkerProcess

_ENDED = "The run's process was ended between two runs; see what ends processes here, and measure again."


class ProcessBackend:
    """As `LocalBackend`, in a separate process. Raises RunError for what fails there, and if the process dies."""

    def __init__(self, process: WorkerProcess, device: str, memory_limit: int | None, reference: str | None) -> None:
        self._process = process
        self._where = {"device": device, "memory_limit_bytes": memory_limit, "reference": reference}
        self._died: RunError | None = None

    def open(self, variant: Mapping[str, Any], say: OnStage) -> dict[str, Any]:
        return self._ask("open", lambda event: say(event["stage"]), variant=dict(variant))

    def time_ms(self, label: str, cold: bool) -> float:
        result: float = self._ask("time", label=label, cold=cold)["time_ms"]
        return result

    def profile(self, label: str, operators: bool) -> dict[str, Any]:
        return self._ask("profile", label=label, operators=operators)

    def close(self) -> None:
        """Release the models."""
        if self._died is None:
            self._ask("end")

    def _ask(self, act: str, on_progress: ProgressSink | None = None, **fields: Any) -> dict[str, Any]:
        if self._died is not None:  # a new process would not have the models
            raise self._died
        message = {"kind": "apart", "act": act, **self._where, **fields}
        try:  # time, memory and cancelling are handled by the worker's client, which ends both
            answer = self._process.ask(
                message, limits=Limits(math.inf), heed_cancel=lambda: None, on_progress=on_progress
            )
        except RunError as error:
            self._died = error
            raise
        if "error" in answer:
            raise RunError(answer["error"], answer.get("stage", "run"))
        result: dict[str, Any] = answer["result"]
        return result


_kept: dict[str, WorkerProcess] = {}  # by backend


@contextmanager
def opened_places(
    backends: Sequence[str], device: str, memory_limit: int | None, reference: str | None
) -> Iterator[Mapping[str, LocalBackend | ProcessBackend]]:
    """Where the variants of each backend are measured: in separate processes, or here if there is only one backend."""
    if memory_limit is not None:
        _end_kept()
    if len(backends) == 1:
        yield {backends[0]: LocalBackend(device, memory_limit, reference)}
        return
    for backend in backends:  # their logs are in the worker's folder, which its client removes
        _kept.setdefault(backend, WorkerProcess(Path(f"{backend}.log").absolute()))
    results = {backend: ProcessBackend(_kept[backend], device, memory_limit, reference) for backend in backends}
    try:
        yield results
    finally:
        for place in results.values():
            place.close()
        if memory_limit is not None:
            _end_kept()


def _end_kept() -> None:
    while _kept:
        _, process = _kept.popitem()
        process.kill()


def answering() -> Callable[[Mapping[str, Any], Any], dict[str, Any]]:
    """The task that a `ProcessBackend` requests; what it has opened is kept between requests."""
    places: list[LocalBackend] = []

    def answer(request: Mapping[str, Any], report: Any) -> dict[str, Any]:
        act = request["act"]
        if act == "end":
            places.clear()
            return {}
        if act == "open":
            if not places:
                places.append(LocalBackend(request["device"], request["memory_limit_bytes"], request["reference"]))
            return places[0].open(request["variant"], lambda stage: report({"stage": stage}))
        if not places or not places[0].has(request["label"]):  # it replaces one that died between requests
            raise RunError(_ENDED, "process")
        if act == "time":
            return {"time_ms": places[0].time_ms(request["label"], request["cold"])}
        return places[0].profile(request["label"], request["operators"])

    return answer
