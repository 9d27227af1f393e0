"""Measuring, inside the worker: several variants of a model, run by turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from workbench.run.caches import flusher
from workbench.run.ceilings import ceilings
from workbench.run.compare import Tolerance, compare
from workbench.run.failures import TaskError, sentence_of
from workbench.run.inputs import turned
from workbench.run.interleave import COLD_RUNS, Repetitions, by_turns
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
    variants, count = request["variants"], Repetitions(**request["repetitions"])
    cold_runs = COLD_RUNS if request["cold"] else 0
    progress = _Progress(report, len(variants) * (count.warmup + count.most + cold_runs + 3))
    before = machine(request["device"])  # imports the libraries too, or the first variant would seem slow to open
    results, after = _results(request, count, cold_runs, progress)
    dtypes = {variant["dtype"] for variant in variants if "failed" not in results[variant["label"]]}
    if not dtypes:
        raise BackendError(next(iter(results.values()))["failed"])
    ran = (result for result in results.values() if "failed" not in result)
    # A mixed run computes in several types, and each has a roof of its own.
    dtypes |= {op["dtype"] for result in ran for op in result["operators"] if op.get("dtype")}
    progress.end()
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    return {
        "variants": results,
        "machine": {**before, "afterwards": changed},
        "ceilings": ceilings(request["device"], sorted(dtypes)),
    }


def _results(
    request: Mapping[str, Any], count: Repetitions, cold_runs: int, progress: _Progress
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """What was measured of each variant, and the machine as it was then. The models are gone when this returns."""
    inputs = {file: load_tensors(file) for file in {variant["inputs"] for variant in request["variants"]}}
    reference = load_tensors(request["reference"]) if request["reference"] else None
    opened: dict[str, OpenedModel] = {}
    results: dict[str, dict[str, Any]] = {}
    for variant in request["variants"]:
        label = variant["label"]
        with _failing_alone(label, request, results):
            model, seconds = _opened(request, variant, inputs[variant["inputs"]])
            progress.step(f"opened {label}")
            error = _error(model, reference, Tolerance(**variant["tolerance"]), variant["orders"])
            progress.step(f"compared {label}")
            opened[label], results[label] = model, {"first_result_s": seconds, "error": error}
    _time(request, opened, results, "times_ms", count, progress, lambda: None)
    if cold_runs:
        cold = Repetitions(0, cold_runs, cold_runs)
        _time(request, opened, results, "cold_times_ms", cold, progress, flusher(request["device"]))
    after = machine(request["device"])
    for label, model in _good(opened, results).items():
        with _failing_alone(label, request, results):
            results[label]["memory"] = _ran(model.memory)
            results[label]["operators"] = _ran(model.operators)
            results[label]["fallbacks"] = dict(model.fallbacks)
        progress.step(f"profiled {label}")
    return results, after


class _RunFailed(TaskError):
    """One variant's run failed."""

    def __init__(self, label: str, error: TaskError) -> None:
        super().__init__(error.cause, error.stage)
        self.label = label


@contextmanager
def _failing_alone(label: str, request: Mapping[str, Any], results: dict[str, dict[str, Any]]) -> Iterator[None]:
    """What fails inside costs this variant, and no other."""
    try:
        yield
    except TaskError as error:
        results[label] = _failed(error, request)


def _failed(error: TaskError, request: Mapping[str, Any]) -> dict[str, str]:
    return {"failed": sentence_of(error, request["device"], request["memory_limit_bytes"])}


def _good(opened: Mapping[str, OpenedModel], results: Mapping[str, Mapping[str, Any]]) -> dict[str, OpenedModel]:
    return {label: model for label, model in opened.items() if "failed" not in results[label]}


def _time(
    request: Mapping[str, Any],
    opened: Mapping[str, OpenedModel],
    results: dict[str, dict[str, Any]],
    name: str,
    count: Repetitions,
    progress: _Progress,
    prepare: Callable[[], None],
) -> None:
    """The times of all that run, by turns; without one that fails the others begin again. prepare: before each."""
    while runs := {label: _timed(label, model, prepare) for label, model in _good(opened, results).items()}:
        try:
            for label, times in by_turns(runs, count, progress.step).items():
                results[label][name] = times
            return
        except _RunFailed as failed:
            results[failed.label] = _failed(failed, request)


def _timed(label: str, model: OpenedModel, prepare: Callable[[], None]) -> Callable[[], float]:
    def run() -> float:
        prepare()
        try:
            return _ran(model.time_ms)
        except TaskError as error:
            raise _RunFailed(label, error) from error

    return run


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


def _opened(request: Mapping[str, Any], variant: Mapping[str, Any], inputs: Tensors) -> tuple[OpenedModel, float]:
    """The model, and the seconds to its first result: opening it, compiling, one run."""
    if variant["backend"] == "onnxruntime":
        from workbench.run.opened_onnxruntime import load_kernels

        _ran(lambda: load_kernels(request["device"]))
    start = time.perf_counter()
    model = _open(request, variant, inputs)
    _ran(model.outputs)
    return model, time.perf_counter() - start


def _open(request: Mapping[str, Any], variant: Mapping[str, Any], inputs: Tensors) -> OpenedModel:
    device = request["device"]
    if variant["backend"] == "onnxruntime":
        from workbench.run.opened_onnxruntime import SessionRun

        limit = request["memory_limit_bytes"]
        return _ran(lambda: SessionRun(variant["model"], inputs, device, limit))
    from workbench.run.opened_torch import TorchRun

    return _ran(lambda: TorchRun(variant["model"], inputs, device, variant["backend"], variant["dtype"]))


def _error(
    model: OpenedModel, reference: Tensors | None, tolerance: Tolerance, orders: Mapping[str, Sequence[int]]
) -> dict[str, Any] | None:
    """orders: how outputs are to be permuted to stand as the reference gives them."""
    if reference is None:
        return None
    found = asdict(compare(reference, turned(_ran(model.outputs), orders), tolerance))
    return {key: value for key, value in found.items() if key != "outputs"}


def _ran(what: Callable[[], Any]) -> Any:
    try:
        return what()
    except TaskError:
        raise
    except Exception as error:
        raise TaskError(error, "run") from error
