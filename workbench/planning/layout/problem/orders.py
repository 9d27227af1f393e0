"""The choice of an order of axes for every operator as an integer program, with any number of orders.

Values that differ only by Transposes are one value in several orders; Transposes are not operators here. The orders
of each value are those of `operator_orders.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.analysis.metrics.transpose_cost import (
    Counts,
    count_transposes,
    element_bytes,
    moved_by_node,
)
from workbench.ir import Graph
from workbench.ir.permutation import Permutation
from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.planning.layout.problem.cost_model import BYTES
from workbench.planning.layout.problem.operator_orders import OperatorOrders, OrderedUse
from workbench.planning.layout.problem.transpose_classes import in_memory, is_relation, transpose_classes
from workbench.planning.layout.profile import Profile
from workbench.planning.solvers.integer_program import Cost, Form, IntegerProgram, IntegerSolution, OrderedValue

FREE: Cost = (0, 0, 0)  # bytes and transposes, in the order in which they are minimized; then operators changed
CHANGED: Cost = (0, 0, 1)
BELOW_BOUND = "the graph moves less than the cheapest choice"  # as where a Transpose of a weight goes too


@dataclass(frozen=True)
class OrderProblem:
    """problem: for `solve_integer_program`.

    nodes:    the operator of each choice; None for inputs and outputs.
    perms:    for each form of each choice, how the operands are permuted; None: not at all.
    always:   the cost of transposes that no choice affects.
    complete: whether it has every order of every value; false if a value has more than MAX_ORDERS.
    """

    problem: IntegerProgram
    nodes: tuple[str | None, ...]
    perms: tuple[tuple[Permutation | None, ...], ...]
    always: int
    complete: bool


def order_problem(graph: Graph, layouts: dict[str, str], target: Profile, weigh: str = BYTES) -> OrderProblem:
    """The choices of `graph`; `weigh` is what to minimize: bytes moved or the count of transposes."""
    orders = OperatorOrders(graph, layouts, target, weigh, transpose_classes(graph))
    orders.spread()
    return _problem(graph, orders, weigh)


def _problem(graph: Graph, orders: OperatorOrders, weigh: str) -> OrderProblem:
    roots = {root: index for index, root in enumerate(r for r in orders.members if r not in orders.fixed)}

    def used(uses: list[OrderedUse]) -> tuple[OrderedValue, ...]:
        return tuple((roots[root], in_memory(order, orders.shapes[root])) for _, root, order in uses)

    interface = orders.interface()
    inputs, outputs = Form(FREE, gives=used(interface.gives)), Form(FREE, needs=used(interface.needs))
    choices: list[tuple[Form, ...]] = [(inputs,), (outputs,)]
    nodes: list[str | None] = [None, None]
    perms: list[tuple[Permutation | None, ...]] = [(None,), (None,)]
    for name, forms in orders.forms.items():
        distinct: dict[tuple[Any, ...], tuple[Form, Permutation | None]] = {}
        for perm, uses in forms.items():
            form = Form(FREE if perm is None else CHANGED, used(uses.gives), used(uses.needs))
            distinct.setdefault((form.gives, form.needs), (form, perm))
        choices.append(tuple(form for form, _ in distinct.values()))
        nodes.append(name)
        perms.append(tuple(perm for _, perm in distinct.values()))
    weights = tuple(weight_of(graph, root, orders.members[root], weigh) for root in roots)
    problem = IntegerProgram(tuple(choices), weights)
    return OrderProblem(problem, tuple(nodes), tuple(perms), always_paid(graph, orders.fixed, weigh), orders.complete)


def weight_of(graph: Graph, root: str, members: Iterable[str], weigh: str) -> Cost:
    """The cost of a Transpose of a value; `members`: the values that differ from it only by Transposes."""
    bound = (bound_shape(graph, value) for value in (root, *members))  # all have the same number of elements
    shape = next((result for result in bound if result is not None), None)
    size = 0 if shape is None else prod(shape) * element_bytes(graph, root)
    return (size, 1, 0) if weigh == BYTES else (1, size, 0)


def always_paid(graph: Graph, fixed: set[str], weigh: str) -> int:
    """The cost of transposes that always stay: those in bodies, and of values of unknown rank."""
    total = 0
    for node in graph.nodes:
        inner = [count_transposes(body) for body in node.bodies.values()]
        total += sum(c.bytes_moved if weigh == BYTES else c.transposes for c in inner)
        if node.op == "Transpose" and node.inputs[0] not in fixed and not is_relation(graph, node):
            size = (moved_by_node(graph, node) or 0) * element_bytes(graph, node.inputs[0])
            total += size if weigh == BYTES else 1
    return total


def proof(
    after: Counts,
    weigh: str,
    solution: IntegerSolution,
    always: int,
    target: Profile,
    *,
    over: str,
    beyond: str = "",
    incomplete: str = "",
) -> LayoutFacts:
    """The facts of a search: the bound, whether the resulting graph reaches it, and the gap.

    always:     the cost of transposes that no choice affects.
    over:       the class of choices that were searched, as a phrase.
    beyond:     choices of another class that may cost less, as a subject.
    incomplete: why the problem lacks choices of that class, so that there is no bound; "" if it has all.

    Transposes of unknown size count as 0 in the search. If the resulting graph has one, there is no bound.
    """
    lower_bound = solution.lower_bound + always
    reached = after.bytes_moved if weigh == BYTES else after.transposes
    unknown = after.unknown if weigh == BYTES else 0
    inexact = incomplete or ("" if reached >= lower_bound else BELOW_BOUND)
    has_bound = not inexact and not unknown
    return LayoutFacts(
        weigh=weigh,
        over=over,
        beyond=beyond,
        unknown=unknown,
        inexact=inexact,
        lower_bound=lower_bound if has_bound else None,
        certified=has_bound and solution.gap == 0 and reached == lower_bound,
        gap=solution.gap,
        demanded=tuple(target.required_layouts),
    )
