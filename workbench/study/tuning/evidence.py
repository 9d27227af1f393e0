"""What a tuning found out about each candidate, and which of them no other beats in everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from workbench.run.measurement.statistics import spread
from workbench.study.tuning.graphs import MadeGraph
from workbench.study.tuning.halving import Dropped, Standing
from workbench.study.tuning.measuring import LotTimes
from workbench.study.tuning.pipelines import Configuration


@dataclass(frozen=True)
class Evidence:
    """A candidate; None where there is no number.

    graph:        the first digits of the SHA-256 of its file, file_bytes its size.
    median_ms:    of the `runs` of the last round in which it was measured.
    ratio:        to the best of that round: of latencies, peaks or file sizes, as the objective says, with its 95 %
                  interval.
    peak_bytes:   of one run; `peak_counted` says what it counts, and peaks are comparable only if that is the same.
    dropped_in:   the round after which it went; 0: before the rounds; None if it was left at the end. `why`: in words.
    pareto:       whether no other measured candidate is at least as good in latency, memory and error, and better in
                  one.
    """

    label: str
    backend: str
    dtype: str
    pipeline: str
    graph: str = ""
    file_bytes: int | None = None
    median_ms: float | None = None
    runs: int = 0
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    peak_bytes: int | None = None
    peak_counted: str = ""
    max_rel_error: float | None = None
    dropped_in: int | None = None
    why: str = ""
    pareto: bool = False

    def row(self) -> dict[str, Any]:
        return asdict(self)


def evidence_of(
    every: Sequence[Configuration],
    made: Mapping[str, MadeGraph],
    times: Mapping[str, LotTimes],
    standings: Mapping[str, Standing],
    dropped: Mapping[str, Dropped],
    best: str,
) -> tuple[Evidence, ...]:
    """One of each candidate: the best, those that were left, then the others, the last to go first.

    standings: by label, the last one with a ratio of the candidate. dropped: why each is not left; those that are
               neither there nor in a standing were not measured.
    """
    results = [_evidence(c, made.get(c.pipeline.label), times.get(c.label), standings.get(c.label)) for c in every]
    entries = []
    for one in results:
        out = dropped.get(one.label)
        if out is None and one.label not in standings:
            out = Dropped(0, "it was not measured: the tuning ended before")
        entries.append(one if out is None else replace(one, dropped_in=out.round, why=out.why))
    marked = _marked(entries)
    return tuple(sorted(marked, key=lambda one: _rank(one, best)))


def _rank(one: Evidence, best: str) -> tuple[bool, float, float]:
    rounds = float("inf") if one.dropped_in is None else float(one.dropped_in)
    return one.label != best, -rounds, float("inf") if one.ratio is None else one.ratio


def _evidence(
    candidate: Configuration, made: MadeGraph | None, times: LotTimes | None, standing: Standing | None
) -> Evidence:
    verdict = None if made is None else made.verdict
    one = Evidence(
        candidate.label,
        candidate.backend,
        candidate.dtype,
        candidate.pipeline.label,
        "" if made is None else made.digest[:12],
        None if made is None else made.bytes,
        max_rel_error=None if verdict is None else verdict.max_rel_error,
    )
    if times is not None:
        one = replace(
            one,
            median_ms=spread(times.times_ms).median_ms if times.times_ms else None,
            runs=len(times.times_ms),
            peak_bytes=times.peak_bytes,
            peak_counted=times.peak_counted,
            max_rel_error=one.max_rel_error if times.max_rel_error is None else times.max_rel_error,
        )
    if standing is not None:
        ratio = standing.ratios[candidate.label]
        one = replace(one, ratio=ratio.ratio, ratio_low=ratio.ratio_low, ratio_high=ratio.ratio_high)
    return one


def _marked(results: Sequence[Evidence]) -> list[Evidence]:
    """With the non-dominated ones marked, of those that have a latency."""
    measured = [one for one in results if one.median_ms is not None]
    return [
        replace(one, pareto=one.median_ms is not None and not any(dominates(other, one) for other in measured))
        for one in results
    ]


def dominates(a: Evidence, b: Evidence) -> bool:
    """Whether a is at least as good as b in latency, memory and error, and better in one.

    Peaks that count different things cannot be compared, so that neither of two such candidates dominates.
    """
    if a.peak_counted != b.peak_counted:
        return False
    pairs = [(a.median_ms, b.median_ms), (a.peak_bytes, b.peak_bytes), (a.max_rel_error, b.max_rel_error)]
    known = [(x or 0.0, y or 0.0) for x, y in pairs]
    return all(x <= y for x, y in known) and any(x < y for x, y in known)
