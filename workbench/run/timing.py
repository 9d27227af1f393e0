"""Measuring, inside the worker: several variants of a model, run by turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from workbench.run.caches import flusher
from workbench.run.ceilings import ceilings
from workbench.run.compare import Tolerance, compare
from workbench.run.failures import TaskError, sentence_of
from workbench.run.interleave import COLD_RUNS, Plan, by_turns
from workbench.run.machine import machine
from workbench.run.runners import BackendError, check_device
from workbench.run.tensors import load_tensors

Tensors = Mapping[str, np.ndarray]
Report = Callable[[dict[str, Any]], None]


class OpenedModel(Protocol):
    """One opened model with its inputs where it runs."""

    @property
    def fallbacks(self) -> Mapping[str, str]: ...

    def outputs(self) -> dict[str, np.ndarray]: ...

    def time_ms(self) -> float:
        """One run, without the transfer of inputs and outputs."""

    def memory(self) -> dict[str, Any]:
        """`kind` says what was counted; `weights_bytes`, `peak_bytes`; `timeline`, `at_peak` where they are known."""

    def operators(self) -> list[dict[str, Any]]:
        """Profiled runs, apart from the timed ones: `name`, `op`, `start_ms`, `time_ms` of each operator, in order."""


def measure(request: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Times, memory, errors of every variant in `variants` (label, model, inputs, backend, dtype), which take turns.

    A variant that cannot be opened or run is `failed` with its sentence; the others are measured.
    Progress: {"done", "total", "stage"} after every run.
    """
    check_device(request["device"])
    variants, plan = request["variants"], Plan(**request["plan"])
    cold_runs = COLD_RUNS if request["cold"] else 0
    progress = _Progress(report, len(variants) * (plan.warmup + plan.most + cold_runs + 3))
    inputs = {file: load_tensors(file) for file in {variant["inputs"] for variant in variants}}
    reference = load_tensors(request["reference"]) if request["reference"] else None
    opened: dict[str, OpenedModel] = {}
    results: dict[str, dict[str, Any]] = {}
    for variant in variants:
        label = variant["label"]
        try:
            opened[label], results[label] = _opened(request["device"], variant, inputs[variant["inputs"]])
            progress.step(f"opened {label}")
            results[label]["error"] = _error(opened[label], reference, Tolerance(**variant["tolerance"]))
            progress.step(f"compared {label}")
        except TaskError as error:
            if len(variants) == 1:
                raise
            opened.pop(label, None)
            results[label] = {"failed": sentence_of(error)}
    if not opened:
        raise BackendError(next(iter(results.values()))["failed"])
    before = machine(request["device"])
    runs = {label: _timed(model) for label, model in opened.items()}
    times = by_turns(runs, plan, progress.step)
    for label, taken in times.items():
        results[label]["times_ms"] = taken
    if cold_runs:
        flush = flusher(request["device"])
        cold = {label: _after(flush, run) for label, run in runs.items()}
        for label, taken in by_turns(cold, Plan(0, cold_runs, cold_runs), progress.step).items():
            results[label]["cold_times_ms"] = taken
    after = machine(request["device"])
    for label, model in opened.items():
        results[label]["memory"] = _ran(model.memory)
        results[label]["operators"] = _ran(model.operators)
        results[label]["fallbacks"] = dict(model.fallbacks)
        progress.step(f"profiled {label}")
    progress.end()
    roofs = {v["dtype"]: ceilings(request["device"], v["dtype"]) for v in variants if v["label"] in opened}
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    return {"variants": results, "machine": {**before, "afterwards": changed}, "ceilings": roofs}


class _Progress:
    """Counts what is done towards what is expected."""

    def __init__(self, report: Report, total: int) -> None:
        self._report, self._total, self._done = report, total, 0

    def step(self, stage: str) -> None:
        self._done += 1
        self._report({"done": self._done, "total": self._total, "stage": stage})

    def end(self) -> None:
        """Fewer runs than expected were enough."""
        self._report({"done": self._total, "total": self._total, "stage": "measuring what the device can do at most"})


def _opened(device: str, variant: Mapping[str, Any], inputs: Tensors) -> tuple[OpenedModel, dict[str, Any]]:
    """The model, and the seconds that opening it and its first run took: compiling is in them."""
    start = time.perf_counter()
    model = _open(device, variant, inputs)
    opened = time.perf_counter()
    _ran(model.outputs)
    done = time.perf_counter()
    return model, {"open_s": opened - start, "first_run_s": done - opened}


def _open(device: str, variant: Mapping[str, Any], inputs: Tensors) -> OpenedModel:
    if variant["backend"] == "onnxruntime":
        if variant["dtype"] != "float32":
            raise TaskError(
                BackendError("ONNX Runtime is measured with the model's own types; use a torch backend."), "load"
            )
        from workbench.run.opened_onnxruntime import SessionRun

        return _ran(lambda: SessionRun(variant["model"], inputs, device))
    from workbench.run.opened_torch import TorchRun

    return _ran(lambda: TorchRun(variant["model"], inputs, device, variant["backend"], variant["dtype"]))


def _error(model: OpenedModel, reference: Tensors | None, tolerance: Tolerance) -> dict[str, Any] | None:
    if reference is None:
        return None
    found = asdict(compare(reference, _ran(model.outputs), tolerance))
    return {key: value for key, value in found.items() if key != "outputs"}


def _timed(model: OpenedModel) -> Callable[[], float]:
    return lambda: _ran(model.time_ms)


def _after(prepare: Callable[[], None], run: Callable[[], float]) -> Callable[[], float]:
    def prepared() -> float:
        prepare()
        return run()

    return prepared


def _ran(what: Callable[[], Any]) -> Any:
    try:
        return what()
    except TaskError:
        raise
    except Exception as error:
        raise TaskError(error, "run") from error
