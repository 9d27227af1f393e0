"""The least cost of an integer program, region by region.

A region with few assignments is solved by trying all, a small one by search. A large one is a minimum cut where that
states it, which takes nearly linear time, and else searched too.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec

from workbench.planning.solvers.branching import search
from workbench.planning.solvers.integer_program import Cost, IntegerProgram, IntegerSolution
from workbench.planning.solvers.regions import regions
from workbench.planning.solvers.two_orders import NotACut, minimum_by_cut

_FEW = 256  # assignments, which are tried sooner than a solver is imported
_SMALL = 500  # choices, which are searched sooner than networkx is imported, and in 13 MB less


def solve_integer_program(
    problem: IntegerProgram, seconds: float = 60.0, start: Sequence[int] | None = None
) -> IntegerSolution:
    """The lexicographically least cost.

    seconds: the time limit, after which the best solution found is returned with the bound proven so far.
    start:   the assignment from which the search starts; None: the first form of every choice.
    The search is deterministic unless the time limit is reached.
    """
    deadline = time.monotonic() + seconds
    forms = [0] * len(problem.choices) if start is None else list(start)
    if not forms:
        return IntegerSolution((), (0,), 0)
    gap = 0
    for region in regions(problem):
        first = (*(forms[index] for index in region.choices), 0)
        solution = _solve_region(region.problem, deadline, first)
        gap += solution.cost[0] - solution.lower_bound
        for index, form in zip(region.choices, solution.forms, strict=False):
            forms[index] = form
    cost = problem.cost(forms)
    return IntegerSolution(tuple(forms), cost, cost[0] - gap)


def _by_trying_all(problem: IntegerProgram) -> IntegerSolution:
    costs: dict[tuple[int, ...], Cost] = {}
    for forms in itertools.product(*(range(len(choice)) for choice in problem.choices)):
        with suppress(ValueError):  # a form needs what no form gives
            costs[forms] = problem.cost(forms)
    best = min(costs, key=lambda forms: costs[forms])
    return IntegerSolution(best, costs[best], costs[best][0])


def _solve_region(problem: IntegerProgram, deadline: float, start: tuple[int, ...]) -> IntegerSolution:
    start_cost = problem.cost(start)
    if not any(start_cost):
        return IntegerSolution(start, start_cost, start_cost[0])
    if time.monotonic() >= deadline:
        return IntegerSolution(start, start_cost, 0)
    if math.prod(map(len, problem.choices)) <= _FEW:
        return _by_trying_all(problem)
    if len(problem.choices) <= _SMALL and find_spec("highspy") is not None:
        return search(problem, deadline, start)
    try:
        by_cut = minimum_by_cut(problem)
    except NotACut:
        return search(problem, deadline, start)
    cost = problem.cost(by_cut)
    return IntegerSolution(by_cut, cost, cost[0])
