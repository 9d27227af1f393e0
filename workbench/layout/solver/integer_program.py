"""The cheapest assignment of orders of axes to operators, any number of them: an integer program.

One binary variable for each form that an operator may take, one for each order in which
a value may be read. A value is paid once for each order that some reader needs and its
producer does not give. With two orders the relaxation is the minimum cut of `cut.py` and
has integral corners; with more the problem is NP-hard, and the solver branches where it must.

Source: multiway cut, Dahlhaus et al. 1994; layouts as an integer program: PBQP, Scholz and
Eckstein 2002. Solver: HiGHS, Huangfu and Hall 2018.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Cost = tuple[int, ...]  # what decides stands first, the rest breaks ties
OrderedValue = tuple[int, Hashable]  # a value, and the order in which it is given or needed


@dataclass(frozen=True)
class Form:
    """One way to run an operator.

    cost:         of the form alone, not of any value.
    gives, needs: values that it makes and reads, each in an order.
    """

    cost: Cost
    gives: tuple[OrderedValue, ...] = ()
    needs: tuple[OrderedValue, ...] = ()


@dataclass(frozen=True)
class IntegerProgram:
    """choices: the forms of each operator, at least one; weights: of each value, what one more order costs."""

    choices: tuple[tuple[Form, ...], ...]
    weights: tuple[Cost, ...]

    def cost(self, forms: Sequence[int]) -> Cost:
        """What an assignment costs, a form for each choice."""
        taken = [choice[form] for choice, form in zip(self.choices, forms, strict=True)]
        given = {use for form in taken for use in form.gives}
        paid = {use for form in taken for use in form.needs} - given
        return _sum([*(form.cost for form in taken), *(self.weights[value] for value, _ in paid)])


@dataclass(frozen=True)
class IntegerSolution:
    """A form for each choice, and its cost. No assignment costs less than `lower_bound` in what decides."""

    forms: tuple[int, ...]
    cost: Cost
    lower_bound: int

    @property
    def gap(self) -> float:
        """What is left to prove, as a part of the cost: 0 where the cost is proven to be the least."""
        return 0.0 if self.cost[0] == 0 else (self.cost[0] - self.lower_bound) / self.cost[0]


def solve_integer_program(problem: IntegerProgram, seconds: float = 60.0) -> IntegerSolution:
    """The least cost: what decides first, then of what is equal there the least of what comes next.

    seconds: the time limit. After it the best that was found is returned, with the bound that was
    proven until then; the first form of every choice is where the search starts. The same problem
    gives the same solution, where the time limit does not cut in.
    """
    deadline = time.monotonic() + seconds
    forms = tuple(0 for _ in problem.choices)
    if not problem.choices:
        return IntegerSolution((), (0,), 0)
    least = problem.cost(forms)
    bounds: list[int] = []
    if all(len(choice) == 1 for choice in problem.choices):
        return IntegerSolution(forms, least, least[0])
    program = _Program(problem)
    for level in range(len(least)):
        left = deadline - time.monotonic()
        found, bound = program.minimum(level, forms, left) if left > 0 else (forms, 0)
        if problem.cost(found) <= least:
            forms, least = found, problem.cost(found)
        bounds.append(bound)
        if bound < least[level]:
            break
    return IntegerSolution(forms, least, min(bounds[0], least[0]))


def _sum(costs: Sequence[Cost]) -> Cost:
    return tuple(map(sum, zip(*costs, strict=True)))


class _Program:
    """The problem as rows and columns: a column for each form, then one for each order that is needed."""

    def __init__(self, problem: IntegerProgram) -> None:
        self.problem = problem
        self.starts: list[int] = np.cumsum([0, *(len(choice) for choice in problem.choices)]).tolist()
        needed = dict.fromkeys(use for choice in problem.choices for form in choice for use in form.needs)
        self.column_of = {use: self.starts[-1] + index for index, use in enumerate(needed)}
        self.rows = list(self._rows())

    @property
    def columns(self) -> int:
        return self.starts[-1] + len(self.column_of)

    def _rows(self) -> Iterator[tuple[dict[int, float], float, float]]:
        """Coefficients by column, least and most."""
        giving: dict[OrderedValue, list[int]] = defaultdict(list)
        for column, form in self._forms():
            for use in dict.fromkeys(form.gives):
                giving[use].append(column)
        for index, choice in enumerate(self.problem.choices):
            columns = range(self.starts[index], self.starts[index + 1])
            yield dict.fromkeys(columns, 1.0), 1.0, 1.0
            needing: dict[OrderedValue, list[int]] = defaultdict(list)
            for column, form in zip(columns, choice, strict=True):
                for use in dict.fromkeys(form.needs):  # an operator may read one value twice
                    needing[use].append(column)
            for use, readers in needing.items():  # paid, or given, where it is needed
                row = dict.fromkeys([self.column_of[use], *giving[use]], 1.0)
                for column in readers:
                    row[column] = row.get(column, 0.0) - 1.0
                yield row, 0.0, math.inf

    def _forms(self) -> Iterator[tuple[int, Form]]:
        return enumerate(form for choice in self.problem.choices for form in choice)

    def _costs(self, level: int) -> list[int]:
        """Of each column."""
        own = [form.cost[level] for _, form in self._forms()]
        return [*own, *(self.problem.weights[value][level] for value, _ in self.column_of)]

    def minimum(self, level: int, start: tuple[int, ...], seconds: float) -> tuple[tuple[int, ...], int]:
        """The least of one level, while the levels before it cost what they do from `start`; and its lower bound."""
        import highspy  # late: its import would be paid by every listing of the passes

        reached = self.problem.cost(start)
        limits = [self._limit(before, reached[before]) for before in range(level)]
        costs, unit = _in_units(self._costs(level))
        solver = highspy.Highs()
        for name, value in _OPTIONS.items():
            solver.setOptionValue(name, value)
        solver.setOptionValue("time_limit", seconds)
        solver.passModel(self._model(highspy, costs, [*self.rows, *limits]))
        solver.setSolution(self._as_columns(highspy, start))
        solver.run()
        bound = solver.getInfo().mip_dual_bound
        proven = math.ceil(bound - _ROUNDING - _PRECISION * abs(bound)) * unit if math.isfinite(bound) else 0
        values = np.array(solver.getSolution().col_value)
        if len(values) != self.columns:
            return start, max(proven, 0)
        ends = zip(self.starts, self.starts[1:], strict=False)
        return tuple(int(values[first:end].argmax()) for first, end in ends), max(proven, 0)

    def _limit(self, level: int, most: int) -> tuple[dict[int, float], float, float]:
        costs, unit = _in_units(self._costs(level))
        return {column: float(cost) for column, cost in enumerate(costs) if cost}, -math.inf, most // unit + 0.5

    def _model(self, highspy: Any, costs: list[int], rows: list[tuple[dict[int, float], float, float]]) -> Any:
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self.columns, len(rows)
        model.col_cost_ = np.array(costs, float)
        model.col_lower_, model.col_upper_ = np.zeros(self.columns), np.ones(self.columns)
        model.row_lower_ = np.array([low for _, low, _ in rows])
        model.row_upper_ = np.array([high for _, _, high in rows])
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.cumsum([0, *(len(row) for row, _, _ in rows)])
        model.a_matrix_.index_ = np.array([column for row, _, _ in rows for column in row])
        model.a_matrix_.value_ = np.array([number for row, _, _ in rows for number in row.values()])
        model.integrality_ = [highspy.HighsVarType.kInteger] * self.columns
        return model

    def _as_columns(self, highspy: Any, forms: tuple[int, ...]) -> Any:
        taken = [choice[form] for choice, form in zip(self.problem.choices, forms, strict=True)]
        given = {use for form in taken for use in form.gives}
        values = np.zeros(self.columns)
        values[[first + form for first, form in zip(self.starts, forms, strict=False)]] = 1
        values[[self.column_of[use] for form in taken for use in form.needs if use not in given]] = 1
        solution = highspy.HighsSolution()
        solution.col_value = values.tolist()
        return solution


_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.5,  # costs are whole numbers of their unit
}
_ROUNDING, _PRECISION = 0.01, 1e-13  # by which the solver's bound may be too high: its tolerances, its numbers


def _in_units(costs: list[int]) -> tuple[list[int], int]:
    """The costs over what divides them all, which keeps the numbers of the solver small; and that."""
    unit = math.gcd(*costs) or 1
    return [cost // unit for cost in costs], unit
