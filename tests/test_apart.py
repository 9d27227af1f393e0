"""Each backend of a measurement in a process of its own, one run at a time, whatever becomes of one of them."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.worker_jobs import log_of, site, until
from workbench.ir import from_text
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.measurement_result import FailedVariant
from workbench.run.measurement.variants import Variant, combined
from workbench.run.worker.client import Worker
from workbench.run.worker.process import CancelledError

GRAPH = "g (float[64,64] x) => (float[64,64] y) { a = MatMul(x, x)\n b = Relu(a)\n y = Add(b, x) }"
INPUTS = {"x": np.ones((64, 64), np.float32)}
BACKENDS = ("torch", "onnxruntime")


def wanted() -> dict[str, Variant]:
    return combined({"m": from_text(GRAPH), "n": from_text(GRAPH)}, BACKENDS, ["float32"])


def children_of(worker: Worker) -> list[int]:
    return [child.pid for child in psutil.Process(worker.pid).children()]


def library_of(pid: int) -> str:
    """Which of the two libraries is loaded there; both never are."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    (found,) = (
        name for name, file in (("torch", "libtorch_cpu"), ("onnxruntime", "onnxruntime_pybind")) if file in maps
    )
    return found


@pytest.mark.slow
def test_each_backend_has_a_process_without_the_others_library_and_no_two_run_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", site(tmp_path))
    with Worker() as worker:
        found = measure_models(wanted(), inputs=INPUTS, repeat=6, worker=worker).variants
        measure_models(wanted(), inputs=INPUTS, repeat=1, worker=worker)
        processes = children_of(worker)
        log = [entry for entry in log_of(tmp_path) if entry[0] == "apart"]
        assert {entry[3] for entry in log} == set(processes), "they stay for the next measurement"
        assert sorted(map(library_of, processes)) == sorted(BACKENDS)
        measure_models(wanted(), inputs=INPUTS, repeat=1, worker=worker, memory_limit_bytes=8 * 2**30)
        assert not children_of(worker), "where memory is limited none stays, for it would count"
    assert all(len(variant.times_ms) == 6 for variant in found.values())
    for (_, _, end, _), (_, begin, _, _) in itertools.pairwise(log):
        assert end <= begin, "the turns are kept between processes"


@pytest.mark.slow
def test_one_backend_is_measured_by_the_worker_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", site(tmp_path))
    with Worker() as worker:
        measure_models({"m": Variant(from_text(GRAPH), "onnxruntime")}, inputs=INPUTS, repeat=2, worker=worker)
        assert {(kind, pid) for kind, _, _, pid in log_of(tmp_path)} == {("measure", worker.pid)}


class Killing:
    """A progress function that, at the third turn, kills the process of one backend."""

    def __init__(self, worker: Worker, backend: str) -> None:
        self._worker, self._backend, self.killed = worker, backend, 0

    def __call__(self, event: dict[str, Any]) -> None:
        if self.killed or not event.get("stage", "").startswith("run 3 of"):
            return
        self.killed = next(pid for pid in children_of(self._worker) if library_of(pid) == self._backend)
        os.kill(self.killed, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_whose_process_dies_costs_its_variants_alone(backend):
    with Worker() as worker:
        killing = Killing(worker, backend)
        found = measure_models(wanted(), inputs=INPUTS, repeat=20, worker=worker, on_progress=killing).variants
        again = measure_models(wanted(), inputs=INPUTS, repeat=1, worker=worker).variants
    assert killing.killed
    failed = {label for label, variant in found.items() if isinstance(variant, FailedVariant)}
    assert failed == {label for label in found if backend in label}
    told = [found[label].failed for label in failed]
    assert all("killed from outside" in words or "ended between two runs" in words for words in told), told
    assert not any(isinstance(variant, FailedVariant) for variant in again.values()), (
        "the next measurement starts it anew"
    )


@pytest.mark.slow
def test_a_measurement_that_is_cancelled_leaves_no_process():
    processes: list[int] = []

    def cancel(event: dict[str, Any]) -> None:
        if event.get("stage", "").startswith("run 3 of"):
            processes.extend(children_of(worker))
            worker.cancel()

    with Worker() as worker:
        with pytest.raises(CancelledError):
            measure_models(wanted(), inputs=INPUTS, repeat=10_000, worker=worker, on_progress=cancel)
        assert len(processes) >= len(BACKENDS)
        until(lambda: not any(map(psutil.pid_exists, processes)))
