"""The choice of an order of axes and of an element type for every operator at once, as an integer program.

Values that differ only by Transposes and by Casts between float32 and the narrower type are one value, in several
orders and types. An operator has a form for each order in which it can run and each type in which it may. A value
that is read otherwise than it is given needs conversions, each a choice of its own between none and one: Transposes
in the type in which the value is given, Casts, and Transposes after the first Cast. A conversion reads what another
gives, so that the cost of both is paid.

Source: the program of `planning/layout/problem/orders.py` with labels of (order, type); the conversions of one value
are a Steiner arborescence of depth three (Hwang, Richards and Winter 1992).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

from workbench.ir import Node
from workbench.ir.permutation import Permutation
from workbench.planning.layout.problem.cost_model import BYTES
from workbench.planning.layout.problem.operator_orders import OperatorOrders, OrderedUse, Uses
from workbench.planning.layout.problem.orders import always_paid, weight_of
from workbench.planning.layout.problem.transpose_classes import in_memory, shape_of_root
from workbench.planning.layout.profile import Profile
from workbench.planning.precision.cast_cost import bytes_converted, casts_between, computed_before_run
from workbench.planning.precision.element_types import WIDE, is_float, reads_rounded
from workbench.planning.precision.joint.conversion_classes import conversion_classes
from workbench.planning.precision.joint.conversion_plan import cast_bytes, cheapest_plan, transpose_bytes
from workbench.planning.precision.problem import type_side, written_side
from workbench.planning.precision.strategies.precision_strategy import TypeChoices
from workbench.planning.solvers.integer_program import Cost, Form, IntegerProgram, OrderedValue
from workbench.planning.solvers.minimum_cut import FIRST_SIDE, LAST_SIDE

NO_CONVERSION = Form((0, 0, 0))
TRANSPOSE_BEFORE, CAST, TRANSPOSE_AFTER = "before", "cast", "after"  # conversions of a value, as in `ConversionPlan`
_Labels = dict[tuple[int, Permutation], None]  # sides and orders in memory, in the order in which they were found
_Conversion = tuple[
    str, int, Permutation
]  # TRANSPOSE_BEFORE, CAST or TRANSPOSE_AFTER; the side on which the value is given; an order


@dataclass(frozen=True)
class OperatorForm:
    """How an operator runs: on operands permuted by `perm`, None: as written; and on a side, None: it has no choice."""

    perm: Permutation | None
    side: int | None


@dataclass(frozen=True)
class OrderAndTypeProblem:
    """problem: for `solve_integer_program`.

    nodes:    the operator of each choice; None for inputs, outputs and conversions.
    forms:    of each operator's choice, as in `problem`. start: the assignment that leaves the operators as written.
    always:   the bytes of Transposes and Casts that no choice affects.
    complete: as in `OrderProblem`.
    """

    problem: IntegerProgram
    nodes: tuple[str | None, ...]
    forms: tuple[tuple[OperatorForm, ...], ...]
    start: tuple[int, ...]
    always: int
    complete: bool


def order_and_type_problem(choices: TypeChoices, layouts: dict[str, str], target: Profile) -> OrderAndTypeProblem:
    """The choices of a graph. layouts: as inferred. What is minimized are bytes that conversions read and write."""
    return _Builder(choices, layouts, target).build()


class _Builder:
    """Collects choices. The labels of a value in one of the two types are tuples; the first element is a word:

    GIVEN:    its operator gives it on this side, in some order.
    MADE:     its operator or a Transpose of that result gives it on this side in this order.
    THERE:    a Cast gives it on this side, in some order.
    READABLE: it is there on this side in this order.

    IN_FLOAT32 is a label of an input whose type is free: it is taken in float32.
    """

    GIVEN, MADE, THERE, READABLE = "given", "made", "there", "readable"

    IN_FLOAT32 = ("input in float32",)

    def __init__(self, choices: TypeChoices, layouts: dict[str, str], target: Profile) -> None:
        self.choices, self.graph, self.narrow = choices, choices.graph, choices.narrow
        self.orders = OperatorOrders(self.graph, layouts, target, BYTES, conversion_classes(self.graph, choices.narrow))
        self.orders.spread()
        # Of these a Transpose counts as made before the run, and a Cast does not.
        self.typed_only = {r for r in self.orders.fixed - computed_before_run(self.graph) if self._is_typed(r)}
        roots = (r for r in self.orders.members if r not in self.orders.fixed or r in self.typed_only)
        self.roots = {root: index for index, root in enumerate(roots)}
        self.interface = self._with_types(self.orders.interface(), self.graph.outputs)
        border = (*self.interface.gives, *self.interface.needs)
        counts = Counter(use.root for use in border)
        at_border = {use.value: use.root for use in border}
        self.free_border = {value for value in choices.free_border if counts[at_border.get(value, "")] == 1}
        self.free_inputs = self.free_border.intersection(self.graph.inputs)
        self.given: dict[str, _Labels] = {}  # by root
        self.needed: dict[str, _Labels] = {}

    def build(self) -> OrderAndTypeProblem:
        operators: list[tuple[str | None, dict[OperatorForm, Form]]] = [(None, forms) for forms in self._border()]
        for node in self.graph.nodes:
            if not self.orders.is_conversion(node):
                operators.append((node.name, self._distinct(node, self.orders.forms_of(node))))
        first_uses = self._first_uses([next(iter(forms.values())) for _, forms in operators])
        choices = [tuple(forms.values()) for _, forms in operators]
        start = [0] * len(choices)
        for root in filter(self._is_typed, self.roots):
            planned = self._planned(*first_uses.get(root, ({}, {})))
            for conversion, form in self._conversions(root).items():
                choices.append((NO_CONVERSION, form))
                start.append(int(conversion in planned))
        nodes = [name for name, _ in operators] + [None] * (len(choices) - len(operators))
        forms_of_nodes = [tuple(forms) for _, forms in operators] + [()] * (len(choices) - len(operators))
        problem = IntegerProgram(tuple(choices), tuple(map(self._weight, self.roots)))
        return OrderAndTypeProblem(
            problem, tuple(nodes), tuple(forms_of_nodes), tuple(start), self._always(), self.orders.complete
        )

    def _border(self) -> Iterator[dict[OperatorForm, Form]]:
        """Inputs and outputs as written, and the two types of each whose type is free."""
        interface, free = self.interface, self.free_border
        gives, needs = ([use for use in uses if use.value not in free] for uses in (interface.gives, interface.needs))
        for fixed in (Uses(gives, []), Uses([], needs)):
            yield {OperatorForm(None, None): self._form(fixed, set(), None, 0)}
        chosen = [Uses([use], []) for use in interface.gives if use.value in free]
        chosen += [Uses([], [use]) for use in interface.needs if use.value in free]
        for uses in chosen:
            values = {use.value for use in (*uses.gives, *uses.needs)}
            wide, narrow = (self._form(uses, values, side, side) for side in (FIRST_SIDE, LAST_SIDE))
            in_float32 = tuple((self.roots[use.root], self.IN_FLOAT32) for use in uses.gives)
            # an output is in the narrower type only where it is computed in it, not for a Cast to it
            made = tuple((self.roots[use.root], (self.MADE, LAST_SIDE, self._stored(use))) for use in uses.needs)
            yield {
                OperatorForm(None, FIRST_SIDE): replace(wide, gives=(*wide.gives, *in_float32)),
                OperatorForm(None, LAST_SIDE): replace(narrow, needs=made),
            }

    def _distinct(self, node: Node, by_perm: dict[Permutation | None, Uses]) -> dict[OperatorForm, Form]:
        """The forms of an operator, the one in the type as written first; of equal ones the first."""
        call = self.choices.calls.get(node.name)
        written: int | None = None
        typed: set[str] = set()
        sides: tuple[int | None, ...] = (None,)
        if call is not None:
            written, fixed = type_side(call.dtype), self.choices.fixed.get(node.name)
            typed = {*(node.inputs[i] for i in call.inputs), *(node.outputs[i] for i in call.outputs)}
            sides = (written, 1 - written) if fixed is None else (fixed,)
        result: dict[tuple[Hashable, ...], tuple[OperatorForm, Form]] = {}
        for perm, ordered in by_perm.items():
            uses = self._with_types(ordered, node.operands, node.outputs)
            for side in sides:
                changed = (perm is not None) + (side != written)
                form = self._form(uses, typed, side, changed)
                result.setdefault((form.gives, form.needs), (OperatorForm(perm, side), form))
        return dict(result.values())

    def _with_types(self, uses: Uses, read: Iterable[str], given: Iterable[str] = ()) -> Uses:
        """The uses, and those of values of which only a Cast counts, each in the one order of its root."""
        roots = {v: self.orders.origins[v].root for v in (*read, *given) if v in self.orders.origins}
        of_types = {
            v: OrderedUse(v, root, self.orders.origins[root].order)
            for v, root in roots.items()
            if root in self.typed_only
        }
        gives = [of_types[value] for value in given if value in self.typed_only]
        return Uses([*uses.gives, *gives], [*uses.needs, *(of_types[v] for v in dict.fromkeys(read) if v in of_types)])

    def _form(self, uses: Uses, typed: set[str], side: int | None, changed: int) -> Form:
        """typed: values that have the form's side; others keep the one that they are written in."""
        gives: list[OrderedValue] = []
        needs: list[OrderedValue] = []
        for use in uses.gives:
            stored = self._stored(use)
            if not self._is_typed(use.root):
                gives.append((self.roots[use.root], stored))
                continue
            of_value = self._side(use, typed, side)
            if self._is_rounded(use.value):
                of_value = LAST_SIDE  # where its numbers are already, so that only readers in float32 need the Cast
            self.given.setdefault(use.root, {})[of_value, stored] = None
            labels = ((self.GIVEN, of_value), (self.MADE, of_value, stored), (self.READABLE, of_value, stored))
            gives += [(self.roots[use.root], label) for label in labels]
        for use in uses.needs:
            stored = self._stored(use)
            if not self._is_typed(use.root):
                needs.append((self.roots[use.root], stored))
                continue
            of_value = self._side(use, typed, side)
            self.needed.setdefault(use.root, {})[of_value, stored] = None
            needs.append((self.roots[use.root], (self.READABLE, of_value, stored)))
        return Form((0, 0, changed), tuple(gives), tuple(needs))

    def _side(self, use: OrderedUse, typed: set[str], side: int | None) -> int:
        return side if side is not None and use.value in typed else written_side(self.graph, use.value)

    def _is_rounded(self, value: str) -> bool:
        producer = self.graph.producer(value)
        return producer is not None and reads_rounded(self.graph, producer, self.narrow)

    def _before_rounding(self, root: str) -> str:
        """The root of the value that was rounded to give this one, any number of times; itself if it was not."""
        while self._is_rounded(root):
            producer = self.graph.producer(root)
            assert producer is not None  # it is the Cast that gives the rounded numbers
            root = self.orders.origins[producer.inputs[0]].root
        return root

    def _stored(self, use: OrderedUse) -> Permutation:
        return in_memory(use.order, self.orders.shapes[use.root])

    def _is_typed(self, root: str) -> bool:
        return is_float(self.graph, root, self.narrow)

    def _weight(self, root: str) -> Cost | None:
        """Of a Transpose of a value whose type has no choice; None for the others, whose conversions are choices."""
        if self._is_typed(root):
            return None
        size, transposes, *_ = weight_of(self.graph, root, self.orders.members[root], BYTES)
        return 2 * size, transposes, 0

    def _first_uses(self, forms: list[Form]) -> dict[str, tuple[_Labels, _Labels]]:
        """By root, the sides and orders in which these forms give and need it."""
        names = list(self.roots)
        result: dict[str, tuple[_Labels, _Labels]] = {}
        for form in forms:
            for is_need, uses in enumerate((form.gives, form.needs)):
                for index, label in uses:
                    if isinstance(label, tuple) and label and label[0] == self.READABLE:
                        result.setdefault(names[index], ({}, {}))[is_need][label[1], label[2]] = None
        return result

    def _planned(self, given: _Labels, needed: _Labels) -> set[_Conversion]:
        """The cheapest conversions of a value that is given on one side, in one order."""
        if not given:
            return set()
        (side, order), *_ = given
        same, other = ([of for at, of in needed if (at == side) == is_same] for is_same in (True, False))
        plan = cheapest_plan(order, same, other, self.narrow, WIDE if side == FIRST_SIDE else self.narrow)
        return {
            *((TRANSPOSE_BEFORE, side, of) for of in plan.before),
            *((CAST, side, of) for of in plan.cast),
            *((TRANSPOSE_AFTER, side, of) for of in plan.after),
        }

    def _conversions(self, root: str) -> dict[_Conversion, Form]:
        """The Transposes and Casts that the value may need, for each side on which it may be given."""
        given, needed = self.given.get(root, {}), self.needed.get(root, {})
        orders = list(dict.fromkeys(order for _, order in (*given, *needed)))
        transposed = [] if len(orders) == 1 else orders
        result: dict[_Conversion, Form] = {}
        for side in dict.fromkeys(side for side, _ in given):
            other = 1 - side
            before, cast, after = (
                self._transpose_cost(side, root),
                self._cast_cost(root),
                self._transpose_cost(other, root),
            )
            for order in transposed:
                gives = ((self.MADE, side, order), (self.READABLE, side, order))
                result[TRANSPOSE_BEFORE, side, order] = self._conversion(root, before, (self.GIVEN, side), *gives)
            is_narrowed_input = side == LAST_SIDE and root in self.free_inputs
            if is_narrowed_input or not any(at == other for at, _ in needed):
                continue
            source = self._before_rounding(root)
            of_input = [(self.roots[source], self.IN_FLOAT32)] if source in self.free_inputs - {root} else []
            for order in orders:
                readable = (self.READABLE, other, order)
                form = self._conversion(root, cast, (self.MADE, side, order), (self.THERE, other), readable)
                result[CAST, side, order] = replace(form, needs=(*form.needs, *of_input))
                if transposed:
                    result[TRANSPOSE_AFTER, side, order] = self._conversion(root, after, (self.THERE, other), readable)
        return result

    def _conversion(self, root: str, cost: Cost, needs: Hashable, *gives: Hashable) -> Form:
        index = self.roots[root]
        return Form(cost, tuple((index, label) for label in gives), ((index, needs),))

    def _transpose_cost(self, side: int, root: str) -> Cost:
        return self._elements(root) * transpose_bytes(WIDE if side == FIRST_SIDE else self.narrow), 1, 0

    def _cast_cost(self, root: str) -> Cost:
        return self._elements(root) * cast_bytes(WIDE, self.narrow), 1, 0

    def _elements(self, root: str) -> int:
        """Of a value; 0 if unknown."""
        shape = shape_of_root(self.graph, root, self.orders.members[root])
        return 0 if shape is None else prod(shape)

    def _always(self) -> int:
        """Of Casts that are neither conversions nor give rounded numbers, and of Transposes in bodies and of unknown
        rank."""
        casts = casts_between(self.graph, self.narrow)
        others = [n for n in casts if not (self.orders.is_conversion(n) or self._is_rounded(n.outputs[0]))]
        cast = sum(bytes_converted(self.graph, node.inputs[0], self.narrow) or 0 for node in others)
        return 2 * always_paid(self.graph, self.orders.fixed, BYTES) + cast
