"""The differences of two kept runs: their settings in words, their times as a ratio."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import reading
from workbench.run.measurement.statistics import RESAMPLES, Ratio, interval, is_busy, ratio, tells_of_others
from workbench.run.records.store import RecordsError, Run, records_of

_SETTINGS = {"device_name": "device", "threads": "threads", "backend": "backend", "dtype": "precision"}


def kept_times(runs: Sequence[Run], url: str | None = None) -> dict[int, list[float]]:
    """By the runs' ids, the times of single runs of the model, in milliseconds. Raises RecordsError."""
    results = {}
    for id_, record in records_of(runs, url).items():
        with reading(f"the record of run {id_}", RecordsError, "delete that row of the kept runs"):
            results[id_] = [float(time) for time in next(iter(record["variants"].values()))["times_ms"]]
            if not results[id_]:
                raise ValueError("no times")
    return results


def differences(first: Run, other: Run) -> tuple[str, ...]:
    """The settings that differ between `first` and `other`, in a few words each; time and label are ignored."""
    return tuple(_differences(first, other))


def _differences(first: Run, other: Run) -> Iterator[str]:
    if first.model_hash != other.model_hash:
        yield f"another model file, {other.model_hash[:12]} instead of {first.model_hash[:12]}"
    if first.pipeline != other.pipeline:
        yield f"another pipeline, {_pipeline_words(first.pipeline, other.pipeline)}"
    for name, word in _SETTINGS.items():
        ours, theirs = getattr(other, name), getattr(first, name)
        if ours != theirs:
            yield f"{word} {ours} instead of {theirs}"
    yield from _by_key(first.dims, other.dims)
    yield from _by_key(first.versions, other.versions)


def _by_key(first: Mapping[str, object], other: Mapping[str, object]) -> Iterator[str]:
    for key in dict.fromkeys((*first, *other)):
        ours, theirs = other.get(key, "none"), first.get(key, "none")
        if ours != theirs:
            yield f"{key} {ours} instead of {theirs}"


def _pipeline_words(first: str, other: str) -> str:
    """The arguments of the command that were added and removed; passes are compared one by one."""
    if not first:
        return "an optimized model instead of as it is"
    if not other:
        return "the model as it is instead of an optimized one"
    before, after = (re.split(r"[ ,]+", command) for command in (first, other))
    new, removed = [word for word in after if word not in before], [word for word in before if word not in after]
    words = [f"{how} {' '.join(which)}" for how, which in (("with", new), ("without", removed)) if which]
    return ", ".join(words) or "the same words in another order"


def ratio_of(first: Run, other: Run, times_ms: Mapping[int, Sequence[float]]) -> Ratio:
    """The ratio of `other` to `first`, below 1 if `other` is faster.

    times_ms: by the runs' ids. Runs measured together are resampled turn by turn, others independently.
    """
    ours, theirs = times_ms[other.id], times_ms[first.id]
    runs = ((first, theirs), (other, ours))
    busy = any(tells_of_others(run.device, run.backend) and is_busy(times) for run, times in runs)
    if first.measurement == other.measurement:
        return ratio(ours, theirs, busy)
    low, high = interval(_medians(ours, 0) / _medians(theirs, 1))
    return Ratio(float(np.median(ours) / np.median(theirs)), low, high, busy)


def _medians(times_ms: Sequence[float], seed: int) -> Any:
    """Medians of resampled times, [RESAMPLES]."""
    drawn = np.random.default_rng(seed).choice(np.asarray(times_ms), (RESAMPLES, len(times_ms)))
    return np.median(drawn, axis=1)


def meaning(first: Run, other: Run) -> str:
    """A sentence on how far the ratio of two runs can be trusted."""
    if first.model_hash != other.model_hash:
        return "They are of different model files, so the ratio is of both what was done and what was computed."
    if first.dims != other.dims:
        return "They computed on other sizes, so the ratio is not of speed alone."
    if first.measurement == other.measurement:
        return "They were measured together, by turns, so a busy moment met both."
    return "They were measured at different times: what the machine did in between is not in the interval."
