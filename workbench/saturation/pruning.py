"""Options of e-classes that no smallest expression needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from workbench.saturation.choices import Choices, Option

_Options = Mapping[int, Sequence[Option]]


def smallest_tree(options: _Options) -> dict[int, Option]:
    """For each e-class the option that is smallest where shared work is counted at each use. It has no circle."""
    sizes: dict[int, int] = {}
    best: dict[int, Option] = {}
    changed = True
    while changed:
        changed = False
        for eclass, every in options.items():
            for option in every:
                if not sizes.keys() >= option.needs:
                    continue
                size = option.cost + sum(sizes[needed] for needed in option.needs)
                if size < sizes.get(eclass, math.inf):
                    sizes[eclass], best[eclass], changed = size, option, True
    return best


def pruned(choices: Choices, most: int) -> dict[int, list[Option]]:
    """The options of selections with at most so many operators, one of those that need the same."""
    options = {eclass: _undominated(every, choices.start.get(eclass)) for eclass, every in choices.options.items()}
    while True:
        below, above = _least_below(options), _least_above(options, choices.roots)
        left = {
            eclass: [o for o in every if above[eclass] + o.cost + _most_of(below, o) <= most]
            for eclass, every in options.items()
            if eclass in above
        }
        if sum(map(len, left.values())) == sum(map(len, options.values())):
            return left
        options = left


def _undominated(options: Sequence[Option], own: Option | None) -> list[Option]:
    """Without those that need all that a cheaper or equal one needs. own: the region's, which stays before an equal."""
    kept: dict[frozenset[int], Option] = {}
    for option in sorted(options, key=lambda option: (len(option.needs), option.cost, option is not own)):
        sizes = range(len(option.needs) + 1)  # at most two are needed, so there are few subsets
        parts = (frozenset(part) for size in sizes for part in combinations(sorted(option.needs), size))
        if not any(part in kept for part in parts):
            kept[option.needs] = option
    return list(kept.values())


def _least_below(options: _Options) -> dict[int, float]:
    """The least operators with which an e-class can be computed, on the longest path alone."""
    least: dict[int, float] = {}
    changed = True
    while changed:
        changed = False
        for eclass, every in options.items():
            result = min((o.cost + _most_of(least, o) for o in every if least.keys() >= o.needs), default=None)
            if result is not None and result < least.get(eclass, math.inf):
                least[eclass], changed = result, True
    return least


def _most_of(least: Mapping[int, float], option: Option) -> float:
    return max((least.get(needed, math.inf) for needed in option.needs), default=0)


def _least_above(options: _Options, roots: Sequence[int]) -> dict[int, int]:
    """The least operators between a root and an e-class, the root's included."""
    above = dict.fromkeys(roots, 0)
    level = list(roots)
    while level:
        following = []
        for eclass in level:
            for option in options[eclass]:
                for needed in option.needs:
                    if needed not in above and needed in options:
                        above[needed] = above[eclass] + option.cost
                        following.append(needed)
        level = following
    return above
