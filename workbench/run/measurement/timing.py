"""The task of measuring inside the worker: interleaved runs of variants, each backend in a separate process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workbench.backends.failures import BackendError, TaskError, sentence_of, stage_of
from workbench.backends.profiling.ceilings import ceilings
from workbench.backends.torch.executor.opening import check_device
from workbench.errors import UserError
from workbench.run.measurement.background_load import Watch
from workbench.run.measurement.in_process import LocalBackend
from workbench.run.measurement.interleave import COLD_RUNS, Repetitions, interleaved
from workbench.run.measurement.isolated import ProcessBackend, opened_backends
from workbench.run.worker.machine import Machine, machine

_Report = Callable[[dict[str, Any]], None]
Backends = Mapping[str, LocalBackend | ProcessBackend]


def measure_variants(request: Mapping[str, Any], report: _Report) -> dict[str, Any]:
    """Times, memory and errors of every variant in `variants` (label, model, inputs, backend, dtype), interleaved.

    A variant that cannot be opened or run is `failed` with its sentence; the others are measured.
    Once the file `enough` exists, no further run is started.
    Progress: {"done", "total", "stage"} after every run.
    """
    check_device(request["device"])
    variants, count = request["variants"], Repetitions(**request["repetitions"])
    cold_runs = COLD_RUNS if request["cold"] else 0
    progress = _Progress(report, len(variants) * (count.warmup + count.max_runs + cold_runs + 2))
    before = machine(request["device"])  # also imports the libraries, which then do not count for the first variant
    results, after = _results(request, count, cold_runs, progress, before.threads)
    dtypes = {variant["dtype"] for variant in variants if "failed" not in results[variant["label"]]}
    if not dtypes:
        raise BackendError(next(iter(results.values()))["failed"])
    succeeded = (result for result in results.values() if "failed" not in result)
    # A mixed run computes in several types, each with its own roof.
    dtypes |= {op["dtype"] for result in succeeded for op in result["operators"] if op.get("dtype")}
    progress.end()
    roofs = ceilings(request["device"], sorted(dtypes))
    return {
        "variants": results,
        "machine": before.changed_to(after).to_json(),
        "ceilings": {dtype: None if roof is None else asdict(roof) for dtype, roof in roofs.items()},
    }


def _results(
    request: Mapping[str, Any], count: Repetitions, cold_runs: int, progress: _Progress, threads: int
) -> tuple[dict[str, dict[str, Any]], Machine]:
    """The measurements of each variant, and the state of the machine. The models are released on return."""
    results: dict[str, dict[str, Any]] = {}
    backends = list(dict.fromkeys(variant["backend"] for variant in request["variants"]))
    with opened_backends(backends, request["device"], request["memory_limit_bytes"], request["reference"]) as by_name:
        opened: dict[str, LocalBackend | ProcessBackend] = {}
        for variant in request["variants"]:
            label, backend = variant["label"], by_name[variant["backend"]]
            with _recording_failure(label, request, results):
                results[label] = backend.open(variant, progress.report_stage)
                opened[label] = backend
            progress.step(f"opened {label}")
        watch = Watch()
        _time(request, opened, results, "times_ms", count, progress)
        others = watch.result(threads) if request["device"] == "cpu" else None
        for label in _succeeded(opened, results):
            results[label]["others"] = None if others is None else asdict(others)
        if cold_runs:
            cold = Repetitions(0, cold_runs, cold_runs)
            _time(request, opened, results, "cold_times_ms", cold, progress)
        after = machine(request["device"])
        for label, backend in _succeeded(opened, results).items():
            with _recording_failure(label, request, results):
                results[label] |= backend.profile(label, request["operators"])
            progress.step(f"profiled {label}")
    return results, after


class _RunFailed(TaskError):
    """One variant's run failed."""

    def __init__(self, label: str, error: TaskError | UserError) -> None:
        super().__init__(error.cause if isinstance(error, TaskError) else error, stage_of(error))
        self.label = label


@contextmanager
def _recording_failure(label: str, request: Mapping[str, Any], results: dict[str, dict[str, Any]]) -> Iterator[None]:
    """A context in which a failure is recorded as the result of this variant."""
    try:
        yield
    except (TaskError, UserError) as error:
        results[label] = _failed(error, request)


def _failed(error: TaskError | UserError, request: Mapping[str, Any]) -> dict[str, str]:
    return {"failed": sentence_of(error, request["device"], request["memory_limit_bytes"])}


def _succeeded(opened: Backends, results: Mapping[str, Mapping[str, Any]]) -> Backends:
    return {label: backend for label, backend in opened.items() if "failed" not in results[label]}


def _time(
    request: Mapping[str, Any],
    opened: Backends,
    results: dict[str, dict[str, Any]],
    name: str,
    count: Repetitions,
    progress: _Progress,
) -> None:
    """Store the interleaved times of all variants; if one fails, the others start again without it."""
    cold, enough = name == "cold_times_ms", Path(request["enough"])
    while runs := {label: _timed(label, backend, cold) for label, backend in _succeeded(opened, results).items()}:
        try:
            for label, times in interleaved(runs, count, progress.step, is_enough=enough.exists).items():
                results[label][name] = times
            return
        except _RunFailed as failed:
            results[failed.label] = _failed(failed, request)


def _timed(label: str, backend: LocalBackend | ProcessBackend, cold: bool) -> Callable[[], float]:
    def run() -> float:
        try:
            return backend.time_ms(label, cold)
        except (TaskError, UserError) as error:
            raise _RunFailed(label, error) from error

    return run


class _Progress:
    """Counts finished runs of the expected ones."""

    def __init__(self, report: _Report, total: int) -> None:
        self._report, self._total, self._done = report, total, 0

    def step(self, stage: str) -> None:
        self._done += 1
        self.report_stage(stage)

    def report_stage(self, stage: str) -> None:
        """Report a stage without counting a run."""
        self._report({"done": self._done, "total": self._total, "stage": stage})

    def end(self) -> None:
        """Report that all runs are done, perhaps fewer than expected."""
        self._report({"done": self._total, "total": self._total, "stage": "measuring the peak rates of the device"})
