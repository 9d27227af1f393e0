"""Successive halving: finds the fastest of several arms, with more and more iterations for fewer and fewer arms.

An arm is anything that can be timed; this module knows no graph. An iteration is one run of each arm of a batch.

K. Jamieson, A. Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization", AISTATS 2016. Here
an arm is also dropped as soon as the interval of its ratio to the best lies above 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.run.measurement.statistics import MIN_ITERATIONS, Ratio, ratio

FIRST_ITERATIONS, MAX_ITERATIONS = 6, 100  # of each arm in the first round and in the last
BATCH_SIZE = 8  # arms in one batch, which are all open at once and measured interleaved
WITHIN = 0.03  # the search ends when no remaining arm can be faster than the best by more than this share

Measure = Callable[[Sequence[str], int], Mapping[str, Sequence[float] | str]]


class NothingRanError(Exception):
    """Every arm failed."""


@dataclass(frozen=True)
class Dropped:
    """The round after which an arm was dropped, from 1, and the reason."""

    round: int
    why: str


@dataclass(frozen=True)
class ComparedArms:
    """A comparison of arms with the same number of iterations.

    ratios: by arm, of its times to those of `best`. failed: by arm, why it has no times.
    """

    best: str
    ratios: Mapping[str, Ratio]
    failed: Mapping[str, str]


@dataclass(frozen=True)
class Standing:
    """The state of the search after a batch.

    ratios:  to the best, of the arms measured in this round so far.
    remaining: the arms that go on, the best first; until the round is `complete`, all arms of the round.
    dropped: in this round and before.
    settled: whether no remaining arm can be faster than the best by more than WITHIN.
    """

    round: int
    iterations: int
    best: str
    ratios: Mapping[str, Ratio]
    remaining: tuple[str, ...]
    dropped: Mapping[str, Dropped]
    complete: bool = False
    settled: bool = False


def quotient(a: Ratio, b: Ratio) -> Ratio:
    """a/b, where both are ratios to the same arm from different batches; the interval is the worst case."""
    return Ratio(
        a.ratio / b.ratio, a.ratio_low / b.ratio_high, a.ratio_high / b.ratio_low, a.ratio_busy or b.ratio_busy
    )


def compare_arms(
    arms: Sequence[str], measure: Measure, iterations: int = FIRST_ITERATIONS, batch_size: int = BATCH_SIZE
) -> Iterator[ComparedArms]:
    """Measure all arms in batches, each with the best arm so far; yields the comparison after each batch.

    measure:    takes arms and a number of iterations; returns by arm its times, equally many and interleaved, or a
                sentence that says why there are none.
    batch_size: arms in one batch, at least 2. Raises NothingRanError.
    """
    best, *waiting = arms
    ratios: dict[str, Ratio] = {}
    failed: dict[str, str] = {}
    while True:
        answers = measure([best, *waiting[: batch_size - 1]], iterations)
        failed |= {arm: answer for arm, answer in answers.items() if isinstance(answer, str)}
        if best in failed:  # it may have run in batches before: all are measured again, with another best
            runnable = [arm for arm in arms if arm not in failed]
            if not runnable:
                raise NothingRanError(failed[best])
            best, *waiting = runnable
            ratios = {}
            continue
        times = {arm: answer for arm, answer in answers.items() if not isinstance(answer, str)}
        waiting = waiting[batch_size - 1 :]
        best, ratios = _with_batch(ratios, times, best)
        yield ComparedArms(best, ratios, dict(failed))
        if not waiting:
            return


def _with_batch(
    ratios: Mapping[str, Ratio], times: Mapping[str, Sequence[float]], control: str
) -> tuple[str, dict[str, Ratio]]:
    """The best arm after a batch, and all ratios to it.

    ratios: of earlier batches, to `control`, an arm of this batch.
    """
    best = min(times, key=lambda arm: ratio(times[arm], times[control]).ratio)
    step = ratio(times[best], times[control])
    others = {arm: result for arm, result in ratios.items() if arm not in times}
    if best != control:
        others = {arm: quotient(result, step) for arm, result in others.items()}
    return best, {**others, **{arm: ratio(arm_times, times[best]) for arm, arm_times in times.items()}}


def halve(
    arms: Sequence[str],
    measure: Measure,
    *,
    first_iterations: int = FIRST_ITERATIONS,
    max_iterations: int = MAX_ITERATIONS,
    batch_size: int = BATCH_SIZE,
) -> Iterator[Standing]:
    """Successive halving; yields the standing after each batch.

    Each round has twice the iterations of the one before. The last two arms have one round of `max_iterations`, since
    opening them again would take time too. After a round these arms are dropped: those that failed, those whose
    interval of the ratio to the best lies above 1, and, of more than two, the slower half. The search ends when one arm
    remains, when no remaining arm can be faster than the best by more than WITHIN, or after a round of
    `max_iterations`. The last standing has the best arm and the reason for every other. The same measurements give the
    same standings. Raises NothingRanError if all arms fail.
    """
    remaining, dropped, iterations, number = list(arms), dict[str, Dropped](), first_iterations, 1
    while True:
        result = None
        for result in compare_arms(remaining, measure, iterations, batch_size):
            yield Standing(number, iterations, result.best, result.ratios, _by_ratio(result, remaining), dict(dropped))
        assert result is not None  # there is at least one batch
        dropped |= {arm: Dropped(number, f"it does not run: {why}") for arm, why in result.failed.items()}
        order = _by_ratio(result, result.ratios)
        dropped_now = after_round(order, result.ratios)
        dropped |= {arm: Dropped(number, why) for arm, why in dropped_now.items()}
        remaining = [arm for arm in order if arm not in dropped_now]
        others = [result.ratios[arm] for arm in remaining if arm != result.best]
        settled = not others or (iterations >= MIN_ITERATIONS and all(r.ratio_low >= 1 - WITHIN for r in others))
        yield Standing(number, iterations, result.best, result.ratios, tuple(remaining), dict(dropped), True, settled)
        if settled or iterations >= max_iterations:
            return
        iterations, number = max_iterations if len(remaining) <= 2 else min(2 * iterations, max_iterations), number + 1


def _by_ratio(compared_arms: ComparedArms, arms: Sequence[str] | Mapping[str, Ratio]) -> tuple[str, ...]:
    """The arms by increasing ratio; those without a ratio come last, in their order."""
    return tuple(
        sorted(arms, key=lambda arm: compared_arms.ratios[arm].ratio if arm in compared_arms.ratios else float("inf"))
    )


def after_round(order: Sequence[str], ratios: Mapping[str, Ratio]) -> dict[str, str]:
    """For each arm, why it is dropped after a round. order: the arms by increasing ratio; the first one stays."""
    kept_count = len(order) if len(order) <= 2 else -(-len(order) // 2)
    dropped_now = {}
    for index, arm in enumerate(order[1:], 1):
        slower = slower_text(ratios[arm])
        if slower is not None:
            dropped_now[arm] = slower
        elif index >= kept_count:
            dropped_now[arm] = f"it is in the slower half, with {_ratio_text(ratios[arm])}"
    return dropped_now


def slower_text(result: Ratio) -> str | None:
    """The sentence that an arm with this ratio to the best is slower; None if the interval does not lie above 1."""
    return f"it takes {_ratio_text(result)}, which excludes 1" if result.ratio_low > 1 else None


def _ratio_text(result: Ratio) -> str:
    busy = ", on a busy machine" if result.ratio_busy else ""
    return f"{result.ratio:,.3f} times the best ({result.ratio_low:,.3f} to {result.ratio_high:,.3f}{busy})"
