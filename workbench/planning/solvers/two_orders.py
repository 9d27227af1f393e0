"""An integer program in which each value has two orders, as a minimum cut.

It is one if every operator has two forms and each value that it uses has one order in the first form and the other in
the second. Then each operator is on one side of the cut, and so is the order of each value. Sides are assigned along
operators and values. They contradict each other where an operator reads a value in two orders on two paths; such a
program is not a cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from workbench.planning.solvers.integer_program import Cost, Form, IntegerProgram
from workbench.planning.solvers.minimum_cut import FIRST_SIDE, LAST_SIDE, Choice, CutProblem, SharedValue, solve_cut

SIDES = (FIRST_SIDE, LAST_SIDE)


class NotACut(ValueError):
    """The program is none of two orders."""


@dataclass
class _Value:
    """A value with two orders.

    producer, readers: choices, each with the number of the order that it uses in its first form.
    given: the number of the order in which the value is given in any case; None if a choice gives it.
    needed: the numbers of the orders that are needed in any case.
    """

    orders: tuple[Hashable, Hashable]
    producer: tuple[int, int] | None = None
    given: int | None = None
    readers: list[tuple[int, int]] = field(default_factory=list)
    needed: set[int] = field(default_factory=set)

    @property
    def tied(self) -> list[tuple[int, int]]:
        return [*self.readers, *([] if self.producer is None else [self.producer])]


def minimum_by_cut(problem: IntegerProgram) -> tuple[int, ...]:
    """The forms of least cost. problem: of a region, whose last choice is its border. Raises NotACut."""
    values = _values(problem)
    choice_flips, value_flips = _sides(problem, values)
    units = _units(problem)
    choices = [Choice((0, None)), Choice((None, 0))]  # first the two sides themselves
    index_of: dict[int, int] = {}
    for index, forms in enumerate(problem.choices):
        if len(forms) == 2:
            index_of[index] = len(choices)
            costs = [_weighted(form.cost, units) for form in forms]
            choices.append(Choice((costs[choice_flips[index]], costs[1 - choice_flips[index]])))
    shared = []
    for index, value in values.items():
        flip = value_flips.get(index, 0)
        producer = _producer(value, index_of, flip)
        readers = [index_of[reader] for reader, _ in value.readers] + [order ^ flip for order in value.needed]
        to_first, to_last = (_conversion(problem, index, value.orders[side ^ flip], units) for side in SIDES)
        shared.append(SharedValue(producer, tuple(readers), to_last, to_first))
    sides = solve_cut(CutProblem(tuple(choices), tuple(shared))).sides
    return tuple(
        sides[index_of[index]] ^ choice_flips[index] if index in index_of else 0
        for index in range(len(problem.choices))
    )


def _producer(value: _Value, index_of: dict[int, int], flip: int) -> int:
    if value.producer is not None:
        return index_of[value.producer[0]]
    assert value.given is not None
    return value.given ^ flip


def _conversion(problem: IntegerProgram, value: int, order: Hashable, units: tuple[int, ...]) -> int:
    cost = problem.conversion_cost((value, order))
    if cost is None:
        raise NotACut("an order cannot be paid for")
    return _weighted(cost, units)


def _values(problem: IntegerProgram) -> dict[int, _Value]:
    """The values and how they are used."""
    orders: dict[int, dict[Hashable, None]] = defaultdict(dict)
    for forms in problem.choices:
        if len(forms) > 2:
            raise NotACut("an operator has more than two forms")
        for form in forms:
            for value, order in (*form.gives, *form.needs):
                orders[value][order] = None
    result, (border,) = {}, problem.choices[-1]
    for value, known in orders.items():
        if len(known) > 2:
            raise NotACut("a value has more than two orders")
        if len(known) == 2:
            first, last = known
            result[value] = _Value((first, last))
        elif (value, *known) not in border.gives:
            raise NotACut("only some forms use the value")
    for index, forms in enumerate(problem.choices):
        for value in dict.fromkeys(value for form in forms for value, _ in (*form.gives, *form.needs)):
            if value in result:
                _enter(result[value], index, [_orders(form, value, result[value].orders) for form in forms])
    if any((value.producer is None) == (value.given is None) for value in result.values()):
        raise NotACut("a value is given by no operator, or by several")
    return result


def _orders(form: Form, value: int, orders: tuple[Hashable, Hashable]) -> tuple[set[int], set[int]]:
    """The numbers of the orders in which the form gives and needs the value."""
    return (
        {orders.index(order) for of, order in form.gives if of == value},
        {orders.index(order) for of, order in form.needs if of == value},
    )


def _enter(value: _Value, index: int, forms: Sequence[tuple[set[int], set[int]]]) -> None:
    """Enter what a choice gives and needs of the value."""
    gives, needs = [given for given, _ in forms], [needed for _, needed in forms]
    if any(len(given) > 1 for given in gives):
        raise NotACut("a form gives a value in both orders")
    if gives[0] == gives[-1]:
        if gives[0] and value.given is not None:
            raise NotACut("a value is given twice")
        value.given = next(iter(gives[0]), value.given)
    elif not all(gives) or value.producer is not None:
        raise NotACut("only one form gives the value, or two operators do")
    else:
        value.producer = (index, next(iter(gives[0])))
    value.needed |= needs[0] & needs[-1]
    if needs[0] == needs[-1]:
        return
    if not all(needs):
        raise NotACut("only one form needs the value")
    (number,) = needs[0] - needs[-1] or needs[0]  # a form that needs both orders has the other one in any case
    value.readers.append((index, number))


def _sides(problem: IntegerProgram, values: dict[int, _Value]) -> tuple[dict[int, int], dict[int, int]]:
    """By choice, the form that is on the first side; by value, the number of the order that is."""
    near: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by choice: values, and the order in its first form
    for index, value in values.items():
        for choice, order in value.tied:
            near[choice].append((index, order))
    choice_flips: dict[int, int] = {}
    value_flips: dict[int, int] = {}
    for start in range(len(problem.choices)):
        if start in choice_flips:
            continue
        choice_flips[start] = 0
        waiting = [start]
        while waiting:
            choice = waiting.pop()
            for index, order in near[choice]:
                flip = order ^ choice_flips[choice]
                if value_flips.setdefault(index, flip) != flip:
                    raise NotACut("an operator uses a value on both sides")
                for other, other_order in values[index].tied:
                    other_flip = other_order ^ flip
                    if other not in choice_flips:
                        waiting.append(other)
                    if choice_flips.setdefault(other, other_flip) != other_flip:
                        raise NotACut("an operator uses a value on both sides")
    return choice_flips, value_flips


def _units(problem: IntegerProgram) -> tuple[int, ...]:
    """A weight for each component of a cost, larger than any sum of those after it: weighted, costs are one number."""
    forms = [form for choice in problem.choices for form in choice]
    uses = dict.fromkeys(use for form in forms for use in form.needs)
    costs = [*(form.cost for form in forms), *filter(None, map(problem.conversion_cost, uses))]
    units = [1]
    for parts in reversed(list(zip(*costs, strict=True))[1:]):
        units.append(units[-1] * (sum(parts) + 1))
    return tuple(reversed(units))


def _weighted(cost: Cost, units: tuple[int, ...]) -> int:
    return sum(unit * part for unit, part in zip(units, cost, strict=True))
