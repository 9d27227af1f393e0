"""The orders of axes that each value can have, and the forms that each operator can run in.

The orders of an operator's operands are those of the graph's Transposes and of the target's layouts, propagated
through the operators between. Orders that differ only in axes of size 1 are the same in memory: a Reshape leads from
one to the other. Inputs and outputs of the graph and values that bodies read are fixed. So are operators that cannot
run on permuted operands, and operators whose layout the target demands, unless time is weighed. Constants, and values
computed from constants only, cost nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from workbench.analysis.metrics.transpose_cost import computed_from_constants
from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, channels_first, channels_last, compose, identity, inverse, is_identity
from workbench.ops import NotPermutable, layout_of
from workbench.ops.channels_last import KERNELS, plain_op, stored_weights, weight_reordering
from workbench.ops.permutation.kinds import PermutedCall, alignment_of
from workbench.ops.permutation.reshaping import AxisGroup, groups_of
from workbench.planning.layout.conversion.convert import order_of_weight, permuted_call
from workbench.planning.layout.problem.cost_model import TIME
from workbench.planning.layout.problem.image_layouts import layout_of_images, other_layout, required_side, side_of
from workbench.planning.layout.problem.transpose_classes import TransposeClass, in_memory, shape_that_counts
from workbench.planning.layout.profile import Profile

MAX_ORDERS = 6  # new orders of a value in memory, besides those that it has in the graph
_MAX_VIEWS = 24  # orders of a value, those that are equal in memory too


class OrderedUse(NamedTuple):
    """An operand or result of an operator, and the order in which a form of it reads or gives the value's root."""

    value: str
    root: str
    order: Permutation


@dataclass(frozen=True)
class Uses:
    """The values that an operator computes and reads, without those that cost nothing."""

    gives: list[OrderedUse]
    needs: list[OrderedUse]


class OperatorOrders:
    """The orders of every value and the forms of every operator, found by propagating the orders of the graph.

    origins: the class of every value, of which each result that is no root comes of a conversion, not of an operator.
    orders:  by root, the orders of its axes, each with what it is in memory.
    forms:   by operator and permutation of its operands (None: as written), the values it gives and needs; only of
             operators that more than one order of a value reaches.
    decided: the operators whose layout the target demands.
    """

    def __init__(
        self,
        graph: Graph,
        layouts: dict[str, str],
        target: Profile,
        weigh: str,
        origins: Mapping[str, TransposeClass],
        may_change: Callable[[Node], bool] = lambda node: True,
    ) -> None:
        self.graph = graph
        self.layouts = layouts
        self.target = target
        self.weigh = weigh
        self.origins = origins
        self.may_change = may_change
        self.fixed = computed_from_constants(graph)
        self.members: dict[str, dict[str, Permutation]] = {}
        for value, origin in self.origins.items():
            self.members.setdefault(origin.root, {})[value] = origin.order
        self.shapes = {root: shape_that_counts(graph, root, members, weigh) for root, members in self.members.items()}
        self.orders: dict[str, dict[Permutation, Permutation]] = {root: {} for root in self.members}
        self.forms: dict[str, dict[Permutation | None, Uses]] = {}
        self.limits: dict[str, int] = {}
        self.decided: set[str] = set()
        self.waiting: deque[tuple[str, Permutation]] = deque()
        self.complete = True

    def is_conversion(self, node: Node) -> bool:
        """Whether the node gives a value of another value's class, and so is no operator here."""
        origin = self.origins.get(node.outputs[0]) if node.outputs else None
        return origin is not None and origin.root != node.outputs[0]

    def interface(self) -> Uses:
        """The inputs of the graph, which it gives, and its outputs, which it needs."""
        gives = [OrderedUse(value, value, self.origins[value].order) for value in self.graph.inputs]
        return Uses(gives, [use for use in map(self._needed, self.graph.outputs) if use is not None])

    # ---- spreading -------------------------------------------------------------------

    def spread(self) -> None:
        """Propagate orders through operators, breadth first, until nothing is new or values have too many orders."""
        for origin in self.origins.values():
            self._add(origin.root, origin.order)
        self.limits = {root: len({*known.values()}) + MAX_ORDERS for root, known in self.orders.items()}
        self.waiting = deque((root, order) for root, order in self.waiting if len(self.orders[root]) > 1)
        for node in self.graph.nodes:
            if not self.is_conversion(node) and self.may_change(node):
                self._start(node)
        while self.waiting:
            root, order = self.waiting.popleft()
            for node in self._touching(root):
                self.forms.setdefault(node.name, {None: self._uses(node)})
                for perm in self._reaching(node, root, order):
                    self._add_form(node, perm)

    def forms_of(self, node: Node) -> dict[Permutation | None, Uses]:
        """The forms of an operator; the one as written if no order has reached it."""
        return self.forms.get(node.name) or {None: self._uses(node)}

    def _start(self, node: Node) -> None:
        """Add the form that the target demands; else, if the operator has a layout, as written and channels last."""
        demanded = self._required(node)
        if demanded is not None:
            self._add_form(node, demanded, demanded=True)
            self.decided.add(node.name)
        elif layout_of(node).kind == "sensitive":
            rank = self.graph.rank_of(node.inputs[0]) or 2
            self._add_form(node, channels_last(rank) if plain_op(node) == node.op else channels_first(rank))

    def _add(self, root: str, order: Permutation) -> None:
        if root not in self.fixed and order not in self.orders[root]:
            self.orders[root][order] = in_memory(order, self.shapes[root])
            self.waiting.append((root, order))

    def _touching(self, root: str) -> Iterator[Node]:
        producer = self.graph.producer(root)
        if producer is not None:
            yield producer
        for value in self.members[root]:
            yield from (user for user in self.graph.users(value) if not self.is_conversion(user))

    def _reaching(self, node: Node, root: str, order: Permutation) -> Iterator[Permutation]:
        """Permutations of the operands with which the node reads or gives that order."""
        for value in node.inputs:
            known_order = self.members[root].get(value)
            if known_order is not None:
                yield compose(inverse(known_order), order)
        if root in node.outputs:
            yield from filter(None, [_operand_order(self.graph, node, root, order)])

    def _add_form(self, node: Node, perm: Permutation, demanded: bool = False) -> bool:
        """Add the form on operands permuted by `perm`, the only one if it is demanded.

        False if there is none, or a value would get too many orders.
        """
        if node.name in self.decided or not self.may_change(node) or is_identity(perm):
            return False
        if perm in self.forms.get(node.name, {}):
            return False
        try:
            call = permuted_call(self.graph, node, perm, self.target)
        except NotPermutable:
            return False
        if any(self.graph.rank_of(node.inputs[index]) != len(perm) for index in call.inputs):
            return False  # the image operand supplies only a type or a bound, like the second of CastLike
        uses = self._uses(node, perm, call)
        all_uses = [*uses.gives, *uses.needs]
        if not all(self._has_room(root, order) for _, root, order in all_uses):
            self.complete = False
            return False
        forms = {} if demanded else self.forms.get(node.name) or {None: self._uses(node)}
        self.forms[node.name] = {**forms, perm: uses}
        for _, root, order in all_uses:
            self._add(root, order)
        return True

    def _has_room(self, root: str, order: Permutation) -> bool:
        if len(self.origins[root].order) != len(order):  # its rank is unknown
            return False
        known = self.orders[root]
        in_use = {*known.values()}
        is_room = in_memory(order, self.shapes[root]) in in_use or len(in_use) < self.limits[root]
        return order in known or (is_room and len(known) < _MAX_VIEWS)

    # ---- forms -----------------------------------------------------------------------

    def _uses(self, node: Node, perm: Permutation | None = None, call: PermutedCall | None = None) -> Uses:
        """The values that the operator gives and needs on operands permuted by `perm`, or as written."""
        permuted_operands, out_orders = ((), ()) if call is None else (call.inputs, call.outputs)
        out_perms = dict(zip(node.outputs, out_orders, strict=False))
        gives = [
            OrderedUse(value, value, out_perms.get(value) or self.origins[value].order)
            for value in node.outputs
            if value
        ]
        needs = [
            self._needed(value, perm if index in permuted_operands else None) for index, value in enumerate(node.inputs)
        ]
        if call is not None and perm is not None:
            for index in call.aligned_inputs:
                value = node.inputs[index]
                needs[index] = self._needed(value, alignment_of(perm, self.graph.rank_of(value) or 0)[0])
        needs += [self._needed(value) for value in node.operands if value not in node.inputs]
        if call is not None and plain_op(node) in KERNELS:
            stored, order = stored_weights(node), order_of_weight(node, call, self.target)
            if order != stored:
                needs[1] = self._needed(node.inputs[1], weight_reordering(stored, order, len(perm or ())))
        return Uses([use for use in gives if use.root not in self.fixed], [use for use in needs if use is not None])

    def _needed(self, value: str, perm: Permutation | None = None) -> OrderedUse | None:
        """The permuted value as an order of its root; None if it costs nothing."""
        origin = self.origins.get(value)
        if origin is None or origin.root in self.fixed:
            return None
        return OrderedUse(value, origin.root, origin.order if perm is None else compose(origin.order, perm))

    def _required(self, node: Node) -> Permutation | None:
        """The permutation to the layout that the target demands of an operator on images; None if it demands none."""
        demanded, layout = required_side(self.target, plain_op(node)), layout_of_images(node, self.layouts)
        if self.weigh == TIME or demanded is None or layout is None:
            return None
        return identity(len(layout)) if side_of(layout) == demanded else other_layout(layout)[1]


def _operand_order(graph: Graph, node: Node, result: str, order: Permutation) -> Permutation | None:
    """A permutation of the operands that may give the result in this order; None if axes are removed."""
    if node.op not in ("Squeeze", "Unsqueeze") and layout_of(node).kind != "reshape-like":
        return order if any(graph.rank_of(value) == len(order) for value in node.inputs) else None
    groups, shape = groups_of(graph, node), graph.shape(result)
    if groups is None or shape is None:
        return None
    position = inverse(order)

    def first_position(group: AxisGroup) -> int:
        return min((position[axis] for axis in group.result if shape[axis] != 1), default=position[group.result[0]])

    return tuple(axis for group in sorted(groups, key=first_position) for axis in group.operand)
