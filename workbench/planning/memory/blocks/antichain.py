"""The heaviest set of memory blocks that may all be in use at once, if independent operators run side by side.

Blocks are in a partial order: if two are never in use together, everything that uses one ends before anything uses the
other. The heaviest antichain weighs as much as the fewest chains that together contain each block as often as it has
bytes (Dilworth's theorem with weights). A minimum cut finds it: Möhring, "Algorithmic Aspects of Comparability
Graphs and Interval Graphs", 1985, section 2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from workbench.planning.solvers.minimum_cut import FIRST_SIDE, LAST_SIDE, Choice, CutProblem, SharedValue, solve_cut


def heaviest_antichain(weights: Sequence[int], overlapping: Collection[tuple[int, int]]) -> tuple[int, ...]:
    """The heaviest set of elements in which any two are in `overlapping`, if all other pairs, the lower number first,
    form a partial order; otherwise such a set, perhaps not the heaviest.

    weights: 0 or more. overlapping: pairs of elements, lower first.
    """
    count, infinite = len(weights), sum(weights) + 1
    # Element i is two choices. If choice i is on the first side and choice count + i on the last, the element is
    # chosen, at no cost; else one of them costs its weight. A value of infinite weight with back=0 forbids its producer
    # on the first side with a reader on the last. So if count + i is on the first side, i is too; and if i is,
    # count + j is for each successor j, which is then not chosen.
    choices = [Choice((0, weight)) for weight in weights] + [Choice((weight, 0)) for weight in weights]
    values = [SharedValue(count + i, (i,), infinite, back=0) for i in range(count)]
    for i, following in enumerate(_immediate_successors(count, overlapping)):
        if following:
            values.append(SharedValue(i, tuple(count + j for j in following), infinite, back=0))
    sides = solve_cut(CutProblem(tuple(choices), tuple(values))).sides
    results = [i for i in range(count) if sides[i] == FIRST_SIDE and sides[count + i] == LAST_SIDE]
    antichain: list[int] = []
    for i in results:
        if all((j, i) in overlapping for j in antichain):
            antichain.append(i)
    return tuple(antichain)


def _immediate_successors(count: int, overlapping: Collection[tuple[int, int]]) -> list[list[int]]:
    """For each element those that come after it without an element between."""
    unordered = [0] * count
    for i, j in overlapping:
        unordered[i] |= 1 << j
    after = [((1 << count) - (2 << i)) & ~unordered[i] for i in range(count)]
    results: list[list[int]] = []
    for i in range(count):
        remaining, nearest = after[i], []
        while remaining:
            j = (remaining & -remaining).bit_length() - 1
            nearest.append(j)
            remaining &= ~(after[j] | 1 << j)
        results.append(nearest)
    return results
