"""A lower bound of a linear program in variables from 0 to 1, in exact fractions, from any multipliers of its rows.

Weak duality: for y >= 0, every x with A x >= b has c x >= b y + (c - A'y) x, and the least of the last term over the
box is the sum of its negative coefficients. The bound holds whatever y is, so it need not be trusted (Neumaier and
Shcherbina, "Safe bounds in linear and mixed-integer linear programming", 2004). If x is integral, the cost is a
multiple of the greatest common divisor of the costs, to which the bound is rounded up.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from workbench.checker.outcome import DoesNotHold, Unreadable
from workbench.checker.records import Record, as_text

# Of small denominators, whose common ones stay small: a sum of half a million fractions takes a second.
_FRACTION = re.compile(r"-?\d{1,60}(/[1-9]\d{0,4})?")


@dataclass(frozen=True)
class LinearBound:
    """cost: of the solution, with the constant. proven: no solution costs less; None without multipliers. claimed: what
    the solver says. chosen: the columns that are 1."""

    cost: int
    proven: int | None
    claimed: int
    chosen: frozenset[int]


def checked_bound(record: Record) -> LinearBound:
    """Checks that the solution satisfies every row and has the stated cost. Raises DoesNotHold."""
    costs, chosen = record.wholes("costs"), frozenset(record.wholes("solution"))
    constant, told = record.whole("constant"), record.whole("cost")
    if any(not 0 <= column < len(costs) for column in chosen):
        raise DoesNotHold(f"the solution of {record.where} has a column that the program has not")
    multipliers = _multipliers(record)
    reduced = [Fraction(cost) for cost in costs]
    bound = Fraction(0)
    count = 0
    for number, row in enumerate(record.records("rows", "row")):
        count += 1
        columns, numbers = row.wholes("columns"), row.wholes("numbers")
        least, most = (row.whole(name) if row.has(name) else None for name in ("least", "most"))
        if len(columns) != len(numbers) or any(not 0 <= column < len(costs) for column in columns):
            raise Unreadable(f"the certificate's {row.where} has columns that do not fit")
        reached = sum(n for column, n in zip(columns, numbers, strict=True) if column in chosen)
        if (least is not None and reached < least) or (most is not None and reached > most):
            raise DoesNotHold(f"the solution of {record.where} breaks row {number + 1:,}: it is {reached:,} there")
        if multipliers is None:
            continue
        if number >= len(multipliers):
            raise Unreadable(f"the certificate's {record.where} has more rows than duals")
        y = multipliers[number]
        side = least if y > 0 else most
        if not y or side is None:  # a multiplier of the wrong sign proves nothing
            continue
        bound += y * side
        for column, n in zip(columns, numbers, strict=True):
            reduced[column] -= y * n
    cost = sum(costs[column] for column in chosen) + constant
    if cost != told:
        raise DoesNotHold(f"the solution of {record.where} costs {cost:,}, not {told:,}")
    claimed = record.whole("bound")
    if multipliers is None:
        return LinearBound(cost, None, claimed, chosen)
    if count != len(multipliers):
        raise Unreadable(f"the certificate's {record.where} has {count:,} rows and {len(multipliers):,} duals")
    bound += sum(min(Fraction(0), number) for number in reduced)
    unit = math.gcd(*costs) or 1
    proven = max(math.ceil(bound / unit) * unit, sum(min(cost, 0) for cost in costs)) + constant
    return LinearBound(cost, proven, claimed, chosen)


def _multipliers(record: Record) -> list[Fraction] | None:
    if not record.has("duals"):
        return None
    found = []
    for number, told in enumerate(record.items("duals"), 1):
        text = as_text(told, f"{record.where}, dual {number:,}")
        if not _FRACTION.fullmatch(text):
            raise Unreadable(f"the certificate's {record.where}, dual {number:,} is no fraction such as 3/4")
        found.append(Fraction(text))
    return found
