"""Models opened in a process of their own to be measured: no other library's threads and memory are there.

One process for each backend, started by the worker when several are measured
together. It is the worker's child: it ends with it, and its memory counts there.
It stays for the next measurement, since its library takes seconds to load; not
where memory is limited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.run.measurement.in_process import Here
from workbench.run.worker.process import Limits, RunError, WorkerProcess

_ENDED = "The run's process was ended between two runs; see what ends processes here, and measure again."


class Apart:
    """As `Here`, in a process of its own. Raises RunError for what fails there, and where it dies."""

    def __init__(self, process: WorkerProcess, device: str, memory_limit: int | None, reference: str | None) -> None:
        self._process = process
        self._where = {"device": device, "memory_limit_bytes": memory_limit, "reference": reference}
        self._died: RunError | None = None

    def open(self, variant: Mapping[str, Any]) -> dict[str, Any]:
        return self._ask("open", variant=dict(variant))

    def time_ms(self, label: str, cold: bool) -> float:
        return self._ask("time", label=label, cold=cold)["time_ms"]

    def profile(self, label: str) -> dict[str, Any]:
        return self._ask("profile", label=label)

    def close(self) -> None:
        """Let go of the models."""
        if self._died is None:
            self._ask("end")

    def _ask(self, act: str, **fields: Any) -> dict[str, Any]:
        if self._died is not None:  # a new process would not have the models
            raise self._died
        message = {"kind": "apart", "act": act, **self._where, **fields}
        try:  # time, memory and cancel are looked after by the client of the worker, which ends both
            answer = self._process.ask(message, limits=Limits(math.inf), heed_cancel=lambda: None)
        except RunError as error:
            self._died = error
            raise
        if "error" in answer:
            raise RunError(answer["error"], answer.get("stage", "run"))
        return answer["result"]


_kept: dict[str, WorkerProcess] = {}  # by backend


@contextmanager
def opened_places(
    backends: Sequence[str], device: str, memory_limit: int | None, reference: str | None
) -> Iterator[Mapping[str, Here | Apart]]:
    """Where the variants of each backend are measured: apart, or here where there is only one."""
    if memory_limit is not None:
        _end_kept()
    if len(backends) == 1:
        yield {backends[0]: Here(device, memory_limit, reference)}
        return
    for backend in backends:  # their logs lie in the worker's folder, which its client removes
        _kept.setdefault(backend, WorkerProcess(Path(f"{backend}.log").absolute()))
    found = {backend: Apart(_kept[backend], device, memory_limit, reference) for backend in backends}
    try:
        yield found
    finally:
        for place in found.values():
            place.close()
        if memory_limit is not None:
            _end_kept()


def _end_kept() -> None:
    while _kept:
        _, process = _kept.popitem()
        process.kill()


def answering() -> Callable[[Mapping[str, Any], Any], dict[str, Any]]:
    """The task that an `Apart` asks for; between two requests it keeps what it has opened."""
    places: list[Here] = []

    def answer(request: Mapping[str, Any], report: Any) -> dict[str, Any]:
        act = request["act"]
        if act == "end":
            places.clear()
            return {}
        if act == "open":
            if not places:
                places.append(Here(request["device"], request["memory_limit_bytes"], request["reference"]))
            return places[0].open(request["variant"])
        if not places or not places[0].has(request["label"]):  # it stands for one that died while nobody asked it
            raise RunError(_ENDED, "process")
        if act == "time":
            return {"time_ms": places[0].time_ms(request["label"], request["cold"])}
        return places[0].profile(request["label"])

    return answer
