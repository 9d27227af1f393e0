"""The cheapest form of each operator, where forms give and need values in any number of orders: an integer program.

There is a binary variable for each form of an operator, and one for each order in which a value
may be needed. A value costs once for each order that a reader needs and its producer does not give. With two orders the
relaxation is the minimum cut of `minimum_cut.py`, with integral vertices; with more the problem is NP-hard, and the
solver branches.

Source: multiway cut, Dahlhaus et al. 1994; layouts as an integer program: PBQP, Scholz and
Eckstein 2002. Solver: HiGHS, Huangfu and Hall 2018.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from workbench.planning.solvers.binary_program import Row, minimize

Cost = tuple[int, ...]  # compared lexicographically
OrderedValue = tuple[int, Hashable]  # a value, and the order in which it is given or needed


@dataclass(frozen=True)
class Form:
    """One way to run an operator.

    cost:         the cost of the form itself, without the values.
    gives, needs: results and operands, each in an order.
    """

    cost: Cost
    gives: tuple[OrderedValue, ...] = ()
    needs: tuple[OrderedValue, ...] = ()


@dataclass(frozen=True)
class IntegerProgram:
    """choices: the forms of each operator, at least one.

    conversion_costs: of each value, the cost of one further order; None: cannot be paid for.
    """

    choices: tuple[tuple[Form, ...], ...]
    conversion_costs: tuple[Cost | None, ...]

    def cost(self, forms: Sequence[int]) -> Cost:
        """The cost of an assignment, one form for each choice.

        Raises ValueError if a form needs a value in an order that must be given, and is not.
        """
        chosen = [choice[form] for choice, form in zip(self.choices, forms, strict=True)]
        computed = {use for form in chosen for use in form.gives}
        paid = [self.conversion_costs[value] for value, _ in {use for form in chosen for use in form.needs} - computed]
        if None in paid:
            raise ValueError("a form needs a value that no form gives")
        return _sum([*(form.cost for form in chosen), *(cost for cost in paid if cost is not None)])


@dataclass(frozen=True)
class IntegerSolution:
    """A form for each choice, and the cost. No assignment has a first cost component below `lower_bound`."""

    forms: tuple[int, ...]
    cost: Cost
    lower_bound: int

    @property
    def gap(self) -> float:
        """The relative gap between cost and lower bound; 0 if the cost is proven minimal."""
        return 0.0 if self.cost[0] == 0 else (self.cost[0] - self.lower_bound) / self.cost[0]


def solve_integer_program(
    problem: IntegerProgram, seconds: float = 60.0, start: Sequence[int] | None = None
) -> IntegerSolution:
    """The lexicographically least cost.

    seconds: the time limit, after which the best solution found is returned with the bound proven so far.
    start:   the assignment from which the search starts; None: the first form of every choice.
    The search is deterministic unless the time limit is reached.
    """
    deadline = time.monotonic() + seconds
    best = tuple(0 for _ in problem.choices) if start is None else tuple(start)
    if not problem.choices:
        return IntegerSolution((), (0,), 0)
    best_cost = problem.cost(best)
    bounds: list[int] = []
    if all(len(choice) == 1 for choice in problem.choices):
        return IntegerSolution(best, best_cost, best_cost[0])
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


def _sum(costs: Sequence[Cost]) -> Cost:
    return tuple(map(sum, zip(*costs, strict=True)))


class _Program:
    """The problem as rows and columns: a column for each form, then one for each needed order of a value."""

    def __init__(self, problem: IntegerProgram) -> None:
        self.problem = problem
        self.starts: list[int] = np.cumsum([0, *(len(choice) for choice in problem.choices)]).tolist()
        needed = dict.fromkeys(use for choice in problem.choices for form in choice for use in form.needs)
        payable = (use for use in needed if problem.conversion_costs[use[0]] is not None)
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
        conversion_costs = (self.problem.conversion_costs[value] for value, _ in self.column_of)
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
