"""The choice of an order of axes for every operator as an integer program, with any number of orders.

Values that differ only by Transposes are one value in several orders; Transposes are not operators here. The orders
of each value are those of `operator_orders.py`.

A cost has four components, compared one after the other: what is minimized; bytes or Transposes, whichever is not
minimized; Reshapes in place of Transposes that move no element; operators changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, compose, inverse
from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.planning.layout.problem.cost_model import BYTES, COUNT, TIME
from workbench.planning.layout.problem.operator_orders import OperatorOrders, OrderedUse, Uses
from workbench.planning.layout.problem.times import OperatorTimes
from workbench.planning.layout.problem.transpose_classes import in_memory, is_relation, transpose_classes
from workbench.planning.layout.profile import Profile
from workbench.planning.solvers.integer_program import Cost, Form, IntegerProgram, IntegerSolution, OrderedValue

FREE: Cost = (0, 0, 0, 0)
CHANGED: Cost = (0, 0, 0, 1)
_RESHAPE: Cost = (0, 0, 1, 0)
BELOW_BOUND = "the graph moves less than the cheapest choice"  # as where a Transpose of a weight goes too


@dataclass(frozen=True)
class OrderProblem:
    """problem: for `solve_integer_program`.

    nodes:      the operator of each choice; None for inputs, with what is given as written, and outputs.
    perms:      for each form of each choice, how the operands are permuted; None: not at all.
    always:     the number of transposes that no choice affects if that is minimized, else the bytes that they move.
    kept:       how many operators keep their order though a value of theirs may have another.
    incomplete: why it lacks orders of a value or times, so that there is no bound, as a clause; "" if it has all.
    conversions: by result of a Transpose of the graph, the value in the order that it gives.
    """

    problem: IntegerProgram
    nodes: tuple[str | None, ...]
    perms: tuple[tuple[Permutation | None, ...], ...]
    always: int
    kept: int
    incomplete: str
    conversions: Mapping[str, OrderedValue]

    @property
    def over(self) -> str:
        """The choices that were searched, as a subject that denies."""
        orders = "no choice among the orders of axes that the graph's Transposes and the target name"
        if not self.kept:
            return orders
        kept = "1 operator keeps its" if self.kept == 1 else f"{self.kept:,} operators keep their"
        return f"{orders}, where {kept} own,"

    def chosen(self, forms: Iterable[int]) -> dict[str, Permutation]:
        """By operator that changes, how its operands are permuted."""
        choices = zip(self.nodes, self.perms, forms, strict=True)
        return {name: perm for name, perms, form in choices if name and (perm := perms[form]) is not None}


def order_problem(graph: Graph, layouts: dict[str, str], target: Profile, weigh: str = BYTES) -> OrderProblem:
    """The choices of `graph`; `weigh` is what to minimize: bytes moved or the count of transposes."""
    return _Statement(graph, _spread(graph, layouts, target, weigh), weigh).problem()


def timed_order_problem(
    graph: Graph, layouts: dict[str, str], target: Profile, times: OperatorTimes, device: str, dtype: str
) -> OrderProblem:
    """The choices of `graph`, with the times of operators and transposes on `device` as costs; `times` is filled.

    Raises UserError if nothing can be timed there.
    """
    statement = _Statement(graph, _spread(graph, layouts, target, TIME), TIME, times)
    statement.request_times()
    times.measure(device, dtype)
    return statement.problem()


def reshape_problem(graph: Graph, layouts: dict[str, str], target: Profile, weigh: str) -> OrderProblem:
    """Only the choices between orders that are equal in memory: those that change Reshapes and nothing else."""
    return _Statement(graph, _spread(graph, layouts, target, weigh), weigh, only_views=True).problem()


def transpose_problem(graph: Graph, may_change: Callable[[Node], bool], target: Profile, weigh: str) -> OrderProblem:
    """Only the choices of operators that `may_change`, between the orders of the graph's own Transposes."""
    return _Statement(graph, _spread(graph, {}, target, weigh, may_change), weigh).problem()


def _spread(
    graph: Graph,
    layouts: dict[str, str],
    target: Profile,
    weigh: str,
    may_change: Callable[[Node], bool] = lambda node: True,
) -> OperatorOrders:
    orders = OperatorOrders(graph, layouts, target, weigh, transpose_classes(graph), may_change)
    orders.spread()
    return orders


class _Statement:
    """The orders of a graph as an integer program.

    Each value is one for what its orders are in memory. If some of them are equal there, it is a second one, in which
    they differ: that costs a Reshape.
    """

    def __init__(
        self,
        graph: Graph,
        orders: OperatorOrders,
        weigh: str,
        times: OperatorTimes | None = None,
        only_views: bool = False,
    ) -> None:
        self.graph, self.orders, self.weigh, self.times = graph, orders, weigh, times
        self.only_views = only_views
        self.roots = {root: index for index, root in enumerate(r for r in orders.members if r not in orders.fixed)}
        viewed = (root for root in self.roots if len({*orders.orders[root].values()}) < len(orders.orders[root]))
        self.views = {root: index for index, root in enumerate(viewed, len(self.roots))}
        self.all_timed = self.one_time_each = True

    def problem(self) -> OrderProblem:
        interface = self.orders.interface()
        inputs, outputs = Uses([*interface.gives, *self._given_as_written()], []), Uses([], interface.needs)
        choices: list[tuple[Form, ...]] = [(self._form(inputs, FREE),), (self._form(outputs, FREE),)]
        nodes: list[str | None] = [None, None]
        perms: list[tuple[Permutation | None, ...]] = [(None,), (None,)]
        for name in self._operators():
            distinct: dict[tuple[Any, ...], tuple[Form, Permutation | None]] = {}
            for perm, uses in self._forms(name).items():
                form = self._form(uses, self._form_cost(name, perm))
                distinct.setdefault((form.gives, form.needs), (form, perm))
            choices.append(tuple(form for form, _ in distinct.values()))
            nodes.append(name)
            perms.append(tuple(perm for _, perm in distinct.values()))
        weights = [weight_of(self.graph, root, self.orders.members[root], self.weigh) for root in self.roots]
        program = IntegerProgram(
            tuple(choices), (*weights, *(_RESHAPE for _ in self.views)), dict(self._times_of_transposes())
        )
        always = always_paid(self.graph, self.orders.fixed, self.weigh)
        incomplete, conversions = self._incomplete(), dict(self._conversions())
        return OrderProblem(program, tuple(nodes), tuple(perms), always, self._kept(), incomplete, conversions)

    def _given_as_written(self) -> Iterator[OrderedUse]:
        """The results of the operators that are in no choice."""
        for root in self.roots:
            producer = self.graph.producer(root)
            if producer is not None and producer.name not in self.orders.forms:
                yield OrderedUse(root, root, self.orders.origins[root].order)

    def _operators(self) -> Iterator[str]:
        """Those with a choice, or that values with a choice reach, in the order of the graph."""
        return (node.name for node in self.graph.nodes if node.name in self.orders.forms)

    def request_times(self) -> None:
        """Request the times that the program needs."""
        assert self.times is not None
        for name in self._operators():
            for perm in self._forms(name):
                if perm is not None:
                    self.times.request_operator(self.graph.node(name), perm)
        for root in self.roots:
            for source, order in self._pairs(root):
                self.times.request_transpose(root, compose(inverse(source), order), source)

    def _forms(self, name: str) -> Mapping[Permutation | None, Uses]:
        forms = self.orders.forms[name]
        if not self.only_views or None not in forms:
            return forms
        written = self._in_memory(forms[None])
        return {perm: uses for perm, uses in forms.items() if self._in_memory(uses) == written}

    def _in_memory(self, uses: Uses) -> tuple[set[OrderedValue], set[OrderedValue]]:
        return {*map(self._stored, uses.gives)}, {*map(self._stored, uses.needs)}

    def _stored(self, use: OrderedUse) -> OrderedValue:
        return self.roots[use.root], in_memory(use.order, self.orders.shapes[use.root])

    def _form(self, uses: Uses, cost: Cost) -> Form:
        return Form(cost, tuple(self._used(uses.gives)), tuple(self._used(uses.needs)))

    def _used(self, uses: Iterable[OrderedUse]) -> Iterator[OrderedValue]:
        for use in uses:
            yield self._stored(use)
            if use.root in self.views:
                yield self.views[use.root], use.order

    def _form_cost(self, name: str, perm: Permutation | None) -> Cost:
        changed = FREE if perm is None else CHANGED
        if self.times is None or len(self.orders.forms[name]) == 1:
            return changed
        timed = self.times.forms(name)
        self.all_timed &= timed is not None
        return (0 if timed is None else timed[perm], *changed[1:])

    def _pairs(self, root: str) -> Iterator[tuple[Permutation, Permutation]]:
        """Two orders of a value that differ in memory, once for each pair."""
        first: dict[Permutation, Permutation] = {}
        for order, stored in self.orders.orders[root].items():
            first.setdefault(stored, order)
        yield from ((source, order) for source in first.values() for order in first.values() if source != order)

    def _times_of_transposes(self) -> Iterator[tuple[OrderedValue, Cost]]:
        """Of each value in each order that another one leads to: of several Transposes that give it, the fastest."""
        if self.times is None:
            return
        for root, index in self.roots.items():
            found: dict[Permutation, set[int]] = {}
            for source, order in self._pairs(root):
                time = self.times.transpose(root, compose(inverse(source), order), source)
                self.all_timed &= time is not None
                found.setdefault(order, set()).add(time or 0)
            size = weight_of(self.graph, root, self.orders.members[root], BYTES)[0]
            for order, times in found.items():
                self.one_time_each &= len(times) == 1
                yield (index, self.orders.orders[root][order]), (min(times), size, 0, 0)

    def _conversions(self) -> Iterator[tuple[str, OrderedValue]]:
        for node in self.graph.nodes_of(("Transpose",)):
            origin = self.orders.origins[node.outputs[0]]
            if origin.root in self.roots and origin.root != node.outputs[0]:
                yield node.outputs[0], self._stored(OrderedUse(node.outputs[0], origin.root, origin.order))

    def _kept(self) -> int:
        """Operators with one form, not by the target's demand, of which a value may have another order."""
        turned = {root for root, known in self.orders.orders.items() if len({*known.values()}) > 1}
        alone = [
            forms for name, forms in self.orders.forms.items() if len(forms) == 1 and name not in self.orders.decided
        ]
        return sum(
            any(use.root in turned for use in (*uses.gives, *uses.needs)) for forms in alone for uses in forms.values()
        )

    def _incomplete(self) -> str:
        if not self.orders.complete:
            return "some value may have more orders of axes than are searched"
        if not self.all_timed:
            return "not every operator could be timed"
        return "" if self.one_time_each else "a value has three orders, and the time of a Transpose depends on the two"


def weight_of(graph: Graph, root: str, members: Iterable[str], weigh: str) -> Cost:
    """The cost of a Transpose of a value, but for its time.

    members: the values that differ from it only by Transposes.
    """
    bound = (bound_shape(graph, value) for value in (root, *members))  # all have the same number of elements
    shape = next((result for result in bound if result is not None), None)
    size = 0 if shape is None else prod(shape) * element_bytes(graph, root)
    return {BYTES: (size, 1, 0, 0), COUNT: (1, size, 0, 0), TIME: (0, size, 0, 0)}[weigh]


def always_paid(graph: Graph, fixed: set[str], weigh: str) -> int:
    """The number or bytes of transposes that always stay: those in bodies, and of values of unknown rank."""
    total = 0
    for node in graph.nodes:
        inner = [count_transposes(body) for body in node.bodies.values()]
        total += sum(c.transposes if weigh == COUNT else c.bytes_moved for c in inner)
        if node.op == "Transpose" and node.inputs[0] not in fixed and not is_relation(graph, node):
            size = (moved_by_node(graph, node) or 0) * element_bytes(graph, node.inputs[0])
            total += 1 if weigh == COUNT else size
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

    always:     as in `OrderProblem`.
    over:       the class of choices that were searched, as a phrase.
    beyond:     choices of another class that may cost less, as a subject.
    incomplete: why the problem lacks choices of that class, so that there is no bound; "" if it has all.

    Transposes of unknown size count as 0 in the search. If the resulting graph has one, there is no bound.
    """
    lower_bound = solution.lower_bound + (0 if weigh == TIME else always)
    reached = {BYTES: after.bytes_moved, COUNT: after.transposes, TIME: solution.cost[0]}[weigh]
    unknown = 0 if weigh == COUNT else after.unknown
    inexact = incomplete or ("" if reached >= lower_bound else BELOW_BOUND)
    has_bound = not inexact and not unknown
    is_as_chosen = weigh != TIME or after.bytes_moved == solution.cost[1] + always
    return LayoutFacts(
        weigh=weigh,
        over=over,
        beyond=beyond,
        unknown=unknown,
        inexact=inexact,
        lower_bound=lower_bound if has_bound else None,
        certified=has_bound and is_as_chosen and solution.gap == 0 and reached == lower_bound,
        gap=solution.gap,
        demanded=tuple(target.required_layouts),
    )
