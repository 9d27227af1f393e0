"""The differences of two kept runs: their settings as text, their times as a ratio."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import reading
from workbench.run.measurement.statistics import RESAMPLES, Ratio, interval, is_busy, ratio, spread_shows_load
from workbench.run.records.store import RecordsError, Run, records_of

_SETTINGS = {"device_name": "device", "threads": "threads", "backend": "backend", "dtype": "precision"}


def kept_times(runs: Sequence[Run], url: str | None = None) -> dict[int, list[float]]:
    """For each run id, the times of single runs of the model, in milliseconds. Raises RecordsError."""
    results = {}
    for id_, record in records_of(runs, url).items():
        with reading(f"the record of run {id_}", RecordsError, "delete that row of the kept runs"):
            results[id_] = [float(time) for time in next(iter(record["variants"].values()))["times_ms"]]
            if not results[id_]:
                raise ValueError("no times")
    return results


def differences(first: Run, other: Run) -> tuple[str, ...]:
    """The settings that differ between `first` and `other`, each as a short text; time and label are ignored."""
    return tuple(_differences(first, other))


def _differences(first: Run, other: Run) -> Iterator[str]:
    if first.model_hash != other.model_hash:
        yield f"another model file, {other.model_hash[:12]} instead of {first.model_hash[:12]}"
    if first.pipeline != other.pipeline:
        yield f"another pipeline, {_pipeline_change(first.pipeline, other.pipeline)}"
    for name, setting in _SETTINGS.items():
        after, before = getattr(other, name), getattr(first, name)
        if after != before:
            yield f"{setting} {after} instead of {before}"
    yield from _by_key(first.dims, other.dims)
    yield from _by_key(first.versions, other.versions)


def _by_key(first: Mapping[str, object], other: Mapping[str, object]) -> Iterator[str]:
    for key in dict.fromkeys((*first, *other)):
        after, before = other.get(key, "none"), first.get(key, "none")
        if after != before:
            yield f"{key} {after} instead of {before}"


def _pipeline_change(first: str, other: str) -> str:
    """The arguments of the command that were added and removed; passes are compared one by one."""
    if not first:
        return "an optimized model instead of as it is"
    if not other:
        return "the model as it is instead of an optimized one"
    before, after = (re.split(r"[ ,]+", command) for command in (first, other))
    new, removed = (
        [name_shown for name_shown in after if name_shown not in before],
        [name_shown for name_shown in before if name_shown not in after],
    )
    changes = [
        f"{preposition} {' '.join(arguments)}"
        for preposition, arguments in (("with", new), ("without", removed))
        if arguments
    ]
    return ", ".join(changes) or "the same arguments in another order"


def ratio_of(first: Run, other: Run, times_ms: Mapping[int, Sequence[float]]) -> Ratio:
    """The ratio of `other` to `first`, below 1 if `other` is faster.

    times_ms: by the runs' ids. Runs measured together are resampled turn by turn, others independently.
    """
    after, before = times_ms[other.id], times_ms[first.id]
    busy = was_busy(first, before) or was_busy(other, after)
    if first.measurement == other.measurement:
        return ratio(after, before, busy)
    low, high = interval(_medians(after, 0) / _medians(before, 1))
    return Ratio(float(np.median(after) / np.median(before)), low, high, busy)


def was_busy(run: Run, times_ms: Sequence[float]) -> bool:
    """Whether something else ran on the device, as the spread of the run's times shows."""
    return spread_shows_load(run.device, run.backend) and is_busy(times_ms)


def _medians(times_ms: Sequence[float], seed: int) -> Any:
    """Medians of resampled times, [RESAMPLES]."""
    resampled = np.random.default_rng(seed).choice(np.asarray(times_ms), (RESAMPLES, len(times_ms)))
    return np.median(resampled, axis=1)


def reliability(first: Run, other: Run) -> str:
    """A sentence on how far the ratio of two runs can be trusted."""
    if first.model_hash != other.model_hash:
        return "They used different model files, so the ratio depends on the models as well as on how they ran."
    if first.dims != other.dims:
        return "They computed on other sizes, so the ratio does not compare speed alone."
    if first.measurement == other.measurement:
        return "They were measured together, interleaved, so a busy moment affected both."
    return "They were measured at different times: the interval does not include changes of the machine in between."
