"""The minimum cut against every assignment tried, and what it proves."""

import itertools
import random

import pytest

from workbench.planning.solvers import minimum_cut
from workbench.planning.solvers.minimum_cut import (
    FIRST_SIDE,
    LAST_SIDE,
    SINK,
    SOURCE,
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
        solve_cut(CutProblem((Choice(), Choice((None, None))), ()))


def test_flow_edges_and_their_capacities():
    """A value for one reader is an edge each way, one for several passes a vertex of its own; what is free is no edge."""
    choices = (Choice((0, None)), Choice((2, 5)), Choice((4, 1)), Choice((None, 0)), Choice())
    values = (
        *(SharedValue(0, (1,), 7, 6), SharedValue(1, (2, 3), 3), SharedValue(4, (3,), 0), SharedValue(2, (2,), 9)),
        SharedValue(4, (2,), 0, 8),
    )
    edges = dict(minimum_cut._edges(CutProblem(choices, values)))
    assert edges == {
        (SOURCE, 1): 3 + 7,
        (2, SINK): 3,
        (1, ("to last", 1)): 3,
        (("to first", 1), 1): 3,
        (("to last", 1), 2): None,
        (("to last", 1), SINK): None,
        (2, ("to first", 1)): None,
        (2, 4): 8,
    }
    assert minimum_cut._fixed_cost(CutProblem(choices, values)) == 0 + 2 + 1 + 0 + 0


def test_the_cost_of_an_assignment():
    problem = CutProblem((Choice((1, 2)), Choice((None, 4))), (SharedValue(0, (1,), 10, 20),))
    assert [problem.cost(sides) for sides in ((0, 1), (1, 1), (1, 0))] == [1 + 4 + 10, 2 + 4, None]


def test_the_way_back_costs_as_much_unless_said():
    assert [SharedValue(0, (1,), 7, back).paid(side) for back in (None, 6) for side in (FIRST_SIDE, LAST_SIDE)] == [
        7,
        7,
        7,
        6,
    ]
