"""What Transposes move at least, in whatever order of axes a file's operators run.

Values that differ by Transposes are one value. Take two axes of it. Each operator that writes or reads it has them in
one order or in the other, and if not all have them in the same, a Transpose moves the whole value. In an operator that
runs in any order of axes, the two lie in the same order in all its operands and results, so that it is on one side for
all of them; inputs, outputs and operators that run only as they stand are on the side on which they are written. So the
least sum is a minimum cut, as for two layouts, and holds for any number of orders.

Which two axes are taken of a value changes the bound and not that it is one: those that a Transpose of the file turns
around, and of its neighbours those that go with them.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from onnx import GraphProto, NodeProto

from workbench.checker.axes import AxisUses, Slots
from workbench.checker.cast_traffic import is_float_cast
from workbench.checker.computed import fixed_values
from workbench.checker.minimum_cut import Network
from workbench.checker.operators import operator_name
from workbench.checker.plain import kernel_name
from workbench.checker.transpose_traffic import transpose_perm
from workbench.checker.types import PlainType, sizes_of

INPUTS, OUTPUTS = "inputs", "outputs"
_MAX_RANK = 16  # axes of a value; Transposes of more are not bounded


@dataclass(frozen=True)
class TransposeBound:
    """least: what Transposes cost at least. held: the operators, inputs and outputs that count as they stand."""

    least: int
    held: frozenset[str]


@dataclass(frozen=True)
class _Member:
    """An operand or result of an operator. order: of the axes of its root. slots: None if it counts as it stands.
    operator: its number, or what it is if it counts as it stands."""

    operator: int
    name: str
    order: tuple[int, ...]
    slots: Slots | None


@dataclass
class _Root:
    """A value, with those that differ from it by Transposes. shape: of the value itself. turned: the orders of axes
    between which the file's Transposes lie. pair: the two axes that are taken, the earlier first in the value."""

    type: PlainType
    members: list[_Member] = field(default_factory=list)
    turned: set[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=set)
    pair: tuple[int, int] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return sizes_of(self.type) or ()

    def is_turned(self, one: int, other: int) -> bool:
        """Whether a Transpose changes which of two axes comes first."""
        return any((a.index(one) < a.index(other)) != (b.index(one) < b.index(other)) for a, b in self.turned)


def transpose_bound(
    graph: GraphProto,
    types: Mapping[str, PlainType],
    fixed: Collection[str],
    uses: AxisUses,
    cost: Callable[[PlainType], int],
    through_casts: bool = False,
) -> TransposeBound:
    """The bound over the main graph, without bodies.

    fixed: constants that no caller can replace. cost: of a Transpose that moves a value of the type. through_casts:
    whether Casts of floats may be elsewhere too, so that values that differ by them are one.
    """
    roots = _Roots(graph, types, fixed, uses, through_casts)
    network = Network()
    held: set[str] = set()
    for root in roots.with_pairs():
        sides = [(member, side) for member in root.members if (side := _side(member, root)) is not None]
        held.update(member.name for member, side in sides if side in (Network.SOURCE, Network.SINK))
        network.add([side for _, side in sides], cost(root.type))
    return TransposeBound(network.minimum_cut(), frozenset(held))


def _side(member: _Member, root: _Root) -> object:
    """The vertex of a member: on which side the first axis of the pair comes first. None if it is on no side."""
    assert root.pair is not None
    first, second = (member.order.index(axis) for axis in root.pair)
    if member.slots is None or member.slots[first] == member.slots[second]:
        return Network.SOURCE if first < second else Network.SINK
    return (member.operator, member.slots[first], member.slots[second])


class _Roots:
    """The values of a graph, Transposes taken out."""

    def __init__(
        self,
        graph: GraphProto,
        types: Mapping[str, PlainType],
        fixed: Collection[str],
        uses: AxisUses,
        through_casts: bool,
    ) -> None:
        self.types = types
        self.roots: dict[str, _Root] = {}
        self.place: dict[str, tuple[str, tuple[int, ...]]] = {}  # by value: its root, and the order of the root's axes
        self.of_operator: dict[int, list[tuple[str, _Member]]] = {}
        known = fixed_values(graph.node, fixed)
        nodes = [node for node in graph.node if not known.issuperset(filter(None, node.output)) or not any(node.output)]
        is_between = [
            operator_name(node) == "Transpose" or (through_casts and is_float_cast(node, types)) for node in nodes
        ]
        for node in itertools.compress(nodes, is_between):
            self._turn(node)
        for number, node in enumerate(nodes):
            if not is_between[number]:  # one of unknown shape connects nothing
                for use in uses.of(node):
                    if use.value not in known:
                        self._add(use.value, number, kernel_name(node.domain, operator_name(node)), use.slots)
        for values, what in ((graph.input, INPUTS), (graph.output, OUTPUTS)):
            for value in values:
                if value.name not in known and sizes_of(types.get(value.name)) is not None:
                    self._add(value.name, -1, what, None)

    def with_pairs(self) -> list[_Root]:
        """The values of which two axes are taken."""
        for name, root in self.roots.items():
            if root.pair is None and (pairs := self._turned_pairs(root)):
                root.pair = pairs[0]
                self._spread(name)
        return [root for root in self.roots.values() if root.pair is not None]

    def _turn(self, node: NodeProto) -> None:
        """Enter the result of a Transpose as its operand in another order, and that of a Cast in the same."""
        shape = sizes_of(self.types.get(node.input[0]))
        is_cast = operator_name(node) != "Transpose"
        perm = None if shape is None else list(range(len(shape))) if is_cast else transpose_perm(node, len(shape))
        if perm is None or len(perm) > _MAX_RANK:
            return
        name, order = self._placed(node.input[0])
        result = tuple(order[axis] for axis in perm)
        self.place[node.output[0]] = (name, result)
        self.roots[name].turned.add((order, result))

    def _placed(self, value: str) -> tuple[str, tuple[int, ...]]:
        if value not in self.place:
            root = self.roots[value] = _Root(self.types[value])
            self.place[value] = (value, tuple(range(len(root.shape))))
        return self.place[value]

    def _add(self, value: str, number: int, name: str, slots: Slots | None) -> None:
        root, order = self._placed(value)
        member = _Member(number, name, order, slots)
        self.roots[root].members.append(member)
        if slots is not None:
            self.of_operator.setdefault(number, []).append((root, member))

    def _turned_pairs(self, root: _Root) -> list[tuple[int, int]]:
        axes = [axis for axis, size in enumerate(root.shape) if size != 1]
        return [(a, b) for a in axes for b in axes if a < b and root.is_turned(a, b)]

    def _spread(self, name: str) -> None:
        """Take the same two axes of the values around, as far as operators in any order reach."""
        waiting = deque([name])
        while waiting:
            root = self.roots[waiting.popleft()]
            assert root.pair is not None
            for member in root.members:
                if member.slots is None:
                    continue
                slots = [member.slots[member.order.index(axis)] for axis in root.pair]
                for other_name, other in self.of_operator[member.operator] if slots[0] != slots[1] else ():
                    neighbour = self.roots[other_name]
                    if neighbour.pair is None:
                        neighbour.pair = self._pair_in(neighbour, other, slots)
                        waiting += [other_name] if neighbour.pair is not None else []

    def _pair_in(self, root: _Root, member: _Member, slots: list[object]) -> tuple[int, int] | None:
        """The axes of a value that have these two slots: those that a Transpose turns around, else the last ones."""
        assert member.slots is not None
        placed = [pair for pair in zip(member.order, member.slots, strict=True) if root.shape[pair[0]] != 1]
        firsts, seconds = ([axis for axis, own in placed if own == slot] for slot in slots)
        pairs = [(first, second) for first in firsts for second in seconds]
        return next((pair for pair in pairs if root.is_turned(*pair)), pairs[-1] if pairs else None)
