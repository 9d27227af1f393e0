"""Small helpers of the tests of kept runs: a measurement, and a process that keeps some."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from workbench.backends.profiling.profile_result import Memory, OperatorRun
from workbench.run.compare import Comparison
from workbench.run.measurement.measurement_result import FailedVariant, MeasuredVariant, Measurement
from workbench.run.measurement.statistics import is_busy, is_stable, ratio, spread
from workbench.run.records.store import URL_VARIABLE, Run, RunOrigin, find_runs, keep
from workbench.run.worker.machine import Machine

HASH, OTHER_HASH = "ab" * 32, "cd" * 32
VERSIONS = {"python": "3.11", "torch": "2.13.0"}

KEEPS_MANY = """
import sys
from tests.recording import keep_one
print("ready", flush=True)
sys.stdin.readline()
for index in range(int(sys.argv[2])):
    keep_one(sys.argv[1], label=f"{sys.argv[3]} {index}")
"""


def use_own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of whoever tests is read or written; the folder in which runs are kept instead."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(folder / "cache"))
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    return folder / "cache"


def record(times: dict[str, list[float]], **changes: Any) -> Measurement:
    """What measuring returns. times: by label, in milliseconds; changes: of the machine, the variants and `dims`."""
    first = next(iter(times.values()))
    variants: dict[str, MeasuredVariant | FailedVariant] = {
        label: MeasuredVariant(
            step=label,
            backend=changes.get("backend", "torch"),
            dtype=changes.get("dtype", "float32"),
            times_ms=taken,
            latency=spread(taken),
            busy=is_busy(taken),
            stable=is_stable(taken),
            ratio_to=next(iter(times)),
            ratio=ratio(taken, first),
            first_result_s=1.0,
            cold_times_ms=None,
            cold_median_ms=None,
            memory=Memory("counted", "values", weights_bytes=100, peak_bytes=3 * 2**30),
            operators=[OperatorRun("n0", "Conv", 0.5)],
            sum_ms=0.5,
            difference="",
            fallbacks={},
            error=Comparison((), 1e-6, 1e-7, False, True, "equal"),
        )
        for label, taken in times.items()
    }
    machine = Machine("cpu", changes.get("device_name", "Xeon"), 2, changes.get("versions", VERSIONS))
    return Measurement(variants, machine, {"float32": None}, changes.get("dims", {}), None, 3, [])


def as_read(found: Measurement) -> dict[str, Any]:
    """The measurement's JSON, as a program reads it."""
    return json.loads(json.dumps(found.to_json()))


def keep_one(
    url: str | None = None,
    label: str = "as loaded",
    times: list[float] | None = None,
    origin: RunOrigin | None = None,
    **changes: Any,
) -> Measurement:
    """Keep a measurement of one variant."""
    found = record({label: times or [1.0, 2.0, 3.0]}, **changes)
    keep(found, {label: origin or RunOrigin(HASH, "model")}, url)
    return found


def kept_twice(url: str, pipelines: tuple[str, str] = ("", ""), second: dict[str, Any] | None = None) -> list[Run]:
    """Two measurements of one model, the older first; `second`: what is changed for the newer."""
    keep_one(url, "a", origin=RunOrigin(HASH, "model", pipelines[0]))
    keep_one(url, "b", origin=RunOrigin(HASH, "model", pipelines[1]), **(second or {}))
    return list(find_runs(url=url))[::-1]


def keeping_process(url: str, count: int, label: str) -> subprocess.Popen[str]:
    """A process that keeps so many runs once a line is written to it; it has said that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", KEEPS_MANY, url, str(count), label],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process
