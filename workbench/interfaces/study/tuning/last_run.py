"""The last run of a tuning: the finalists and the original, interleaved. A recipe's medians are from this run alone.

Medians of earlier rounds are of other moments, at which the machine may have been slower or faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from workbench.interfaces.study.tuning.graphs import CandidateGraph
from workbench.interfaces.study.tuning.halving import MAX_ITERATIONS, Standing
from workbench.interfaces.study.tuning.latency import Arms
from workbench.interfaces.study.tuning.measuring import BatchMeasurer, BatchTimes
from workbench.interfaces.study.tuning.pipelines import AS_IT_IS, RUNTIME
from workbench.run.measurement.statistics import Ratio, ratio


@dataclass(frozen=True)
class LastRun:
    """The times of the finalists and of the original, by label, each with as many iterations.

    fastest:  that with the least median; on a busy machine, with the least minimum. ratios: of medians to its.
    original: the label of the original; None if it did not run. notes: on a machine that was busy meanwhile.
    """

    times: Mapping[str, BatchTimes]
    fastest: str
    ratios: Mapping[str, Ratio]
    original: str | None
    notes: tuple[str, ...]


def measured_last(
    standing: Standing, originals: Sequence[str], measurer: BatchMeasurer, batch_size: int
) -> LastRun | None:
    """The last run of those that may be the fastest, and of the original; None if none of them runs.

    At most `batch_size` models are measured.

    originals: from `originals_of`; the first that has not failed is measured. Raises BudgetOverError.
    """
    runs = [label for label in originals if label not in measurer.results or not measurer.results[label].failed]
    ratios = standing.ratios
    as_fast = [
        one for one in standing.remaining if one == standing.best or (one in ratios and ratios[one].ratio_low <= 1)
    ]
    finalists = [label for label in as_fast if label not in runs[:1]]
    answers = measurer([*finalists[: batch_size - 1], *runs[:1]], MAX_ITERATIONS)
    times = {
        label: replace(measurer.results[label], times_ms=answer)
        for label, answer in answers.items()
        if not isinstance(answer, str) and answer
    }
    if not times:
        return None
    was_busy = any(one.busy for one in times.values())
    typical = min if was_busy else median  # the notes advise the minimum on a busy machine
    fastest = min(times, key=lambda label: typical(times[label].times_ms))
    best = times[fastest]
    compared = {label: ratio(one.times_ms, best.times_ms, one.busy or best.busy) for label, one in times.items()}
    original = next((label for label in runs[:1] if label in times), None)
    return LastRun(times, fastest, compared, original, measurer.notes)


def originals_of(arms: Arms, graphs: Mapping[str, CandidateGraph], backend: str) -> list[str]:
    """The candidates that are the original: in ONNX Runtime, then in `backend`. graphs: by pipeline label."""
    original = graphs.get(AS_IT_IS)
    if original is None:
        return []
    executions = dict.fromkeys([(RUNTIME, "float32"), (backend, "float32")])
    return [
        label
        for execution in executions
        for label, (candidate, graph) in arms.items()
        if candidate.execution == execution and graph.digest == original.digest
    ]
