"""The least cost of an integer program with any number of orders, by search.

There is a binary variable for each form of an operator, and one for each order in which a value may be needed. The
problem is NP-hard; its relaxation is mostly integral on the graphs of neural networks.

Solver: HiGHS, Huangfu and Hall 2018.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from workbench.planning.solvers.binary_program import Row, minimize
from workbench.planning.solvers.integer_program import Form, IntegerProgram, IntegerSolution, OrderedValue


def search(problem: IntegerProgram, deadline: float, start: tuple[int, ...]) -> IntegerSolution:
    """The best found until `deadline`, in seconds of the monotonic clock, from the assignment `start`; one component of
    the cost after the other."""
    best, best_cost = start, problem.cost(start)
    bounds: list[int] = []
    program = _Program(problem)
    for level in range(len(best_cost)):
        remaining = deadline - time.monotonic()
        candidate, bound = program.minimum(level, best, remaining) if remaining > 0 else (best, 0)
        if problem.cost(candidate) <= best_cost:
            best, best_cost = candidate, problem.cost(candidate)
        bounds.append(bound)
        if bound < best_cost[level]:
            break
    return IntegerSolution(best, best_cost, min(bounds[0], best_cost[0]))


class _Program:
    """The problem as rows and columns: a column for each form, then one for each needed order of a value."""

    def __init__(self, problem: IntegerProgram) -> None:
        self.problem = problem
        self.starts: list[int] = np.cumsum([0, *(len(choice) for choice in problem.choices)]).tolist()
        needed = dict.fromkeys(use for choice in problem.choices for form in choice for use in form.needs)
        payable = (use for use in needed if problem.conversion_cost(use) is not None)
        self.column_of = {use: self.starts[-1] + index for index, use in enumerate(payable)}
        self.rows = list(self._rows())

    @property
    def columns(self) -> int:
        return self.starts[-1] + len(self.column_of)

    def _rows(self) -> Iterator[Row]:
        producers: dict[OrderedValue, list[int]] = defaultdict(list)
        for column, form in self._forms():
            for use in dict.fromkeys(form.gives):
                producers[use].append(column)
        for index, choice in enumerate(self.problem.choices):
            columns = range(self.starts[index], self.starts[index + 1])
            yield Row(dict.fromkeys(columns, 1), 1, 1)
            readers_of: dict[OrderedValue, list[int]] = defaultdict(list)
            for column, form in zip(columns, choice, strict=True):
                for use in dict.fromkeys(form.needs):  # an operator may read one value twice
                    readers_of[use].append(column)
            for use, readers in readers_of.items():  # a needed order is paid for or computed
                row = dict.fromkeys([*([self.column_of[use]] if use in self.column_of else []), *producers[use]], 1)
                for column in readers:
                    row[column] = row.get(column, 0) - 1
                yield Row(row, lower=0)

    def _forms(self) -> Iterator[tuple[int, Form]]:
        return enumerate(form for choice in self.problem.choices for form in choice)

    def costs(self, level: int) -> list[int]:
        """The cost of each column."""
        form_costs = [form.cost[level] for _, form in self._forms()]
        conversion_costs = map(self.problem.conversion_cost, self.column_of)
        return [*form_costs, *(cost[level] for cost in conversion_costs if cost is not None)]

    def minimum(self, level: int, start: tuple[int, ...], seconds: float) -> tuple[tuple[int, ...], int]:
        """Minimize one cost component, with earlier components no worse than in `start`; returns also its lower
        bound."""
        start_cost = self.problem.cost(start)
        limits = [self._limit(earlier, start_cost[earlier]) for earlier in range(level)]
        binary_solution = minimize(self.costs(level), [*self.rows, *limits], self.as_columns(start), seconds)
        if binary_solution.values is None:
            return start, binary_solution.lower_bound
        values = np.array(binary_solution.values)
        ends = zip(self.starts, self.starts[1:], strict=False)
        return tuple(int(values[first:end].argmax()) for first, end in ends), binary_solution.lower_bound

    def _limit(self, level: int, upper: int) -> Row:
        return Row({column: cost for column, cost in enumerate(self.costs(level)) if cost}, upper=upper)

    def as_columns(self, forms: tuple[int, ...]) -> list[float]:
        chosen = [choice[form] for choice, form in zip(self.problem.choices, forms, strict=True)]
        computed = {use for form in chosen for use in form.gives}
        values = np.zeros(self.columns)
        values[[first + form for first, form in zip(self.starts, forms, strict=False)]] = 1
        values[[self.column_of[use] for form in chosen for use in form.needs if use not in computed]] = 1
        return list(values.tolist())
