"""The search for the least latency. It opens few candidates, since opening one takes longer than measuring it.

First, the plainest pipeline of each backend is compared. Then the backends are searched one by one, the fastest first.
In each, the presets are compared, then each addition (a layout, fused patterns) to the fastest preset that has it, then
two of them. A pipeline is opened only if the pipeline that it extends was a gain. What remains goes through successive
halving.

Four assumptions save time; `benchmarks/tuning.py` measures how far they hold:

- passes that are a gain after one preset are a gain after the others;
- in one backend, no pipeline is SPAN times faster than the plainest, or SPAN_OF_PRESETS times than the fastest preset;
- in `torch-compile`, which itself simplifies, fuses and chooses layouts, these factors are SPANS_OF_COMPILER;
- backends that run operator by operator have the same kernels, so their fastest pipelines differ by less than
  SPAN_OF_SAME_KERNELS.

A lower bound by the roofline is not used: on a CPU, small tensors stay in caches that are faster than memory.
The method is coordinate descent, as in torch/_inductor/runtime/coordinate_descent_tuner.py, over presets and additions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from workbench.interfaces.study.tuning.graphs import CandidateGraph
from workbench.interfaces.study.tuning.halving import (
    FIRST_ITERATIONS,
    ComparedArms,
    Dropped,
    Measure,
    NothingRanError,
    Standing,
    after_round,
    compare_arms,
    halve,
    quotient,
    slower_text,
)
from workbench.interfaces.study.tuning.pipelines import EXECUTED, Configuration, NamedPasses
from workbench.run.measurement.statistics import Ratio

SPAN, SPAN_OF_PRESETS = 2.0, 1.5
SPANS_OF_COMPILER = 1.25, 1.1
SPAN_OF_SAME_KERNELS = 1.15
_FIRST_BATCH_SIZE = 3  # backends open at once in the first comparison; few, so that a short budget has a result
_ITERATIONS = 2 * FIRST_ITERATIONS  # iterations of each comparison with the best candidate so far
Arms = Mapping[str, tuple[Configuration, CandidateGraph]]
Execution = tuple[str, str]  # backend and element type


def search_latency(arms: Arms, measure: Measure, batch_size: int) -> Iterator[Standing]:
    """Search the fastest candidate; yields the standing after each batch. Raises NothingRanError if all fail."""
    search = _Search(arms, measure, batch_size)
    executions = list(dict.fromkeys(candidate.execution for candidate, _ in arms.values()))
    yield from search.compare(
        [search.candidates_of(execution)[0] for execution in executions], batch_size=_FIRST_BATCH_SIZE
    )
    search.number = 0  # the first comparison does not count as a round
    searched: list[Execution] = []
    for execution in sorted(executions, key=search.ratio_of_plainest):
        reason = next((why for other in searched if (why := search.same_kernels_reason(execution, other))), None)
        if reason is not None:
            search.drop(search.candidates_of(execution), reason)
            continue
        yield from _search_backend(search, execution)
        searched.append(execution)
    if search.best is None:
        raise NothingRanError(next(iter(search.dropped.values())).why)
    yield from search.compare(search.reconsidered(search.best))
    remaining = sorted(search.remaining, key=lambda label: search.ratios[label].ratio)
    dropped_now = after_round(remaining, search.ratios)  # each has had the iterations of a round
    for label, why in dropped_now.items():
        search.drop([label], why)
    survivors = [label for label in remaining if label not in dropped_now]
    for standing in halve(survivors, measure, first_iterations=2 * _ITERATIONS, batch_size=batch_size):
        yield search.with_earlier_rounds(standing)


def _search_backend(search: _Search, execution: Execution) -> Iterator[Standing]:
    """Search one backend: first the presets, then, level by level, what extends the fastest pipelines."""
    plainest, *others = search.candidates_of(execution)
    span, span_of_presets = SPANS_OF_COMPILER if execution[0] == "torch-compile" else (SPAN, SPAN_OF_PRESETS)
    if search.is_slower_than_span(plainest, span):
        slowness = _slowness_text(search, execution, plainest)
        search.drop(
            search.candidates_of(execution), f"{slowness} with the plainest pipeline, more than passes can gain"
        )
        return
    presets = [label for label in others if not search.pipeline(label).more]
    unoptimized = [label for label in presets if search.pipeline(label).preset == "none"]
    yield from search.compare([label for label in presets if label not in unoptimized])
    fastest = search.fastest(execution)
    if fastest is None or fastest == plainest:
        yield from search.compare(unoptimized)
        fastest = search.fastest(execution)
    else:
        where = _execution_text(execution)
        search.drop(unoptimized, f"more passes are faster in {where}, so the unoptimized model was not tried")
    if fastest is None:
        yield from search.compare(search.waiting(execution))  # no preset runs; others may
        return
    if search.is_slower_than_span(fastest, span_of_presets):
        slowness = _slowness_text(search, execution, fastest)
        search.drop(search.waiting(execution), f"{slowness} with the best preset, more than further passes can gain")
        return
    added = search.first_additions(execution)
    while added:
        yield from search.compare(added)
        faster = [one for one in added if search.gains(one, fastest)]
        added = [label for label in search.waiting(execution) if any(search.extends(label, one) for one in faster)]
    search.drop(
        search.waiting(execution), f"the pipeline that it extends gains nothing in {_execution_text(execution)}"
    )


@dataclass
class _Search:
    """The state of a search. ratios: to the best, of all candidates that ran. number: of the current round."""

    arms: Arms
    measure: Measure
    batch_size: int
    best: str | None = None
    ratios: dict[str, Ratio] = field(default_factory=dict)
    dropped: dict[str, Dropped] = field(default_factory=dict)
    number: int = 0

    def candidates_of(self, execution: Execution) -> list[str]:
        """The candidates of a backend and element type, the plainest first."""
        return [label for label, (candidate, _) in self.arms.items() if candidate.execution == execution]

    def pipeline(self, label: str) -> NamedPasses:
        return self.arms[label][0].pipeline

    def extends(self, label: str, other: str) -> bool:
        """Whether a pipeline is another one with one more addition."""
        pipeline, shorter = self.pipeline(label), self.pipeline(other)
        return pipeline.preset == shorter.preset and pipeline.more[:-1] == shorter.more and bool(pipeline.more)

    def first_additions(self, execution: Execution) -> list[str]:
        """What extends a preset by one addition: each addition once, with the fastest preset that has it."""
        presets = [label for label in self.candidates_of(execution) if label in self.ratios]
        first: dict[str, str] = {}
        for preset in sorted(presets, key=lambda label: self.ratios[label].ratio):
            for label in self.waiting(execution):
                if self.extends(label, preset):
                    first.setdefault(self.pipeline(label).more[0], label)
        return list(first.values())

    @property
    def remaining(self) -> list[str]:
        """The candidates that ran and were not dropped."""
        return [label for label in self.ratios if label not in self.dropped]

    def waiting(self, execution: Execution) -> list[str]:
        """The candidates of a backend that were neither measured nor dropped."""
        return [
            label for label in self.candidates_of(execution) if label not in self.ratios and label not in self.dropped
        ]

    def fastest(self, execution: Execution) -> str | None:
        """The fastest candidate of a backend that ran; None if there is none."""
        ran = [label for label in self.candidates_of(execution) if label in self.ratios]
        return min(ran, key=lambda label: self.ratios[label].ratio, default=None)

    def ratio_of_plainest(self, execution: Execution) -> float:
        result = self.ratios.get(self.candidates_of(execution)[0])
        return math.inf if result is None else result.ratio

    def gains(self, label: str, other: str) -> bool:
        """Whether both ran, and `label` was faster."""
        return label in self.ratios and other in self.ratios and self.ratios[label].ratio < self.ratios[other].ratio

    def is_slower_than_span(self, label: str, span: float) -> bool:
        result = self.ratios.get(label)
        return result is not None and result.ratio_low > span

    def same_kernels_reason(self, execution: Execution, other: Execution) -> str | None:
        """Why a backend need not be searched after `other`, which has the same kernels; None if it must be."""
        (backend, dtype), (other_backend, other_dtype) = execution, other
        if (
            dtype != other_dtype
            or not {backend, other_backend} <= {*EXECUTED}
            or self.candidates_of(execution)[0] not in self.ratios
        ):
            return None
        ran = [label for label in self.candidates_of(other) if label in self.ratios]
        if not ran or not all(self.is_slower_than_span(label, SPAN_OF_SAME_KERNELS) for label in ran):
            return None
        return (
            f"{_execution_text(execution)} runs the kernels of {_execution_text(other)}, "
            "whose pipelines are all too slow"
        )

    def reconsidered(self, best: str) -> list[str]:
        """The best candidate's additions to other presets, if these presets were not certainly slower than its own.

        These candidates are no longer dropped.
        """
        execution, chosen = self.arms[best][0].execution, self.pipeline(best)
        results = {
            self.pipeline(one).preset: self.ratios.get(one)
            for one in self.candidates_of(execution)
            if not self.pipeline(one).more
        }
        chosen_ratio = results.get(chosen.preset)
        presets = [
            preset
            for preset, other in results.items()
            if chosen_ratio and other and other.ratio_low <= chosen_ratio.ratio_high
        ]
        labels = [
            one
            for one in self.candidates_of(execution)
            if one not in self.ratios
            and self.pipeline(one).more == chosen.more
            and self.pipeline(one).preset in presets
        ]
        self.dropped = {label: why for label, why in self.dropped.items() if label not in labels}
        return labels

    def drop(self, labels: Sequence[str], why: str) -> None:
        self.dropped |= {label: Dropped(max(self.number, 1), why) for label in labels}

    def compare(self, labels: Sequence[str], batch_size: int = 0) -> Iterator[Standing]:
        """Measure candidates together with the best so far; drops those that fail or are certainly slower."""
        if not labels:
            return
        self.number += 1
        arms = [*([] if self.best is None else [self.best]), *labels]
        try:
            for result in compare_arms(arms, self.measure, _ITERATIONS, batch_size or self.batch_size):
                self._add(result)
                yield self._standing()
        except NothingRanError as error:
            self.drop(labels, f"it does not run: {error}")
            return
        for label, to_best in self.ratios.items():
            slower = slower_text(to_best)
            if slower is not None and label not in self.dropped:
                self.drop([label], slower)

    def _add(self, compared_arms: ComparedArms) -> None:
        before, self.best = self.best, compared_arms.best
        if before is not None and before != compared_arms.best and before in compared_arms.ratios:
            step = quotient(_ONE, compared_arms.ratios[before])  # the ratio of the new best to the previous best
            self.ratios = {label: quotient(ratio, step) for label, ratio in self.ratios.items()}
        self.ratios |= compared_arms.ratios
        for label, why in compared_arms.failed.items():
            self.ratios.pop(label, None)
            self.drop([label], f"it does not run: {why}")
        self.dropped.pop(compared_arms.best, None)

    def _standing(self) -> Standing:
        assert self.best is not None  # something ran
        others = [label for label in self.arms if label not in self.dropped and label != self.best]
        return Standing(
            self.number, _ITERATIONS, self.best, dict(self.ratios), (self.best, *others), dict(self.dropped)
        )

    def with_earlier_rounds(self, standing: Standing) -> Standing:
        """The standing of the final successive halving, with the rounds and dropped candidates before it."""
        later = {label: Dropped(out.round + self.number, out.why) for label, out in standing.dropped.items()}
        return replace(standing, round=standing.round + self.number, dropped={**self.dropped, **later})


_ONE = Ratio(1.0, 1.0, 1.0, False)


def _execution_text(execution: Execution) -> str:
    return " in ".join(execution)


def _slowness_text(search: _Search, execution: Execution, label: str) -> str:
    result = search.ratios[label]
    ratio_text = f"{result.ratio:,.2f} times the best so far (at least {result.ratio_low:,.2f})"
    return f"{_execution_text(execution)} takes {ratio_text}"
