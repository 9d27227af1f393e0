"""The heaviest blocks of memory of which any two may be in use together, if operators run side by side.

Blocks are in a partial order: of two that are never in use together, all that uses the one has ended before anything
uses the other. The heaviest antichain weighs as much as the lightest chains that hold each block as often as it has
bytes (Dilworth's theorem with weights), and is found by a minimum cut: Möhring, "Algorithmic Aspects of Comparability
Graphs and Interval Graphs", 1985, section 2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from workbench.solvers.minimum_cut import FIRST_SIDE, LAST_SIDE, Choice, CutProblem, SharedValue, solve_cut


def heaviest_antichain(weights: Sequence[int], together: Collection[tuple[int, int]]) -> tuple[int, ...]:
    """Elements of which any two are in `together`, as heavy as can be, if the other pairs, the lower number first, are
    a partial order; of another relation such elements, but maybe not the heaviest.

    weights: 0 or more. together: pairs of elements, lower first.
    """
    count, too_much = len(weights), sum(weights) + 1
    choices = [Choice((0, weight)) for weight in weights] + [Choice((weight, 0)) for weight in weights]
    values = [SharedValue(count + i, (i,), too_much, back=0) for i in range(count)]
    for i, following in enumerate(_immediate(count, together)):
        if following:
            values.append(SharedValue(i, tuple(count + j for j in following), too_much, back=0))
    sides = solve_cut(CutProblem(tuple(choices), tuple(values))).sides
    results = [i for i in range(count) if sides[i] == FIRST_SIDE and sides[count + i] == LAST_SIDE]
    held: list[int] = []
    for i in results:
        if all((j, i) in together for j in held):
            held.append(i)
    return tuple(held)


def _immediate(count: int, together: Collection[tuple[int, int]]) -> list[list[int]]:
    """For each element those that come after it, with none in between."""
    beside = [0] * count
    for i, j in together:
        beside[i] |= 1 << j
    after = [((1 << count) - (2 << i)) & ~beside[i] for i in range(count)]
    results: list[list[int]] = []
    for i in range(count):
        left, nearest = after[i], []
        while left:
            j = (left & -left).bit_length() - 1
            nearest.append(j)
            left &= ~(after[j] | 1 << j)
        results.append(nearest)
    return results
