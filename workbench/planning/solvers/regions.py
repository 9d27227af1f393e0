"""The independent parts of an integer program, each of which can be solved alone.

Two operators belong to one region if a value ties them: both use it, and how they use it depends on their forms. An
operator with one form, or that uses a value alike in all its forms, ties nothing. The least cost is then the sum of
those of the regions, component by component.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from workbench.planning.solvers.integer_program import Form, IntegerProgram, OrderedValue

_Uses = tuple[frozenset[OrderedValue], frozenset[OrderedValue]]  # given and needed


@dataclass(frozen=True)
class IndependentRegion:
    """problem: the choices of the region, and one more with the uses that its values have in any case.

    choices: for each choice but the last, its index in the whole problem.
    """

    problem: IntegerProgram
    choices: tuple[int, ...]


@dataclass
class _Fixed:
    """Uses of a value that do not depend on forms. Sets with an order, so that each run states the same program."""

    gives: dict[OrderedValue, None] = field(default_factory=dict)
    needs: dict[OrderedValue, None] = field(default_factory=dict)


def regions(problem: IntegerProgram) -> Iterator[IndependentRegion]:
    """The regions, in the order of their first choice. What ties no choice to another is not in any."""
    fixed: dict[int, _Fixed] = defaultdict(_Fixed)
    varying: dict[int, set[int]] = {}  # by choice: the values of which it depends on the form how they are used
    for index, forms in enumerate(problem.choices):
        by_value = [_by_value(form) for form in forms]
        varying[index] = set()
        for value in dict.fromkeys(value for uses in by_value for value in uses):
            first, *others = (uses.get(value, (frozenset(), frozenset())) for uses in by_value)
            if all(other == first for other in others):
                fixed[value].gives.update((use, None) for use in forms[0].gives if use[0] == value)
                fixed[value].needs.update((use, None) for use in forms[0].needs if use[0] == value)
            else:
                varying[index].add(value)
    for choices in _tied(varying):
        if len(problem.choices[choices[0]]) == 1:
            continue
        values = dict.fromkeys(value for index in choices for value in sorted(varying[index]))
        parts = [tuple(_restricted(form, values) for form in problem.choices[index]) for index in choices]
        around = [fixed[value] for value in values]
        border = Form(
            (0,) * len(parts[0][0].cost),
            tuple(use for uses in around for use in uses.gives),
            tuple(use for uses in around for use in uses.needs),
        )
        yield IndependentRegion(problem.with_choices((*parts, (border,))), choices)


def _by_value(form: Form) -> dict[int, _Uses]:
    gives: dict[int, set[OrderedValue]] = defaultdict(set)
    needs: dict[int, set[OrderedValue]] = defaultdict(set)
    for use in form.gives:
        gives[use[0]].add(use)
    for use in form.needs:
        needs[use[0]].add(use)
    return {value: (frozenset(gives[value]), frozenset(needs[value])) for value in {**gives, **needs}}


def _restricted(form: Form, values: dict[int, None]) -> Form:
    return Form(
        form.cost,
        tuple(use for use in form.gives if use[0] in values),
        tuple(use for use in form.needs if use[0] in values),
    )


def _tied(varying: dict[int, set[int]]) -> list[tuple[int, ...]]:
    """The choices that values tie together, directly or through others."""
    users: dict[int, list[int]] = defaultdict(list)
    for index, values in varying.items():
        for value in values:
            users[value].append(index)
    seen: set[int] = set()
    result = []
    for first in varying:
        if first in seen:
            continue
        seen.add(first)
        waiting, found = [first], []
        while waiting:
            index = waiting.pop()
            found.append(index)
            near = (other for value in varying[index] for other in users.pop(value, ()))
            for other in near:
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        result.append(tuple(sorted(found)))
    return result
