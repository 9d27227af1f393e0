"""Which operators must stay in float32 so that no output is off by more than is allowed.

They are the operators that lose most by themselves; how many of them, a bisection finds by running the graph. Keeping
one operator more does not make every error smaller, so the number is the smallest of those that were tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from workbench.ir import Graph


@dataclass(frozen=True)
class Fitted:
    """kept: operators that stay in float32, those first that lose most, each with what it loses by itself.

    error: the largest relative error of an output with them; error_before: without them. runs: of the whole graph.
    """

    kept: Mapping[str, float]
    error: float
    error_before: float
    runs: int


def fit(
    convert: Callable[[Collection[str]], Graph],
    error_of: Callable[[Graph], float],
    errors_alone: Callable[[], Mapping[str, float]],
    narrow: Collection[str],
    max_error: float,
) -> Fitted:
    """The fewest of the operators that lose most, so that no output is off by more than `max_error`.

    convert: the graph with these operators in float32 and the others as the strategy chooses. narrow: those that it
    runs in the narrower type without any kept. errors_alone: by node; asked only if needed.
    """
    before = error_of(convert(()))
    if before <= max_error:
        return Fitted({}, before, before, 1)
    alone = errors_alone()
    order = sorted(narrow, key=lambda name: -_loss(alone.get(name, 0.0)))
    count, error, runs = _fewest(lambda number: error_of(convert(order[:number])), len(order), max_error)
    return Fitted({name: alone.get(name, 0.0) for name in order[:count]}, error, before, runs + 1)


def _fewest(error_with: Callable[[int], float], most: int, max_error: float) -> tuple[int, float, int]:
    """The number of operators to keep, at least 1, the error with them, and the number of runs."""
    too_few, enough, error, runs = 0, most, math.nan, 0
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        tried, runs = error_with(middle), runs + 1
        if tried <= max_error:
            enough, error = middle, tried
        else:
            too_few = middle
    if math.isnan(error):  # all of them: not run yet
        error, runs = error_with(enough), runs + 1
    return enough, error, runs


def _loss(error: float) -> float:
    return math.inf if math.isnan(error) else error
