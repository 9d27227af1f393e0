"""The search for the least latency: which candidates are opened at all, since opening takes longer than measuring.

A first look runs the plainest pipeline of each backend. Then the backends follow one by one, the fastest first, and
in each a pipeline is opened only if what it adds passes to gains: first the presets, then the best of them with a
layout or with fused patterns, then with both. What is left goes through successive halving.

Three assumptions save the time, and `benchmarks/tune.py` says how far they hold. Passes that gain after one preset
gain after the others too. A list of passes gains less than SPAN over the plainest in one backend, and less than
SPAN_OF_PRESETS over the best preset; in `torch-compile`, which itself simplifies, fuses and lays out, less than
SPANS_OF_COMPILER. Backends that run operator by operator have the same kernels, and their fastest pipelines differ by
less than SPAN_OF_TWINS. A floor by the roofline is not used: on a CPU small tensors stay in caches that are faster than
its memory.

Source: coordinate descent, as in torch/_inductor/runtime/coordinate_descent_tuner.py, over presets and what they add.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from workbench.run.measurement.statistics import Ratio
from workbench.study.tuning.graphs import MadeGraph
from workbench.study.tuning.halving import (
    FIRST_TURNS,
    ComparedArms,
    Dropped,
    Measure,
    NothingRanError,
    Standing,
    after_round,
    compare_arms,
    halve,
    quotient,
    slower_words,
)
from workbench.study.tuning.pipelines import EXECUTED, Configuration, NamedPasses

SPAN, SPAN_OF_PRESETS = 2.0, 1.5
SPANS_OF_COMPILER = 1.25, 1.1
SPAN_OF_TWINS = 1.15
_FEW = 3  # backends that are opened at once in the first look, so that a short budget has a result
_TURNS = 2 * FIRST_TURNS  # of each candidate beside the best so far
Arms = Mapping[str, tuple[Configuration, MadeGraph]]
_Way = tuple[str, str]


def search_latency(arms: Arms, measure: Measure, together: int) -> Iterator[Standing]:
    """Yields the standing after each lot. Raises NothingRanError if all candidates fail."""
    search = _Search(arms, measure, together)
    ways = list(dict.fromkeys(candidate.way for candidate, _ in arms.values()))
    yield from search.compare([search.of(way)[0] for way in ways], together=_FEW)
    search.number = 0  # the first look is no round
    searched: list[_Way] = []
    for way in sorted(ways, key=search.ratio_of_plainest):
        after = next((why for other in searched if (why := search.slower_than_twin(way, other))), None)
        if after is not None:
            search.drop(search.of(way), after)
            continue
        yield from _of_backend(search, way)
        searched.append(way)
    if search.best is None:
        raise NothingRanError(next(iter(search.dropped.values())).why)
    yield from search.compare(search.take_back(search.best))
    left = sorted(search.left, key=lambda label: search.ratios[label].ratio)
    going = after_round(left, search.ratios)  # all have had the turns of a round
    for label, why in going.items():
        search.drop([label], why)
    staying = [label for label in left if label not in going]
    for standing in halve(staying, measure, first_turns=2 * _TURNS, together=together):
        yield search.continued(standing)


def _of_backend(search: _Search, way: _Way) -> Iterator[Standing]:
    """One backend: presets, then level by level what adds to the fastest pipeline so far."""
    plainest, *others = search.of(way)
    span, span_of_presets = SPANS_OF_COMPILER if way[0] == "torch-compile" else (SPAN, SPAN_OF_PRESETS)
    if search.is_dominated(plainest, span):
        search.drop(search.of(way), f"{_slow(search, way, plainest)} on the plainest pipeline, more than passes gain")
        return
    presets = [label for label in others if not search.pipeline(label).more]
    unoptimized = [label for label in presets if search.pipeline(label).preset == "none"]
    yield from search.compare([label for label in presets if label not in unoptimized])
    fastest = search.fastest(way)
    if fastest is None or fastest == plainest:
        yield from search.compare(unoptimized)
        fastest = search.fastest(way)
    else:
        search.drop(unoptimized, f"more passes are faster in {_words(way)}, so that none would not be")
    if fastest is None:
        yield from search.compare(search.waiting(way))  # no preset runs; others may
        return
    if search.is_dominated(fastest, span_of_presets):
        search.drop(
            search.waiting(way), f"{_slow(search, way, fastest)} with the best preset, more than the rest gains"
        )
        return
    base = search.fastest(way, but=unoptimized)  # to a model as it is nothing is added
    gaining = [] if base is None else [base]
    while added := [label for label in search.waiting(way) if any(search.adds_to(label, one) for one in gaining)]:
        yield from search.compare(added)
        gaining = [one for one in added if search.gains(one, fastest)]
    search.drop(search.waiting(way), f"what it adds to gains nothing in {_words(way)}")


@dataclass
class _Search:
    """ratios: of all that ran, to the best. number: of the rounds so far."""

    arms: Arms
    measure: Measure
    together: int
    best: str | None = None
    ratios: dict[str, Ratio] = field(default_factory=dict)
    dropped: dict[str, Dropped] = field(default_factory=dict)
    number: int = 0

    def of(self, way: _Way) -> list[str]:
        """The candidates of a backend, the plainest first."""
        return [label for label, (candidate, _) in self.arms.items() if candidate.way == way]

    def pipeline(self, label: str) -> NamedPasses:
        return self.arms[label][0].pipeline

    def adds_to(self, label: str, other: str) -> bool:
        pipeline, base = self.pipeline(label), self.pipeline(other)
        return pipeline.preset == base.preset and pipeline.more[:-1] == base.more and bool(pipeline.more)

    @property
    def left(self) -> list[str]:
        """Those that ran and may still be the best."""
        return [label for label in self.ratios if label not in self.dropped]

    def waiting(self, way: _Way) -> list[str]:
        """Those of a backend that were neither measured nor dropped."""
        return [label for label in self.of(way) if label not in self.ratios and label not in self.dropped]

    def fastest(self, way: _Way, but: Sequence[str] = ()) -> str | None:
        """Of the backend, among those that ran, but for some."""
        ran = [label for label in self.of(way) if label in self.ratios and label not in but]
        return min(ran, key=lambda label: self.ratios[label].ratio, default=None)

    def ratio_of_plainest(self, way: _Way) -> float:
        result = self.ratios.get(self.of(way)[0])
        return math.inf if result is None else result.ratio

    def gains(self, label: str, other: str) -> bool:
        """Whether it ran, and faster than another, as far as is known."""
        return label in self.ratios and other in self.ratios and self.ratios[label].ratio < self.ratios[other].ratio

    def is_dominated(self, label: str, span: float) -> bool:
        result = self.ratios.get(label)
        return result is not None and result.ratio_low > span

    def slower_than_twin(self, way: _Way, other: _Way) -> str | None:
        """Why a backend need not be searched behind another with the same kernels; None if it may have the best."""
        (backend, dtype), (other_backend, other_dtype) = way, other
        if dtype != other_dtype or not {backend, other_backend} <= {*EXECUTED} or self.of(way)[0] not in self.ratios:
            return None
        ran = [label for label in self.of(other) if label in self.ratios]
        if not ran or not all(self.is_dominated(label, SPAN_OF_TWINS) for label in ran):
            return None
        return (
            f"{_words(way)} runs the kernels of {_words(other)}, which is slower with every pipeline, and by too much"
        )

    def take_back(self, best: str) -> list[str]:
        """What the best adds to its preset, after the presets that were not slower for sure."""
        way, chosen = self.arms[best][0].way, self.pipeline(best)
        results = {
            self.pipeline(one).preset: self.ratios.get(one) for one in self.of(way) if not self.pipeline(one).more
        }
        own = results.get(chosen.preset)
        able = [preset for preset, other in results.items() if own and other and other.ratio_low <= own.ratio_high]
        taken = [
            one
            for one in self.of(way)
            if one not in self.ratios and self.pipeline(one).more == chosen.more and self.pipeline(one).preset in able
        ]
        self.dropped = {label: why for label, why in self.dropped.items() if label not in taken}
        return taken

    def drop(self, labels: Sequence[str], why: str) -> None:
        self.dropped |= {label: Dropped(max(self.number, 1), why) for label in labels}

    def compare(self, labels: Sequence[str], together: int = 0) -> Iterator[Standing]:
        """Measure them beside the best so far; those that fail, and those that are slower for sure, go."""
        if not labels:
            return
        self.number += 1
        arms = [*([] if self.best is None else [self.best]), *labels]
        try:
            for result in compare_arms(arms, self.measure, _TURNS, together or self.together):
                self._heard(result)
                yield self._standing()
        except NothingRanError as error:
            self.drop(labels, f"it does not run: {error}")
            return
        for label, to_best in self.ratios.items():
            slower = slower_words(to_best)
            if slower is not None and label not in self.dropped:
                self.drop([label], slower)

    def _heard(self, compared_arms: ComparedArms) -> None:
        before, self.best = self.best, compared_arms.best
        if before is not None and before != compared_arms.best and before in compared_arms.ratios:
            step = quotient(_ONE, compared_arms.ratios[before])  # of the best now to the best before
            self.ratios = {label: quotient(ratio, step) for label, ratio in self.ratios.items()}
        self.ratios |= compared_arms.ratios
        for label, why in compared_arms.failed.items():
            self.ratios.pop(label, None)
            self.drop([label], f"it does not run: {why}")
        self.dropped.pop(compared_arms.best, None)

    def _standing(self) -> Standing:
        assert self.best is not None  # something ran
        going = [label for label in self.arms if label not in self.dropped and label != self.best]
        return Standing(self.number, _TURNS, self.best, dict(self.ratios), (self.best, *going), dict(self.dropped))

    def continued(self, standing: Standing) -> Standing:
        """The standing of those that are left as one of all."""
        own = {label: Dropped(out.round + self.number, out.why) for label, out in standing.dropped.items()}
        return replace(standing, round=standing.round + self.number, dropped={**self.dropped, **own})


_ONE = Ratio(1.0, 1.0, 1.0, False)


def _words(way: _Way) -> str:
    return " in ".join(way)


def _slow(search: _Search, way: _Way, label: str) -> str:
    result = search.ratios[label]
    return f"{_words(way)} takes {result.ratio:,.2f} times the best so far (at least {result.ratio_low:,.2f})"
