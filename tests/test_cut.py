"""The minimum cut against every assignment tried, and what it proves."""

import itertools
import random

import pytest

from workbench.solvers.minimum_cut import (
    FIRST_SIDE,
    LAST_SIDE,
    Choice,
    CutProblem,
    CutSolution,
    SharedValue,
    solve_cut,
)


def random_problem(seed: int, directed: bool = False) -> CutProblem:
    """Up to 12 operators in order, each value read by some later ones; some operators have no choice.

    directed: the way back from the second layout costs something else.
    """
    draw = random.Random(seed)
    size = draw.randint(1, 12)
    kinds = [(None, 0), (0, None), (0, 0), (0, 0), (0, 0), (draw.randint(0, 5), draw.randint(0, 5))]
    choices = tuple(Choice(draw.choice(kinds)) for _ in range(size))
    values = []
    for producer in range(size - 1):
        readers = tuple(draw.randrange(producer + 1, size) for _ in range(draw.randint(0, 3)))
        values.append(SharedValue(producer, readers, draw.randint(0, 9), draw.randint(0, 9) if directed else None))
    return CutProblem(choices, tuple(values))


def brute_force(problem: CutProblem) -> CutSolution:
    """The minimum by trying every assignment."""
    tried = itertools.product((FIRST_SIDE, LAST_SIDE), repeat=len(problem.choices))
    cost, sides = min((cost, sides) for sides in tried if (cost := problem.cost(sides)) is not None)
    return CutSolution(sides, cost, cost)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("start", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(100, 1000, 100))])
def test_the_cut_is_what_brute_force_finds(start, directed):
    for seed in range(start, start + 100):
        problem = random_problem(seed, directed)
        solution = solve_cut(problem)
        assert solution.cost == solution.lower_bound == brute_force(problem).cost, seed
        assert problem.cost(solution.sides) == solution.cost


def test_a_value_is_paid_once_for_all_its_readers():
    """Three readers want the other layout: one transpose, not three."""
    wants_last = Choice((None, 0))
    problem = CutProblem((Choice((0, None)), wants_last, wants_last, wants_last), (SharedValue(0, (1, 2, 3), 7),))
    assert solve_cut(problem).cost == 7


def test_it_is_cheaper_to_turn_an_operator_than_its_value():
    problem = CutProblem(
        (Choice((0, None)), Choice((0, 3)), Choice((None, 0))), (SharedValue(0, (1,), 2), SharedValue(1, (2,), 9))
    )
    solution = solve_cut(problem)
    assert solution.sides == (FIRST_SIDE, LAST_SIDE, LAST_SIDE)
    assert solution.cost == 5


def test_weights_beyond_any_machine_number_are_exact():
    huge = 2**200
    problem = CutProblem(
        (Choice((0, None)), Choice(), Choice((None, 0))), (SharedValue(0, (1,), huge + 1), SharedValue(1, (2,), huge))
    )
    assert solve_cut(problem).cost == huge


def test_a_choice_without_a_layout_is_refused():
    with pytest.raises(ValueError, match="neither layout"):
        solve_cut(CutProblem((Choice((None, None)),), ()))
