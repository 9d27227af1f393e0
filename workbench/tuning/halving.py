"""Which of several arms takes the least, measured by turns with ever more turns for ever fewer arms; knows no graph.

Successive halving: K. Jamieson, A. Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
AISTATS 2016. Here an arm also goes as soon as the interval of its ratio to the best excludes 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.run.measurement.statistics import FEWEST, Ratio, ratio

FIRST_TURNS, MOST_TURNS = 4, 100  # of each arm in the first round and in the last
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


@dataclass
class _Times:
    """The times of one lot; a lot's times are by turns with each other only."""

    lots: list[dict[str, Sequence[float]]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def ratios_to(self, control: str) -> dict[str, tuple[int, Ratio]]:
        """By arm, its lot and its ratio to the arm that every lot holds."""
        found: dict[str, tuple[int, Ratio]] = {}
        for number, lot in enumerate(self.lots):
            for arm, times in lot.items():
                found.setdefault(arm, (number, ratio(times, lot[control])))
        return found

    def compared(self, control: str) -> ComparedArms:
        placed = self.ratios_to(control)
        best = min(placed, key=lambda arm: placed[arm][1].ratio)
        number, of_best = placed[best]
        lot = self.lots[number]
        ratios = {
            arm: ratio(lot[arm], lot[best]) if arm in lot else _quotient(found, of_best)
            for arm, (_, found) in placed.items()
        }
        return ComparedArms(best, ratios, dict(self.failed))


def _quotient(a: Ratio, b: Ratio) -> Ratio:
    """a/b of two ratios to the same arm that were not measured together; the interval is that of the worst case."""
    return Ratio(
        a.ratio / b.ratio, a.ratio_low / b.ratio_high, a.ratio_high / b.ratio_low, a.ratio_busy or b.ratio_busy
    )


def compare_arms(
    arms: Sequence[str], measure: Measure, turns: int = FIRST_TURNS, together: int = TOGETHER
) -> Iterator[ComparedArms]:
    """Measure all arms in lots, each beside the first arm that runs; yields what is known after each lot.

    measure: takes arms and a number of turns; returns by arm its times, as long as each other and by turns, or a
             sentence that says why there are none.
    together: arms in one lot, at least 2. Raises NothingRanError.
    """
    control, *waiting = arms
    times = _Times()
    while True:
        answers = measure([control, *waiting[: together - 1]], turns)
        times.failed |= {arm: answer for arm, answer in answers.items() if isinstance(answer, str)}
        if control in times.failed:  # even if it ran before: all are measured again, beside another
            able = [arm for arm in arms if arm not in times.failed]
            if not able:
                raise NothingRanError(times.failed[control])
            control, *waiting = able
            times.lots.clear()
            continue
        times.lots.append({arm: answer for arm, answer in answers.items() if not isinstance(answer, str)})
        waiting = waiting[together - 1 :]
        yield times.compared(control)
        if not waiting:
            return


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
        found = None
        for found in compare_arms(left, measure, turns, together):
            yield Standing(number, turns, found.best, found.ratios, _by_ratio(found, left), dict(dropped))
        assert found is not None  # there is at least one lot
        dropped |= {arm: Dropped(number, f"it does not run: {why}") for arm, why in found.failed.items()}
        order = _by_ratio(found, found.ratios)
        going = _going(order, found.ratios)
        dropped |= {arm: Dropped(number, why) for arm, why in going.items()}
        left = [arm for arm in order if arm not in going]
        others = [found.ratios[arm] for arm in left if arm != found.best]
        settled = not others or (turns >= FEWEST and all(r.ratio_low >= 1 - WITHIN for r in others))
        yield Standing(number, turns, found.best, found.ratios, tuple(left), dict(dropped), True, settled)
        if settled or turns >= most_turns:
            return
        turns, number = most_turns if len(left) <= 2 else min(2 * turns, most_turns), number + 1


def _by_ratio(found: ComparedArms, arms: Sequence[str] | Mapping[str, Ratio]) -> tuple[str, ...]:
    """The best first; arms without a ratio as they were, behind the others."""
    return tuple(sorted(arms, key=lambda arm: found.ratios[arm].ratio if arm in found.ratios else float("inf")))


def _going(order: Sequence[str], ratios: Mapping[str, Ratio]) -> dict[str, str]:
    """By arm, why it goes; the first of `order` is the best, and stays."""
    staying = len(order) if len(order) <= 2 else -(-len(order) // 2)
    going = {}
    for place, arm in enumerate(order[1:], 1):
        found = ratios[arm]
        words = f"{found.ratio:,.3f} times the best ({found.ratio_low:,.3f} to {found.ratio_high:,.3f})"
        if found.ratio_low > 1:
            going[arm] = f"it takes {words}, which excludes 1"
        elif place >= staying:
            going[arm] = f"it is in the worse half, with {words}"
    return going
