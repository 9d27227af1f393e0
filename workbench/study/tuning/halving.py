"""Which of several arms takes the least, measured by turns with ever more turns for ever fewer arms; knows no graph.

Successive halving: K. Jamieson, A. Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
AISTATS 2016. Here an arm also goes as soon as the interval of its ratio to the best excludes 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.run.measurement.statistics import FEWEST, Ratio, ratio

FIRST_TURNS, MOST_TURNS = 6, 100  # of each arm in the first round and in the last
TOGETHER = 8  # arms that are measured by turns at once, since all of them are open then
WITHIN = 0.03  # a gain for which nobody waits: no arm that is left may be faster by more

Measure = Callable[[Sequence[str], int], Mapping[str, Sequence[float] | str]]


class NothingRanError(Exception):
    """Every arm failed."""


@dataclass(frozen=True)
class Dropped:
    """The round after which an arm went, from 1, and the reason in words."""

    round: int
    why: str


@dataclass(frozen=True)
class ComparedArms:
    """Arms that were measured with the same number of turns.

    ratios: of each arm's median to that of `best`, for which it is 1. failed: by arm, why it has no times.
    """

    best: str
    ratios: Mapping[str, Ratio]
    failed: Mapping[str, str]


@dataclass(frozen=True)
class Standing:
    """The state after a lot of arms.

    ratios:  of those measured in this round so far.
    left:    the arms that go on, the best first; while the round is not `complete`, all that are in it.
    dropped: in this round and before.
    settled: whether no arm that is left can be faster than the best by more than WITHIN.
    """

    round: int
    turns: int
    best: str
    ratios: Mapping[str, Ratio]
    left: tuple[str, ...]
    dropped: Mapping[str, Dropped]
    complete: bool = False
    settled: bool = False


def quotient(a: Ratio, b: Ratio) -> Ratio:
    """a/b of two ratios to the same arm that were not measured together; the interval is that of the worst case."""
    return Ratio(
        a.ratio / b.ratio, a.ratio_low / b.ratio_high, a.ratio_high / b.ratio_low, a.ratio_busy or b.ratio_busy
    )


def compare_arms(
    arms: Sequence[str], measure: Measure, turns: int = FIRST_TURNS, together: int = TOGETHER
) -> Iterator[ComparedArms]:
    """Measure all arms in lots, each beside the best of those before; yields what is known after each lot.

    measure: takes arms and a number of turns; returns by arm its times, as long as each other and by turns, or a
             sentence that says why there are none.
    together: arms in one lot, at least 2. Raises NothingRanError.
    """
    best, *waiting = arms
    ratios: dict[str, Ratio] = {}
    failed: dict[str, str] = {}
    while True:
        answers = measure([best, *waiting[: together - 1]], turns)
        failed |= {arm: answer for arm, answer in answers.items() if isinstance(answer, str)}
        if best in failed:  # even if it ran before: all are measured again, beside another
            able = [arm for arm in arms if arm not in failed]
            if not able:
                raise NothingRanError(failed[best])
            best, *waiting = able
            ratios = {}
            continue
        times = {arm: answer for arm, answer in answers.items() if not isinstance(answer, str)}
        waiting = waiting[together - 1 :]
        best, ratios = _with_lot(ratios, times, best)
        yield ComparedArms(best, ratios, dict(failed))
        if not waiting:
            return


def _with_lot(
    ratios: Mapping[str, Ratio], times: Mapping[str, Sequence[float]], control: str
) -> tuple[str, dict[str, Ratio]]:
    """The best arm now, and the ratios to it; those in `ratios` are to the control, which is in this lot too."""
    best = min(times, key=lambda arm: ratio(times[arm], times[control]).ratio)
    step = ratio(times[best], times[control])
    others = {arm: result for arm, result in ratios.items() if arm not in times}
    if best != control:
        others = {arm: quotient(result, step) for arm, result in others.items()}
    return best, {**others, **{arm: ratio(taken, times[best]) for arm, taken in times.items()}}


def halve(
    arms: Sequence[str],
    measure: Measure,
    *,
    first_turns: int = FIRST_TURNS,
    most_turns: int = MOST_TURNS,
    together: int = TOGETHER,
) -> Iterator[Standing]:
    """Rounds of twice the turns for the better half, the last two in one round of `most_turns`, since opening an arm
    takes time too; yields the standing after each lot of arms.

    After a round go the worse half, while more than two are left, those that failed, and those whose interval of the
    ratio to the best lies above 1. It ends when one arm is left, when none that is left can be faster than the best
    by more than WITHIN, or after the round of `most_turns`. The last standing has the best arm and the reason for
    every other. The same measurements give the same standings. Raises NothingRanError if all arms fail.
    """
    left, dropped, turns, number = list(arms), dict[str, Dropped](), first_turns, 1
    while True:
        result = None
        for result in compare_arms(left, measure, turns, together):
            yield Standing(number, turns, result.best, result.ratios, _by_ratio(result, left), dict(dropped))
        assert result is not None  # there is at least one lot
        dropped |= {arm: Dropped(number, f"it does not run: {why}") for arm, why in result.failed.items()}
        order = _by_ratio(result, result.ratios)
        going = after_round(order, result.ratios)
        dropped |= {arm: Dropped(number, why) for arm, why in going.items()}
        left = [arm for arm in order if arm not in going]
        others = [result.ratios[arm] for arm in left if arm != result.best]
        settled = not others or (turns >= FEWEST and all(r.ratio_low >= 1 - WITHIN for r in others))
        yield Standing(number, turns, result.best, result.ratios, tuple(left), dict(dropped), True, settled)
        if settled or turns >= most_turns:
            return
        turns, number = most_turns if len(left) <= 2 else min(2 * turns, most_turns), number + 1


def _by_ratio(compared_arms: ComparedArms, arms: Sequence[str] | Mapping[str, Ratio]) -> tuple[str, ...]:
    """The best first; arms without a ratio as they were, after the others."""
    return tuple(
        sorted(arms, key=lambda arm: compared_arms.ratios[arm].ratio if arm in compared_arms.ratios else float("inf"))
    )


def after_round(order: Sequence[str], ratios: Mapping[str, Ratio]) -> dict[str, str]:
    """By arm, why it goes after a round; the first of `order` is the best, and stays."""
    staying = len(order) if len(order) <= 2 else -(-len(order) // 2)
    going = {}
    for place, arm in enumerate(order[1:], 1):
        slower = slower_words(ratios[arm])
        if slower is not None:
            going[arm] = slower
        elif place >= staying:
            going[arm] = f"it is in the worse half, with {_ratio_words(ratios[arm])}"
    return going


def slower_words(result: Ratio) -> str | None:
    """That an arm with this ratio to the best is slower for sure; None if its interval does not lie above 1."""
    return f"it takes {_ratio_words(result)}, which excludes 1" if result.ratio_low > 1 else None


def _ratio_words(result: Ratio) -> str:
    return f"{result.ratio:,.3f} times the best ({result.ratio_low:,.3f} to {result.ratio_high:,.3f})"
