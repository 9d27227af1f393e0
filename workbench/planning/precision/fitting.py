"""Which operators must stay in float32 so that no output is off by more than is allowed.

Three kinds of sets are tried, each by bisection, and of those that hold the one is taken with which a run reads and
writes least:

- those that torch's autocast lists for float32, by their operator: all of a kind stay, or none;
- a part of the graph in the order of execution, the shortest from its beginning or to its end, and of that only what
  is needed: such a part has few Casts around it;
- those that lose most by themselves. Groups of them, each half as large as those before, are left out again where the
  outputs still hold, down to single operators (delta debugging, Zeller and Hildebrandt 2002).

Each trial is a run of the whole graph. A smaller set of other operators may exist.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from workbench.ir import Graph
from workbench.planning.precision.recorded import OutputError
from workbench.support.delta_debugging import minimized

MAX_TRIALS = 60  # of the graph; what is kept then holds, and may be more than is needed
_FEW = 8  # operators: if so many that lose most are enough no other set is tried, and of a part each may be left out
_NEARLY_LEAST = 1.05  # times what a run of the graph without any kept reads and writes: no other set is tried


@dataclass(frozen=True)
class Fitted:
    """kept: operators that stay in float32, those first that lose most, each with what it loses by itself.

    error: the largest relative error of an output with them; error_before: without them. inputs: on how many inputs.
    runs: the sets that were tried. needed: whether each of them is needed: without any one of them the error is too
    large. listed: further ones that stay, as a list names them.
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
    narrow: Sequence[str],
    max_error: float,
    listed: Mapping[str, Collection[str]] | None = None,
    traffic: Callable[[Graph], int] | None = None,
) -> Fitted:
    """The operators to keep, so that no output is off by more than `max_error`.

    convert: the graph with these operators in float32 and the others as the strategy chooses. narrow: those that it
    runs in the narrower type without any kept, in the order of execution. errors_alone: by node; asked only if needed.
    listed: by operator, those nodes that a list names for float32. traffic: the bytes that a run of such a graph reads
    and writes; None: only operators that lose most are tried.
    """
    before = error.of(convert([]), math.inf)
    if before <= max_error:
        return Fitted({}, before, before, error.inputs, 1, True)
    trials = _Trials(lambda kept: error.of(convert(kept), max_error), max_error)
    losses = cache(errors_alone)
    if traffic is None:
        best = _that_lose_most(trials, _by_loss(narrow, losses()))
    else:
        best = _least(trials, lambda kept: traffic(convert(kept)), narrow, listed or {}, losses)
    alone = {} if best.listed else {name: losses().get(name, 0.0) for name in _by_loss(best.kept, losses())}
    ran_whole = trials.holds(best.kept)  # else its trial ended at the limit
    after = trials.error(best.kept) if ran_whole else error.of(convert(best.kept), math.inf)
    needed = best.needed or len(best.kept) == 1
    return Fitted(alone, after, before, error.inputs, trials.runs + 1, needed, best.listed)


@dataclass(frozen=True)
class _Found:
    """kept: operators with which the outputs hold. listed: the same, if a list names them."""

    kept: tuple[str, ...]
    listed: tuple[str, ...] = ()
    needed: bool = False


def _nodes_of(listed: Mapping[str, Collection[str]], kinds: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for kind in kinds for name in listed[kind])


def _least(
    trials: _Trials,
    traffic: Callable[[tuple[str, ...]], int],
    narrow: Sequence[str],
    listed: Mapping[str, Collection[str]],
    losses: Callable[[], Mapping[str, float]],
) -> _Found:
    """Of the sets that hold the one with the least traffic; the first with nearly the least that there can be."""
    of_kept = cache(traffic)  # which converts the graph
    enough = of_kept(()) * _NEARLY_LEAST
    found = _by_list(trials, listed)
    if not found:
        order_of_loss = _by_loss(narrow, losses())
        if trials.holds(order_of_loss[:_FEW]):
            return _that_lose_most(trials, order_of_loss[:_FEW])
    for order in (narrow, narrow[::-1]):
        if not any(of_kept(one.kept) <= enough for one in found):
            found += _part(trials, order)
    if not any(one.listed or of_kept(one.kept) <= enough for one in found):
        found.append(_that_lose_most(trials, order_of_loss))  # which takes most runs
    return min(found, key=lambda one: of_kept(one.kept))


def _by_list(trials: _Trials, listed: Mapping[str, Collection[str]]) -> list[_Found]:
    """The operators that a list names, of the fewest kinds; none if all of them are not enough."""
    if not listed or not trials.holds(_nodes_of(listed, listed)):
        return []
    kept = _nodes_of(listed, minimized([*listed], lambda kinds: trials.holds(_nodes_of(listed, kinds))))
    return [_Found(kept, kept)]


def _part(trials: _Trials, order: Sequence[str]) -> list[_Found]:
    """The shortest beginning that holds, without as much of its start as can be left out; none if only all hold."""
    end = _fewest(trials, order)
    if end == len(order):
        return []
    part = order[end - _fewest(trials, order[:end][::-1]) : end]
    if len(part) > _FEW:
        return [_Found(tuple(part))]
    kept, needed = _without_unneeded(trials, list(part))
    return [_Found(kept, needed=needed)]


def _by_loss(narrow: Sequence[str], alone: Mapping[str, float]) -> list[str]:
    return sorted(narrow, key=lambda name: -_loss(alone.get(name, 0.0)))


def _that_lose_most(trials: _Trials, order: Sequence[str]) -> _Found:
    kept, needed = _without_unneeded(trials, list(order[: _fewest(trials, order)]))
    return _Found(kept, needed=needed)


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


def _fewest(trials: _Trials, order: Sequence[str]) -> int:
    """How many of the first operators suffice, by bisection; at least 1, and all of them if no fewer were found."""
    too_few, enough = 0, len(order)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if trials.holds(order[:middle]) else (middle, enough)
    return enough


def _without_unneeded(trials: _Trials, kept: list[str]) -> tuple[tuple[str, ...], bool]:
    """The operators without those that can be left out, and whether each of the rest was found to be needed."""
    ended = False

    def holds(rest: Sequence[str]) -> bool:
        nonlocal ended
        ended = ended or trials.runs >= MAX_TRIALS
        return not ended and trials.holds(rest)

    return tuple(minimized(kept, holds)), not ended


def _loss(error: float) -> float:
    return math.inf if math.isnan(error) else error
