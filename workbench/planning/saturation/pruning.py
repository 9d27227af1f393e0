"""Removes options that no smallest expression needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from workbench.planning.saturation.choices import Choices, Option

_Options = Mapping[int, Sequence[Option]]


def smallest_tree(options: _Options) -> dict[int, Option]:
    """For each e-class the option that is smallest if shared work counts at each use. The options have no cycle."""
    sizes: dict[int, int] = {}
    best: dict[int, Option] = {}
    changed = True
    while changed:
        changed = False
        for eclass, alternatives in options.items():
            for option in alternatives:
                if not sizes.keys() >= option.needs:
                    continue
                size = option.cost + sum(sizes[needed] for needed in option.needs)
                if size < sizes.get(eclass, math.inf):
                    sizes[eclass], best[eclass], changed = size, option, True
    return best


def pruned(choices: Choices, limit: int) -> dict[int, list[Option]]:
    """The options of selections with at most `limit` operators; of options with the same needs, one."""
    options = {
        eclass: _undominated(alternatives, choices.start.get(eclass))
        for eclass, alternatives in choices.options.items()
    }
    while True:
        below, above = _fewest_below(options), _fewest_above(options, choices.roots)
        kept = {
            eclass: [o for o in alternatives if above[eclass] + o.cost + _largest_need(below, o) <= limit]
            for eclass, alternatives in options.items()
            if eclass in above
        }
        if sum(map(len, kept.values())) == sum(map(len, options.values())):
            return kept
        options = kept


def _undominated(options: Sequence[Option], selected: Option | None) -> list[Option]:
    """The options without those that need all that a cheaper or equal option needs. selected: the region's option,
    which is preferred to an equal one."""
    remaining: dict[frozenset[int], Option] = {}
    for option in sorted(options, key=lambda option: (len(option.needs), option.cost, option is not selected)):
        sizes = range(len(option.needs) + 1)  # at most two are needed, so there are few subsets
        parts = (frozenset(part) for size in sizes for part in combinations(sorted(option.needs), size))
        if not any(part in remaining for part in parts):
            remaining[option.needs] = option
    return list(remaining.values())


def _fewest_below(options: _Options) -> dict[int, float]:
    """For each e-class, a lower bound of the operators that compute it: those on its longest path."""
    fewest: dict[int, float] = {}
    changed = True
    while changed:
        changed = False
        for eclass, alternatives in options.items():
            result = min(
                (o.cost + _largest_need(fewest, o) for o in alternatives if fewest.keys() >= o.needs), default=None
            )
            if result is not None and result < fewest.get(eclass, math.inf):
                fewest[eclass], changed = result, True
    return fewest


def _largest_need(fewest: Mapping[int, float], option: Option) -> float:
    return max((fewest.get(needed, math.inf) for needed in option.needs), default=0)


def _fewest_above(options: _Options, roots: Sequence[int]) -> dict[int, int]:
    """For each e-class, the fewest operators on a path from a root to it, the root included."""
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
