"""The cheapest form of each operator, where forms give and need values in any number of orders: an integer program.

A value costs once for each order that a reader needs and its producer does not give. `solving.py` finds the least cost.

Source: multiway cut, Dahlhaus et al. 1994; layouts as an integer program: PBQP, Scholz and Eckstein 2002.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    order_costs:      of orders that cost something else than others of their value.
    """

    choices: tuple[tuple[Form, ...], ...]
    conversion_costs: tuple[Cost | None, ...]
    order_costs: Mapping[OrderedValue, Cost] = field(default_factory=dict)

    def conversion_cost(self, use: OrderedValue) -> Cost | None:
        """The cost of a value in an order in which it is not given; None if it cannot be paid for."""
        return self.order_costs.get(use, self.conversion_costs[use[0]])

    def with_choices(self, choices: tuple[tuple[Form, ...], ...]) -> IntegerProgram:
        """Other choices that use the same values."""
        return replace(self, choices=choices)

    def cost(self, forms: Sequence[int]) -> Cost:
        """The cost of an assignment, one form for each choice.

        Raises ValueError if a form needs a value in an order that must be given, and is not.
        """
        chosen = [choice[form] for choice, form in zip(self.choices, forms, strict=True)]
        computed = {use for form in chosen for use in form.gives}
        paid = [self.conversion_cost(use) for use in {use for form in chosen for use in form.needs} - computed]
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


def _sum(costs: Sequence[Cost]) -> Cost:
    return tuple(map(sum, zip(*costs, strict=True)))
