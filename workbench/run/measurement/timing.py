"""Measuring, inside the worker: several variants of a model, run by turns, each backend in a separate process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workbench.errors import UserError
from workbench.run.measurement.in_process import LocalBackend
from workbench.run.measurement.interleave import COLD_RUNS, Repetitions, by_turns
from workbench.run.measurement.isolated import ProcessBackend, opened_places
from workbench.run.measurement.other_processes import Watch
from workbench.run.profiling.ceilings import ceilings
from workbench.run.torch.executor.opening import check_device
from workbench.run.worker.failures import BackendError, TaskError, sentence_of, stage_of
from workbench.run.worker.machine import Machine, machine

_Report = Callable[[dict[str, Any]], None]
Places = Mapping[str, LocalBackend | ProcessBackend]  # where each variant is measured


def measure_variants(request: Mapping[str, Any], report: _Report) -> dict[str, Any]:
    """Times, memory, errors of every variant in `variants` (label, model, inputs, backend, dtype), by turns.

    A variant that cannot be opened or run is `failed` with its sentence; the others are measured.
    Once the file `enough` exists, the runs so far are all.
    Progress: {"done", "total", "stage"} after every run.
    """
    check_device(request["device"])
    variants, count = request["variants"], Repetitions(**request["repetitions"])
    cold_runs = COLD_RUNS if request["cold"] else 0
    progress = _Progress(report, len(variants) * (count.warmup + count.most + cold_runs + 2))
    before = machine(request["device"])  # imports the libraries too, so that they do not count for the first variant
    results, after = _results(request, count, cold_runs, progress, before.threads)
    dtypes = {variant["dtype"] for variant in variants if "failed" not in results[variant["label"]]}
    if not dtypes:
        raise BackendError(next(iter(results.values()))["failed"])
    ran = (result for result in results.values() if "failed" not in result)
    # A mixed run computes in several types, and each has a roof of its own.
    dtypes |= {op["dtype"] for result in ran for op in result["operators"] if op.get("dtype")}
    progress.end()
    roofs = ceilings(request["device"], sorted(dtypes))
    return {
        "variants": results,
        "machine": before.changed_to(after).to_json(),
        "ceilings": {dtype: None if outcome is None else asdict(outcome) for dtype, outcome in roofs.items()},
    }


def _results(
    request: Mapping[str, Any], count: Repetitions, cold_runs: int, progress: _Progress, threads: int
) -> tuple[dict[str, dict[str, Any]], Machine]:
    """The measurements of each variant, and the state of the machine. The models are released on return."""
    results: dict[str, dict[str, Any]] = {}
    backends = list(dict.fromkeys(variant["backend"] for variant in request["variants"]))
    with opened_places(backends, request["device"], request["memory_limit_bytes"], request["reference"]) as of_backend:
        opened: dict[str, LocalBackend | ProcessBackend] = {}
        for variant in request["variants"]:
            label, place = variant["label"], of_backend[variant["backend"]]
            with _failing_alone(label, request, results):
                results[label] = place.open(variant, progress.say)
                opened[label] = place
            progress.step(f"opened {label}")
        watch = Watch()
        _time(request, opened, results, "times_ms", count, progress)
        others = watch.seen(threads) if request["device"] == "cpu" else None
        for label in _good(opened, results):
            results[label]["others"] = None if others is None else asdict(others)
        if cold_runs:
            cold = Repetitions(0, cold_runs, cold_runs)
            _time(request, opened, results, "cold_times_ms", cold, progress)
        after = machine(request["device"])
        for label, place in _good(opened, results).items():
            with _failing_alone(label, request, results):
                results[label] |= place.profile(label, request["operators"])
            progress.step(f"profiled {label}")
    return results, after


class _RunFailed(TaskError):
    """One variant's run failed."""

    def __init__(self, label: str, error: TaskError | UserError) -> None:
        super().__init__(error.cause if isinstance(error, TaskError) else error, stage_of(error))
        self.label = label


@contextmanager
def _failing_alone(label: str, request: Mapping[str, Any], results: dict[str, dict[str, Any]]) -> Iterator[None]:
    """A context in which a failure affects only this variant."""
    try:
        yield
    except (TaskError, UserError) as error:
        results[label] = _failed(error, request)


def _failed(error: TaskError | UserError, request: Mapping[str, Any]) -> dict[str, str]:
    return {"failed": sentence_of(error, request["device"], request["memory_limit_bytes"])}


def _good(opened: Places, results: Mapping[str, Mapping[str, Any]]) -> Places:
    return {label: place for label, place in opened.items() if "failed" not in results[label]}


def _time(
    request: Mapping[str, Any],
    opened: Places,
    results: dict[str, dict[str, Any]],
    name: str,
    count: Repetitions,
    progress: _Progress,
) -> None:
    """The times of all variants, by turns; if one fails, the others begin again without it."""
    cold, enough = name == "cold_times_ms", Path(request["enough"])
    while runs := {label: _timed(label, place, cold) for label, place in _good(opened, results).items()}:
        try:
            for label, times in by_turns(runs, count, progress.step, is_enough=enough.exists).items():
                results[label][name] = times
            return
        except _RunFailed as failed:
            results[failed.label] = _failed(failed, request)


def _timed(label: str, place: LocalBackend | ProcessBackend, cold: bool) -> Callable[[], float]:
    def run() -> float:
        try:
            return place.time_ms(label, cold)
        except (TaskError, UserError) as error:
            raise _RunFailed(label, error) from error

    return run


class _Progress:
    """Counts finished runs of the expected ones."""

    def __init__(self, report: _Report, total: int) -> None:
        self._report, self._total, self._done = report, total, 0

    def step(self, stage: str) -> None:
        self._done += 1
        self.say(stage)

    def say(self, stage: str) -> None:
        """What goes on now; nothing more is done."""
        self._report({"done": self._done, "total": self._total, "stage": stage})

    def end(self) -> None:
        """Fewer runs than expected were enough."""
        self._report({"done": self._total, "total": self._total, "stage": "measuring what the device can do at most"})
