"""Which operators must stay in float32 so that no output is off by more than is allowed.

Those that torch's autocast lists for float32 are tried first, by their operator: all of a kind stay, or none. If all of
them are not enough, a bisection finds how many of those that lose most by themselves suffice. Then groups of them, each
half as large as those before, are left out again where the outputs still hold, down to single operators (delta
debugging, Zeller and Hildebrandt 2002). Each trial is a run of the whole graph. What remains is a set from which none
can be left out; a smaller set of other operators may exist.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.ir import Graph
from workbench.planning.precision.recorded import OutputError
from workbench.support.delta_debugging import minimized

MAX_TRIALS = 60  # of the graph; what is kept then holds, and may be more than is needed


@dataclass(frozen=True)
class Fitted:
    """kept: operators that stay in float32, those first that lose most, each with what it loses by itself.

    error: the largest relative error of an output with them; error_before: without them. inputs: on how many inputs.
    runs: the sets that were tried. needed: whether each of them is needed: without any one of them the error is too
    large. listed: further ones that stay in float32, as a list says.
    """

    kept: Mapping[str, float]
    error: float
    error_before: float
    inputs: int
    runs: int
    needed: bool
    listed: tuple[str, ...] = ()


def fit(
    convert: Callable[[Collection[str]], Graph],
    error: OutputError,
    errors_alone: Callable[[], Mapping[str, float]],
    narrow: Collection[str],
    max_error: float,
    listed: Mapping[str, Collection[str]] | None = None,
) -> Fitted:
    """The operators to keep, so that no output is off by more than `max_error`.

    convert: the graph with these operators in float32 and the others as the strategy chooses. narrow: those that it
    runs in the narrower type without any kept. errors_alone: by node; asked only if needed. listed: by operator, those
    nodes that a list names for float32.
    """
    before = error.of(convert([]), math.inf)
    if before <= max_error:
        return Fitted({}, before, before, error.inputs, 1, True)
    by_list = _Trials(lambda kinds: error.of(convert(_nodes_of(listed, kinds)), math.inf), max_error)
    if listed and by_list.holds([*listed]):
        kinds = minimized([*listed], by_list.holds)
        return Fitted({}, by_list.error(kinds), before, error.inputs, by_list.runs + 1, True, _nodes_of(listed, kinds))
    stay = _nodes_of(listed, listed or ())
    trials = _Trials(lambda kept: error.of(convert((*stay, *kept)), max_error), max_error)
    narrow = [name for name in narrow if name not in stay]
    alone = errors_alone()
    order = sorted(narrow, key=lambda name: -_loss(alone.get(name, 0.0)))
    enough = _fewest(trials, order)
    kept, needed = _without_unneeded(trials, order[:enough])
    losses = {name: alone.get(name, 0.0) for name in kept}
    after = (
        trials.error(kept) if trials.holds(kept) else error.of(convert((*stay, *kept)), math.inf)
    )  # else it ended at the limit
    runs = trials.runs + by_list.runs + 1
    return Fitted(losses, after, before, error.inputs, runs, needed, stay)


def _nodes_of(listed: Mapping[str, Collection[str]] | None, kinds: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for kind in kinds for name in (listed or {})[kind])


class _Trials:
    """The errors of the graph with sets of kept operators; each set is run once."""

    def __init__(self, error_with: Callable[[Collection[str]], float], max_error: float) -> None:
        self._error_with, self._max_error = error_with, max_error
        self._errors: dict[frozenset[str], float] = {}

    @property
    def runs(self) -> int:
        return len(self._errors)

    def error(self, kept: Collection[str]) -> float:
        key = frozenset(kept)
        if key not in self._errors:
            self._errors[key] = self._error_with(kept)
        return self._errors[key]

    def holds(self, kept: Collection[str]) -> bool:
        return self.error(kept) <= self._max_error


def _fewest(trials: _Trials, order: list[str]) -> int:
    """How many of the first operators suffice, by bisection; at least 1, and all of them if no fewer were found."""
    too_few, enough = 0, len(order)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if trials.holds(order[:middle]) else (middle, enough)
    return enough


def _without_unneeded(trials: _Trials, kept: list[str]) -> tuple[list[str], bool]:
    """The operators without those that can be left out, and whether each of the rest was found to be needed."""
    ended = False

    def holds(rest: Sequence[str]) -> bool:
        nonlocal ended
        ended = ended or trials.runs >= MAX_TRIALS
        return not ended and trials.holds(rest)

    return minimized(kept, holds), not ended


def _loss(error: float) -> float:
    return math.inf if math.isnan(error) else error
