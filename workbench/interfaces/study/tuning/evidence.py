"""The evidence of a tuning: the numbers of each candidate, and which candidates are non-dominated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from workbench.interfaces.study.tuning.graphs import CandidateGraph
from workbench.interfaces.study.tuning.halving import Dropped
from workbench.interfaces.study.tuning.last_run import LastRun
from workbench.interfaces.study.tuning.measuring import BatchTimes
from workbench.interfaces.study.tuning.pipelines import AS_IT_IS, Configuration
from workbench.run.measurement.statistics import Ratio, spread


@dataclass(frozen=True)
class Evidence:
    """The results of a candidate; a number that is not known is None.

    graph:      the first digits of the SHA-256 of its file. file_bytes: the size of that file,
                which has no entries on what made each node.
    median_ms, min_ms: of the last run, in which the finalists and the original were measured interleaved; None for
                others, since medians of different moments cannot be compared.
    runs:       the number of its runs in the last run, or in the last round in which it was measured.
    ratio:      to the best, with its 95 % interval; of latencies, peaks or file sizes, by the objective. Of latencies
                it is from the same runs. busy: whether something else ran meanwhile, so that it means little.
    latency_ratio: of latencies, to the best; None if it was not measured together with the best, or on a busy machine.
    peak_bytes: the peak of one run. Peaks are comparable only if `peak_counted`, what they count, is the same.
    original:   whether it is the model as it is, with which the best is compared.
    dropped_in: the round after which it was dropped; 0: before the rounds; None: it remained to the end.
    why:        the reason why it was dropped, or "".
    pareto:     whether it is non-dominated: no other measured candidate is at least as good in latency, memory and
                error, and better in one of them.
    """

    label: str
    backend: str
    dtype: str
    pipeline: str
    graph: str = ""
    file_bytes: int | None = None
    median_ms: float | None = None
    min_ms: float | None = None
    runs: int = 0
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    latency_ratio: float | None = None
    busy: bool = False
    peak_bytes: int | None = None
    peak_counted: str = ""
    max_rel_error: float | None = None
    original: bool = False
    dropped_in: int | None = None
    why: str = ""
    pareto: bool = False

    @property
    def measured_in(self) -> str:
        """The run from which its numbers are: "last run", "round 2" or "its last round"; "" if it was not measured."""
        if self.median_ms is not None:
            return "last run"
        if self.ratio is None or self.dropped_in == 0:
            return ""
        return "its last round" if self.dropped_in is None else f"round {self.dropped_in}"

    @property
    def result(self) -> str:
        """Its part in the result, in words; not for the best."""
        if self.original:
            return "the original" if self.pipeline == AS_IT_IS else "the original, which these passes leave as it is"
        return self.why or "remained at the end"

    def row(self) -> dict[str, Any]:
        return asdict(self)


def evidence_of(
    candidates: Sequence[Configuration],
    graphs: Mapping[str, CandidateGraph],
    times: Mapping[str, BatchTimes],
    ratios: Mapping[str, Ratio],
    latency_ratios: Mapping[str, Ratio],
    dropped: Mapping[str, Dropped],
    last_run: LastRun | None,
    best: str,
) -> tuple[Evidence, ...]:
    """The evidence of each candidate: the best, the others of the last run, those that remained, the last dropped.

    graphs: by pipeline label; all others by candidate label.
    times:  of the last batch with it. ratios, latency_ratios: see `Evidence`.
    A candidate that is neither in `dropped` nor in `ratios` was not measured.
    """
    entries = []
    for candidate in candidates:
        label = candidate.label
        entry = _evidence(candidate, graphs.get(candidate.pipeline.label), times.get(label))
        entry = _with_ratios(entry, ratios.get(label), latency_ratios.get(label))
        drop = dropped.get(label)
        if drop is None and label not in ratios:
            drop = Dropped(0, "it was not measured: the tuning ended before that")
        if drop is not None and label != best:
            entry = replace(entry, dropped_in=drop.round, why=drop.why)
        entries.append(entry if last_run is None else _with_last_run(entry, last_run))
    return tuple(sorted(_with_pareto(entries), key=lambda entry: _rank(entry, best)))


def _rank(entry: Evidence, best: str) -> tuple[bool, bool, float, float]:
    rounds = float("inf") if entry.dropped_in is None or entry.median_ms is not None else float(entry.dropped_in)
    ratio = float("inf") if entry.ratio is None else entry.ratio
    return entry.label != best, entry.median_ms is None, -rounds, ratio


def _evidence(candidate: Configuration, result: CandidateGraph | None, times: BatchTimes | None) -> Evidence:
    verdict = None if result is None else result.verdict
    entry = Evidence(
        candidate.label,
        candidate.backend,
        candidate.dtype,
        candidate.pipeline.label,
        "" if result is None else result.digest[:12],
        None if result is None else result.bytes,
        max_rel_error=None if verdict is None else verdict.max_rel_error,
    )
    if times is None:
        return entry
    return replace(
        entry,
        runs=len(times.times_ms),
        peak_bytes=times.peak_bytes,
        peak_counted=times.peak_counted,
        max_rel_error=entry.max_rel_error if times.max_rel_error is None else times.max_rel_error,
    )


def _with_ratios(entry: Evidence, ratio: Ratio | None, latency_ratio: Ratio | None) -> Evidence:
    if ratio is not None:
        low, high, busy = ratio.ratio_low, ratio.ratio_high, ratio.ratio_busy
        entry = replace(entry, ratio=ratio.ratio, ratio_low=low, ratio_high=high, busy=busy)
    if latency_ratio is None or latency_ratio.ratio_busy:
        return entry
    return replace(entry, latency_ratio=latency_ratio.ratio)


def _with_last_run(entry: Evidence, last_run: LastRun) -> Evidence:
    times = last_run.times.get(entry.label)
    if times is None:
        return entry
    spread_ = spread(times.times_ms)
    return replace(
        entry,
        median_ms=spread_.median_ms,
        min_ms=spread_.min_ms,
        runs=len(times.times_ms),
        original=entry.label == last_run.original,
    )


def _with_pareto(results: Sequence[Evidence]) -> list[Evidence]:
    """The entries, with `pareto` set for those that have a latency and are non-dominated."""
    measured = [entry for entry in results if entry.latency_ratio is not None]
    return [
        replace(
            entry, pareto=entry.latency_ratio is not None and not any(dominates(other, entry) for other in measured)
        )
        for entry in results
    ]


def dominates(a: Evidence, b: Evidence) -> bool:
    """Whether a is at least as good as b in latency, memory and error, and better in one.

    If their peaks count different things, neither dominates the other.
    """
    if a.peak_counted != b.peak_counted:
        return False
    pairs = [(a.latency_ratio, b.latency_ratio), (a.peak_bytes, b.peak_bytes), (a.max_rel_error, b.max_rel_error)]
    values = [(x or 0.0, y or 0.0) for x, y in pairs]
    return all(x <= y for x, y in values) and any(x < y for x, y in values)
