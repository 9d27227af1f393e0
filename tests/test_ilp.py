"""The integer program against every assignment tried: by search, and by regions with a cut where there are two orders."""

import itertools
import random
import time
from dataclasses import replace

import pytest

from tests.test_cut import random_problem as random_cut
from workbench.planning.solvers import branching, integer_program, minimum_cut, two_orders
from workbench.planning.solvers.binary_program import BinarySolution
from workbench.planning.solvers.integer_program import Form, IntegerProgram, IntegerSolution
from workbench.planning.solvers.regions import regions
from workbench.planning.solvers.solving import solve_integer_program

LABELS = ("NCHW", "NHWC", "NHCW", "CNHW")


def random_problem(seed: int) -> IntegerProgram:
    """Up to 6 operators in order with up to 4 forms each, values in 3 or 4 orders; some forms lead to another order."""
    draw = random.Random(seed)
    labels = LABELS[: draw.randint(3, 4)]
    size = draw.randint(1, 6)
    reads = [[v for v in range(index) if draw.random() < 0.5] for index in range(size)]
    choices = []
    for index in range(size):
        taken = draw.sample(labels, draw.randint(1, len(labels)))
        forms = []
        for label in taken:
            given = label if draw.random() < 0.8 else draw.choice(labels)
            needs = [(value, label if draw.random() < 0.9 else draw.choice(labels)) for value in reads[index]]
            forms.append(Form((draw.choice([0, 0, 0, 3]), draw.randint(0, 1)), ((index, given),), (*needs, *needs[:1])))
        choices.append(tuple(forms))
    return IntegerProgram(tuple(choices), tuple((draw.randint(0, 9), 1) for _ in range(size)))


def brute_force(problem: IntegerProgram) -> integer_program.Cost:
    """The least cost by trying every assignment."""
    return min(problem.cost(forms) for forms in itertools.product(*(range(len(c)) for c in problem.choices)))


def from_cut(problem: minimum_cut.CutProblem) -> IntegerProgram:
    """The same problem, its two sides as orders."""
    sides = [[side for side, cost in enumerate(choice.costs) if cost is not None] for choice in problem.choices]
    choices = []
    for index, choice in enumerate(problem.choices):
        given = [number for number, value in enumerate(problem.values) if value.producer == index]
        read = [number for number, value in enumerate(problem.values) if index in value.readers]
        forms = [
            Form((choice.costs[side],), tuple((v, side) for v in given), tuple((v, side) for v in read))
            for side in sides[index]
        ]
        choices.append(tuple(forms))
    return IntegerProgram(tuple(choices), tuple((value.weight,) for value in problem.values))


def two_order_problem(seed: int) -> IntegerProgram:
    """Up to 7 operators in order, each with one or two forms that use values in two orders, some on a side of their own.

    A form may need a value in both orders, or only in one of them. Some orders cost something else than others.
    """
    draw = random.Random(seed)
    size = draw.randint(2, 7)
    choices = []
    for index in range(size):
        reads = [v for v in range(index) if draw.random() < 0.5]
        turned = {value: draw.random() < 0.2 for value in (*reads, index)}
        both = {value for value in reads if draw.random() < 0.1}
        alone = {value for value in reads if draw.random() < 0.05}
        forms = []
        for side in draw.sample((0, 1), draw.choice((1, 2, 2))):
            needs = [(v, order) for v in reads for order in (0, 1) if v in both or order == side ^ turned[v]]
            needs = [use for use in needs if use[0] not in alone or side]
            forms.append(
                Form((draw.choice((0, 0, 5)), draw.randint(0, 1)), ((index, side ^ turned[index]),), (*needs,))
            )
        choices.append(tuple(forms))
    costs = tuple((draw.randint(0, 9), 1) for _ in range(size))
    asymmetric = {(v, 1): (draw.randint(0, 9), 0) for v in range(size) if draw.random() < 0.3}
    return IntegerProgram(tuple(choices), costs, asymmetric)


def by_search(problem: IntegerProgram) -> IntegerSolution:
    return branching.search(problem, time.monotonic() + 60, (0,) * len(problem.choices))


STARTS = [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (100, 200))]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("solve", [solve_integer_program, by_search])
@pytest.mark.parametrize("draw", [random_problem, two_order_problem])
def test_the_least_cost_is_what_brute_force_finds(draw, solve, start):
    for seed in range(start, start + 100):
        problem = draw(seed)
        solution = solve(problem)
        assert solution.cost == problem.cost(solution.forms) == brute_force(problem), seed
        assert solution.lower_bound == solution.cost[0] and solution.gap == 0


@pytest.mark.parametrize("start", STARTS)
def test_with_two_orders_it_is_the_minimum_cut(start):
    for seed in range(start, start + 100):
        drawn = random_cut(seed)
        problem = replace(
            drawn, values=tuple(minimum_cut.SharedValue(v.producer, v.readers, v.weight) for v in drawn.values)
        )
        program, least = from_cut(problem), (minimum_cut.solve_cut(problem).cost,)
        assert by_search(program).cost == least == solve_integer_program(program).cost, seed
        for region in regions(program):
            two_orders.minimum_by_cut(region.problem)  # none needs a search


@pytest.mark.parametrize("start", [0, pytest.param(150, marks=pytest.mark.slow)])
def test_a_cut_has_the_least_cost_of_its_region(start):
    """Most regions are a cut; the others have a value that is needed by one form alone, or on two sides of an operator."""
    cut = other = 0
    for seed in range(start, start + 150):
        for region in regions(two_order_problem(seed)):
            try:
                forms = two_orders.minimum_by_cut(region.problem)
            except two_orders.NotACut:
                other += 1
                continue
            cut += 1
            assert region.problem.cost(forms) == brute_force(region.problem), seed
    assert cut > 4 * other > 0


def test_components_of_a_cost_are_compared_one_after_the_other_by_a_cut():
    """One unit of the first weighs more than all of the second, and that more than all of the third."""
    forms = [(0, 0, 5), (0, 5, 0), (1, 0, 0)]
    for better, worse in itertools.combinations(forms, 2):
        choices = (*((Form(worse), Form(better)) for _ in range(9)), (Form((0, 0, 0)),))
        assert two_orders.minimum_by_cut(IntegerProgram(choices, ())) == (*(1,) * 9, 0)
    gives = tuple(Form((0, 0, cost), ((0, order),)) for order, cost in (("a", 0), ("b", 9)))
    reader = (Form((0, 0, 0), needs=((0, "b"),)),)
    for costs, chosen in (({(0, "b"): (0, 1, 0)}, 1), ({(0, "b"): (0, 0, 1)}, 0)):
        problem = IntegerProgram((gives, reader), ((9, 9, 9),), costs)
        assert two_orders.minimum_by_cut(problem) == (chosen, 0)


GIVEN_A = Form((0,), gives=((0, "a"),))
TURNED = tuple(Form((0,), gives=((0, order),)) for order in "ab")
NO_CUT = {
    "an operator has more than two forms": ((*TURNED, Form((1,), gives=((0, "a"),))), (Form((0,)),)),
    "a value has more than two orders": (TURNED, (Form((0,), needs=((0, "a"), (0, "b"), (0, "c"))),)),
    "only some forms use the value": ((Form((0,), needs=((0, "a"),)), Form((0,))), (Form((0,)),)),
    "a form gives a value in both orders": (TURNED, (Form((0,), gives=((0, "a"), (0, "b"))),)),
    "a value is given twice": ((GIVEN_A,), (GIVEN_A,), (Form((0,), needs=((0, "b"),)),)),
    "only one form gives the value, or two operators do": (TURNED, TURNED, (Form((0,)),)),
    "a value is given by no operator, or by several": (TURNED, (GIVEN_A,)),
    "only one form gives the value": ((GIVEN_A, Form((0,))), (Form((0,), gives=((1, "a"),), needs=((0, "b"),)),)),
    "only one form needs the value": (
        (Form((0,), needs=((0, "a"),)), Form((1,))),
        (Form((0,), gives=((0, "a"),), needs=((0, "b"),)),),
    ),
    "an operator uses a value on both sides": (
        TURNED,
        tuple(Form((0,), gives=((1, order),), needs=((0, order),)) for order in "ab"),
        tuple(Form((0,), needs=((0, first), (1, last))) for first, last in ("ab", "ba")),
        (Form((0,), needs=((0, "a"), (1, "a"))),),
    ),
}


@pytest.mark.parametrize("reason", NO_CUT)
def test_what_is_no_cut_says_why_and_is_searched(reason):
    problem = IntegerProgram(NO_CUT[reason], ((3,), (4,)))
    with pytest.raises(two_orders.NotACut, match=reason):
        two_orders.minimum_by_cut(problem)
    assert by_search(problem).cost == solve_integer_program(problem).cost == brute_force(problem)


def test_an_order_that_cannot_be_paid_for_is_no_cut():
    problem = IntegerProgram(
        (TURNED, (Form((0,), needs=((0, "a"), (1, "a"))),), (Form((0,), gives=((1, "b"),)),)), (None, (2,))
    )
    with pytest.raises(two_orders.NotACut, match="cannot be paid for"):
        two_orders.minimum_by_cut(problem)
    for solve in (solve_integer_program, by_search):
        assert solve(problem) == IntegerSolution((0, 0, 0), (2,), 2)  # the form that gives what is needed


READS = tuple(Form((cost,), needs=((0, order),)) for order, cost in (("b", 0), ("a", 1)))
CUTS = {
    "given before it is read": (((GIVEN_A,), READS, (Form((0,)),)), (0, 1, 0)),
    "given where others end": ((READS, (GIVEN_A,)), (1, 0)),
    "needed by one form, and given in any case": (
        (
            (Form((0,), needs=((1, "a"), (0, "b"))), Form((1,), needs=((0, "a"),))),
            (Form((0,), gives=((0, "a"), (1, "a"))),),
        ),
        (1, 0),
    ),
}


@pytest.mark.parametrize("name", CUTS)
def test_what_is_a_cut_is_solved_as_one(name):
    choices, forms = CUTS[name]
    problem = IntegerProgram(choices, ((3,), (4,)))
    assert two_orders.minimum_by_cut(problem) == forms and problem.cost(forms) == brute_force(problem)


@pytest.mark.parametrize("needs", [("a", "ab"), ("ab", "a"), ("b", "ab"), ("ab", "ab")])
def test_a_form_that_needs_both_orders_pays_for_the_one_that_is_not_given(needs):
    reader = tuple(Form((cost,), needs=tuple((0, order) for order in form)) for cost, form in enumerate(needs))
    for gives in (TURNED, TURNED[::-1]):
        problem = IntegerProgram((gives, reader, (Form((0,)),)), ((3,),))
        assert problem.cost(two_orders.minimum_by_cut(problem)) == brute_force(problem)


def test_regions_are_tied_by_values_that_forms_use_differently():
    """Two pairs of operators; the first value of each ties the pair, and the last is read alike by all."""

    def form(order, gives, *needs):
        return Form((0,), ((gives, order),), (*((value, order) for value in needs), (4, "a")))

    pairs = [tuple(form(order, *values) for order in "ab") for values in ((0,), (1, 0), (2,), (3, 2))]
    given = (Form((0,), ((4, "a"),)),)
    found = list(regions(IntegerProgram((*pairs, given), ((1,),) * 5)))
    assert [region.choices for region in found] == [(0, 1), (2, 3)]
    assert found[1].problem.choices[0][1] == Form((0,), ((2, "b"),))
    assert found[1].problem.choices[-1] == (Form((0,)),)  # the value that all read is none of the region


def test_a_value_is_paid_once_for_each_order():
    """Two readers want one other order, a third yet another: two transposes, not three."""
    readers = [(Form((0,), needs=((0, label),)),) for label in ("NHWC", "NHWC", "NHCW", "NCHW")]
    problem = IntegerProgram(((Form((0,), gives=((0, "NCHW"),)),), *readers), ((7,),))
    assert solve_integer_program(problem).cost == (14,)


def test_what_decides_comes_before_what_breaks_ties():
    """A byte more is not worth a thousand operators; of what is equal in bytes, the fewest operators."""
    many, few, dear = (Form((4, 1000)), Form((4, 10)), Form((5, 0)))
    assert solve_integer_program(IntegerProgram(((many, few, dear),), ())).forms == (1,)


def test_bytes_of_a_large_model_are_exact():
    huge = 2**40
    forms = (Form((huge + 1,), gives=((0, "a"),)), Form((0,), gives=((0, "b"),)))
    problem = IntegerProgram((forms, (Form((0,), needs=((0, "a"),)),)), ((huge,),))
    assert solve_integer_program(problem) == IntegerSolution((1, 0), (huge,), huge)


def test_the_same_problem_gives_the_same_forms():
    problem = random_problem(7)
    assert len({solve_integer_program(problem).forms for _ in range(3)}) == 1


def test_without_time_the_first_forms_stay_and_nothing_is_proven():
    problem = IntegerProgram(((Form((3,)), Form((1,))), (Form((1,)),)), ())
    solution = solve_integer_program(problem, seconds=0)
    assert (solution.forms, solution.cost, solution.lower_bound) == ((0, 0), (4,), 1)
    assert solution.gap == 0.75


def test_a_problem_without_a_choice():
    assert solve_integer_program(IntegerProgram((), ())).gap == 0
    assert solve_integer_program(IntegerProgram(((Form((3,)),),), ())) == IntegerSolution((0,), (3,), 3)


def test_a_value_that_no_form_gives_cannot_be_needed():
    problem = IntegerProgram(((Form((0,), gives=((0, "a"),)),), (Form((0,), needs=((0, "b"),)),)), (None,))
    with pytest.raises(ValueError, match="needs a value that no form gives"):
        problem.cost((0, 0))


def test_the_search_begins_at_the_start_and_leaves_it_for_nothing_dearer():
    problem = IntegerProgram(((Form((1,)), Form((3,)), Form((1,))),), ())
    assert solve_integer_program(problem, 0, start=(1,)) == IntegerSolution((1,), (3,), 0)
    assert solve_integer_program(problem, start=(1,)).cost == (1,)
    assert IntegerSolution((0,), (4,), 3).gap == 0.25


def test_what_only_forms_can_give_is_given_by_one_where_it_is_needed():
    gives = (Form((0,), gives=((0, "a"),)), Form((2,), gives=((0, "b"),)))
    needs = (Form((5,), needs=((0, "a"), (1, "c"))), Form((0,), needs=((0, "b"), (1, "c"))))
    other = (Form((1,), gives=((1, "d"),)),)
    solution = solve_integer_program(IntegerProgram((gives, needs, other), (None, (4,))))
    assert solution == IntegerSolution((1, 1, 0), (2 + 0 + 1 + 4,), 7)
    assert solve_integer_program(IntegerProgram((), ())) == IntegerSolution((), (0,), 0)


def test_the_largest_number_among_the_forms_of_a_choice_is_taken(monkeypatch):
    """The solver's are nearly 0 and nearly 1; without a solution the start stays."""
    problem = IntegerProgram(((Form((2,)), Form((1,))), (Form((1,)), Form((1,)))), ())
    found = BinarySolution([0.1, 0.999999, 0.0, 1.0], 2)
    monkeypatch.setattr(branching, "minimize", lambda *arguments: found)
    assert by_search(problem).forms == (1, 1)
    found = BinarySolution(None, 1)
    assert by_search(problem) == IntegerSolution((0, 0), (3,), 1)


def test_an_assignment_as_columns_keeps_every_row_at_its_cost():
    """The solver starts there."""
    for seed in range(50):
        problem = random_problem(seed)
        forms = tuple(random.Random(seed).randrange(len(choice)) for choice in problem.choices)
        program = branching._Program(problem)
        columns = program.as_columns(forms)
        assert {*columns} <= {0, 1} and len(columns) == len(program.costs(0))
        assert (
            sum(cost * column for cost, column in zip(program.costs(0), columns, strict=True)) == problem.cost(forms)[0]
        )
        for row in program.rows:
            total = sum(number * columns[column] for column, number in row.coefficients.items())
            assert total >= row.lower and (row.upper is None or total <= row.upper), seed
