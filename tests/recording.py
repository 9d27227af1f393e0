"""Small helpers of the tests of kept runs: a record as `measure_models` returns it, and a process that keeps some."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from workbench.run.measurement.statistics import ratio, spread
from workbench.run.records.store import URL_VARIABLE, Run, RunOrigin, find_runs, keep

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


def record(times: dict[str, list[float]], **changes: Any) -> dict[str, Any]:
    """What measuring returned. times: by label, in milliseconds; changes: of the machine, the variants and `dims`."""
    first = next(iter(times.values()))
    variants = {
        label: {
            **asdict(spread(taken)),
            **asdict(ratio(taken, first)),
            "times_ms": taken,
            "backend": changes.get("backend", "torch"),
            "dtype": changes.get("dtype", "float32"),
            "memory": {"kind": "counted", "peak_bytes": 3 * 2**30, "weights_bytes": 100, "timeline": []},
            "operators": [{"name": "n0", "op": "Conv", "time_ms": 0.5}],
            "fallbacks": {},
            "error": {"max_rel_error": 1e-7},
        }
        for label, taken in times.items()
    }
    machine = {
        "device": "cpu",
        "device_name": changes.get("device_name", "Xeon"),
        "threads": 2,
        "versions": changes.get("versions", VERSIONS),
    }
    return {"variants": variants, "machine": machine, "dims": changes.get("dims", {}), "notes": []}


def keep_one(
    url: str | None = None,
    label: str = "as loaded",
    times: list[float] | None = None,
    origin: RunOrigin | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Keep a measurement of one variant; its record."""
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
