"""A lower bound of a linear program in variables from 0 to 1, in exact fractions, from any multipliers of its rows.

Weak duality: for y >= 0, every x with A x >= b has c x >= b y + (c - A'y) x. The minimum of the last term over the
box is the sum of its negative coefficients. The bound holds for any y, so y need not be trusted (Neumaier and
Shcherbina, "Safe bounds in linear and mixed-integer linear programming", 2004). If x is integral, the cost is a
multiple of the greatest common divisor of the costs, to which the bound is rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.records import Fields


@dataclass(frozen=True)
class LinearBound:
    """cost: of the solution, constant included. proven: a lower bound of every solution; None without multipliers.
    claimed: the solver's lower bound. chosen: the columns that are 1."""

    cost: int
    proven: int | None
    claimed: int
    chosen: frozenset[int]


def checked_bound(record: Fields) -> LinearBound:
    """The bound, after checks that the solution satisfies every row and has the stated cost. Raises DoesNotHold.

    Multipliers are numerators over one denominator, so that all sums add whole numbers.
    """
    costs, chosen = record.wholes("costs"), frozenset(record.wholes("solution"))
    constant, stated_cost, claimed = record.whole("constant"), record.whole("cost"), record.whole("bound")
    if any(not 0 <= column < len(costs) for column in chosen):
        raise DoesNotHold(f"the solution of {record.where} has a column that the program does not have")
    multipliers = record.wholes("duals") if record.has("duals") else None
    denominator = 1 if multipliers is None else record.whole("denominator")
    if denominator < 1:
        raise Unreadable(f"the certificate's {record.where} has a denominator below 1")
    reduced = [cost * denominator for cost in costs]
    bound = count = 0
    for row in record.records("rows", "row"):
        columns, numbers = row.wholes("columns"), row.wholes("numbers")
        lower, upper = (row.whole(name) if row.has(name) else None for name in ("least", "most"))
        if len(columns) != len(numbers) or any(not 0 <= column < len(costs) for column in columns):
            raise Unreadable(f"the certificate's {row.where} has columns that do not fit")
        activity = sum(n for column, n in zip(columns, numbers, strict=True) if column in chosen)
        if (lower is not None and activity < lower) or (upper is not None and activity > upper):
            raise DoesNotHold(f"the solution of {record.where} violates row {count + 1:,}, which is {activity:,} there")
        y = multipliers[count] if multipliers is not None and count < len(multipliers) else 0
        count += 1
        side = lower if y > 0 else upper
        if not y or side is None:  # a multiplier of the wrong sign proves nothing
            continue
        bound += y * side
        for column, n in zip(columns, numbers, strict=True):
            reduced[column] -= y * n
    cost = sum(costs[column] for column in chosen) + constant
    if cost != stated_cost:
        raise DoesNotHold(f"the solution of {record.where} costs {cost:,}, not {stated_cost:,}")
    if multipliers is None:
        return LinearBound(cost, None, claimed, chosen)
    if count != len(multipliers):
        raise Unreadable(f"the certificate's {record.where} has {count:,} rows and {len(multipliers):,} duals")
    unit = math.gcd(*costs) or 1
    exact = Fraction(bound + sum(min(0, number) for number in reduced), denominator * unit)
    proven = max(math.ceil(exact) * unit, sum(min(cost, 0) for cost in costs))
    return LinearBound(cost, proven + constant, claimed, chosen)
