"""Programs in variables that are 0 or 1 against every assignment tried."""

import itertools
import math
import random

import pytest

from workbench.planning.solvers import binary_program
from workbench.planning.solvers.binary_program import Row, minimize


def random_program(seed: int) -> tuple[list[int], list[Row], tuple[int, ...]]:
    """Costs, rows of each kind of bounds, and an assignment that keeps them."""
    draw = random.Random(seed)
    size, unit = draw.randint(1, 6), draw.choice([1, 6, 1000])
    costs = [unit * draw.randint(0, 9) for _ in range(size)]
    start = tuple(draw.randint(0, 1) for _ in range(size))
    rows = []
    for _ in range(draw.randint(1, 4)):
        row = {column: draw.choice([-4, -2, 1, 2, 3, 6]) for column in draw.sample(range(size), draw.randint(1, size))}
        total = value_of(Row(row), start)
        lower, upper = draw.choice(
            [(total, total), (total - draw.randint(0, 2), None), (None, total + draw.randint(0, 2))]
        )
        rows.append(Row(row, lower, upper))
    return costs, rows, start


def value_of(row: Row, columns) -> int:
    return sum(number * columns[column] for column, number in row.coefficients.items())


def is_kept(row: Row, columns) -> bool:
    return (row.lower is None or value_of(row, columns) >= row.lower) and (
        row.upper is None or value_of(row, columns) <= row.upper
    )


def least(costs, rows) -> int:
    tried = itertools.product((0, 1), repeat=len(costs))
    return min(cost_of(costs, columns) for columns in tried if all(is_kept(row, columns) for row in rows))


def cost_of(costs, columns) -> int:
    return sum(cost * round(value) for cost, value in zip(costs, columns, strict=True))


def test_the_least_cost_is_what_every_assignment_tried_gives_and_is_proven():
    for seed in range(150):
        costs, rows, start = random_program(seed)
        solution = minimize(costs, rows, start, 20.0)
        columns = [round(value) for value in solution.values]
        assert len(columns) == len(costs) and all(is_kept(row, columns) for row in rows), seed
        assert cost_of(costs, columns) == solution.lower_bound == least(costs, rows), seed


def test_a_bound_is_not_taken_at_its_word(monkeypatch):
    """The solver's is a number of floating point, which may be too high by its rounding."""
    wanted = {7.005: 7, 7.02: 8, 1e15: 10**15 - 100, -3.5: 0, -math.inf: 0}

    class Solver:
        def __init__(self, bound):
            self.bound = bound

        def getInfo(self):
            return type("Info", (), {"mip_dual_bound": self.bound})

        def getSolution(self):
            return type("Solution", (), {"col_value": []})

        def __getattr__(self, name):
            return lambda *arguments: None

    for bound, proven in wanted.items():
        monkeypatch.setattr(binary_program, "_solver", lambda highspy, seconds, bound=bound: Solver(bound))
        solution = minimize([1], [], [0.0], 1.0)
        assert solution.lower_bound == proven and solution.values is None


@pytest.mark.parametrize(
    ("row", "scaled"),
    [
        (Row({0: 2, 1: -4}, 3, 7), Row({0: 1, 1: -2}, 2, 3)),
        (Row({0: 6, 3: 9}, -4, -4), Row({0: 2, 3: 3}, -1, -2)),
        (Row({0: 5}, None, 9), Row({0: 1}, None, 1)),
        (Row({0: 5}, 1, None), Row({0: 1}, 1, None)),
        (Row({}, 0, 0), Row({}, 0, 0)),
    ],
)
def test_a_row_in_its_smallest_numbers_is_as_tight(row, scaled):
    assert binary_program._scaled_row(row) == scaled


def test_the_solver_is_told_to_be_exact_and_deterministic_within_the_time():
    told = {}
    solver = type("Highs", (), {"setOptionValue": lambda self, name, value: told.update({name: value})})
    binary_program._solver(type("highspy", (), {"Highs": solver}), 7.0)
    exact = {"mip_rel_gap": 0.0, "mip_abs_gap": 0.5, "threads": 1, "random_seed": 0}
    assert told == {"output_flag": False, **exact, "time_limit": 7.0}


def test_without_time_the_start_stays():
    costs, rows = [5, 3, 4, 9], [Row({0: 1, 1: 1, 2: 1, 3: 1}, 2, 3), Row({0: 1, 3: 1}, 1)]
    solution = minimize(costs, rows, [1, 0, 0, 1], 0.0)
    assert solution.values is None or [round(value) for value in solution.values] == [1, 0, 0, 1]


def test_costs_with_a_large_common_divisor_are_exact():
    """As floating-point numbers 2^60 + 1 and 2^60 are the same."""
    unit = 2**60 + 1
    solution = minimize([3 * unit, 2 * unit], [Row({0: 1, 1: 1}, 1)], [1, 0], 20.0)
    assert solution.lower_bound == 2 * unit


def test_a_row_without_coefficients_keeps_its_bounds():
    assert binary_program._scaled_row(Row({}, -3, 3)) == Row({}, -3, 3)
