"""A linear program in variables that are 0 or 1, solved by HiGHS (Huangfu and Hall 2018)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.5,  # costs are integers in their unit
}
_ROUNDING, _PRECISION = 0.01, 1e-13  # how far the solver's bound may be too high: absolute, and relative


@dataclass(frozen=True)
class Row:
    """A constraint: lower <= the sum of coefficients times variables <= upper; None: no bound."""

    coefficients: Mapping[int, int]
    lower: int | None = None
    upper: int | None = None


@dataclass(frozen=True)
class BinarySolution:
    """The variables of the best solution found, None if there is none, and a proven lower bound of the cost."""

    values: Sequence[float] | None
    lower_bound: int


def minimize(costs: Sequence[int], rows: Sequence[Row], start: Sequence[float], seconds: float) -> BinarySolution:
    """Minimize the sum of the costs, which are not negative, of the variables that are 1.

    start: a solution. seconds: the time limit. The search is deterministic unless the limit is reached.
    """
    import highspy  # imported late: the import is slow, and listing the passes does not need it

    scaled, unit = _in_units(costs)
    solver = _solver(highspy, seconds)
    solver.passModel(_model(highspy, scaled, [_scaled_row(row) for row in rows]))
    solution = highspy.HighsSolution()
    solution.col_value = list(start)
    solver.setSolution(solution)
    solver.run()
    bound = solver.getInfo().mip_dual_bound
    proven = math.ceil(bound - _ROUNDING - _PRECISION * abs(bound)) * unit if math.isfinite(bound) else 0
    values = solver.getSolution().col_value
    return BinarySolution(values if len(values) == len(costs) else None, max(proven, 0))


def _solver(highspy: Any, seconds: float) -> Any:
    solver = highspy.Highs()
    for name, value in _OPTIONS.items():
        solver.setOptionValue(name, value)
    solver.setOptionValue("time_limit", seconds)
    return solver


def _in_units(costs: Sequence[int]) -> tuple[list[int], int]:
    """The costs divided by their greatest common divisor, which keeps the solver's numbers small; and the divisor."""
    unit = math.gcd(*costs) or 1
    return [cost // unit for cost in costs], unit


def _scaled_row(row: Row) -> Row:
    """The row divided by the greatest common divisor of its coefficients; its bounds stay as tight."""
    unit = math.gcd(*row.coefficients.values()) or 1
    return Row(
        {column: number // unit for column, number in row.coefficients.items()},
        None if row.lower is None else -(-row.lower // unit),
        None if row.upper is None else row.upper // unit,
    )


def _model(highspy: Any, costs: Sequence[int], rows: Sequence[Row]) -> Any:
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(costs), len(rows)
    model.col_cost_ = np.array(costs, float)
    model.col_lower_, model.col_upper_ = np.zeros(len(costs)), np.ones(len(costs))
    model.row_lower_ = np.array([-math.inf if row.lower is None else row.lower for row in rows], float)
    model.row_upper_ = np.array([math.inf if row.upper is None else row.upper for row in rows], float)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.cumsum([0, *(len(row.coefficients) for row in rows)])
    model.a_matrix_.index_ = np.array([column for row in rows for column in row.coefficients])
    model.a_matrix_.value_ = np.array([number for row in rows for number in row.coefficients.values()], float)
    model.integrality_ = [highspy.HighsVarType.kInteger] * len(costs)
    return model
