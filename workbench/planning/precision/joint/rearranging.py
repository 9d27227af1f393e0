"""Rearranges the Transposes and Casts of one value, so that they read and write the fewest bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from workbench.analysis.metrics.transpose_cost import computed_from_constants
from workbench.ir import DataType, Edit, Graph, Node
from workbench.ir.permutation import Permutation, compose, inverse, is_identity
from workbench.ir.types import TensorType, ValueType, numpy_name
from workbench.planning.layout.conversion.transpose_cleanup import EditWithSentence
from workbench.planning.layout.problem.transpose_classes import in_memory, shape_of_root
from workbench.planning.precision.cast_cost import computed_before_run
from workbench.planning.precision.conversion import cast_node
from workbench.planning.precision.element_types import WIDE, is_float
from workbench.planning.precision.joint.conversion_classes import conversion_classes
from workbench.planning.precision.joint.conversion_plan import (
    ConversionPlan,
    cast_bytes,
    cheapest_plan,
    transpose_bytes,
)

_Label = tuple[DataType, Permutation]  # a type, and an order of the root's axes as in memory


@dataclass(frozen=True)
class _ValueClass:
    """A value of one of the two types and those that differ from it by conversions.

    orders: by member, the order of the root's axes. labels: by member. conversions: the nodes that give the others.
    transposes_cost: whether its Transposes count.
    """

    root: str
    orders: Mapping[str, Permutation]
    labels: Mapping[str, _Label]
    conversions: tuple[Node, ...]
    shape: tuple[int, ...] | None
    transposes_cost: bool

    def read(self, graph: Graph) -> list[str]:
        """The members that something else reads, outputs of the graph first."""
        names = {node.name for node in self.conversions}
        read = [v for v in self.orders if graph.is_output(v) or any(u.name not in names for u in graph.users(v))]
        return sorted(read, key=lambda value: not graph.is_output(value))

    def cost(self, node: Node) -> int:
        """The bytes that a conversion reads and writes for each element; 0 if it moves only axes of size 1."""
        (source, before), (result, after) = self.labels[node.inputs[0]], self.labels[node.outputs[0]]
        if node.op == "Cast":
            return cast_bytes(source, result)
        return transpose_bytes(source) if before != after and self.transposes_cost else 0


def rearranged_conversions(
    graph: Graph, narrow: DataType, restoring: Collection[str] = ()
) -> Iterator[EditWithSentence]:
    """One edit for each value whose conversions cost more than the cheapest that give what is read of it.

    restoring: as for `conversion_classes`.
    """
    classes, known_before = conversion_classes(graph, narrow, restoring), computed_before_run(graph)
    never_moved = computed_from_constants(graph)
    members: dict[str, dict[str, Permutation]] = {}
    for value, known in classes.items():
        if known.root not in known_before and is_float(graph, known.root, narrow):
            members.setdefault(known.root, {})[value] = known.order
    for root, orders in members.items():
        if len(orders) == 1:
            continue
        known_class = _value_class(graph, root, orders, root not in never_moved)
        dtype, given = known_class.labels[root]
        read = dict.fromkeys(known_class.labels[value] for value in known_class.read(graph))
        same, other = ([order for of, order in read if (of == dtype) == is_same] for is_same in (True, False))
        plan = cheapest_plan(given, same, other, narrow, dtype, known_class.transposes_cost)
        costs = [cost for cost in map(known_class.cost, known_class.conversions) if cost]
        planned, number = plan.bytes(dtype, narrow if dtype == WIDE else WIDE), plan.conversions
        if not known_class.transposes_cost:
            planned, number = len(plan.cast) * cast_bytes(WIDE, narrow), len(plan.cast)
        if (planned, number) >= (sum(costs), len(costs)):
            continue
        elements, unit = (1, " for each element") if known_class.shape is None else (prod(known_class.shape), "")
        sentence = (
            f"'{root}' is cast and transposed by {_nodes(number)} that read and write "
            f"{planned * elements:,} bytes{unit}, in place of {len(costs)} with {sum(costs) * elements:,}"
        )
        edit = _Rearrangement(graph, known_class).edit(plan, narrow if dtype == WIDE else WIDE)
        yield edit, sentence, tuple(node.name for node in known_class.conversions)


def _value_class(graph: Graph, root: str, orders: Mapping[str, Permutation], transposes_cost: bool) -> _ValueClass:
    shape = shape_of_root(graph, root, orders)
    types = {value: graph.tensor_type(value) for value in orders}
    labels = {v: (type_.dtype, in_memory(orders[v], shape)) for v, type_ in types.items() if type_ is not None}
    producers = (graph.producer(value) for value in orders if value != root)
    conversions = tuple(node for node in producers if node is not None)
    return _ValueClass(root, orders, labels, conversions, shape, transposes_cost)


class _Rearrangement:
    """Builds the edit that replaces the conversions of a value by those of a plan. Members that are read keep their
    names."""

    def __init__(self, graph: Graph, value_class: _ValueClass) -> None:
        self.graph, self.value_class = graph, value_class
        self.read = value_class.read(graph)
        self.names = {value_class.labels[value]: value for value in reversed(self.read)}
        self.there = {value_class.labels[value_class.root]: (value_class.root, value_class.orders[value_class.root])}
        self.taken: set[str] = set()
        self.inserted: list[Node] = []
        self.replaced: dict[str, str] = {}
        self.types: dict[str, ValueType] = {}

    def edit(self, plan: ConversionPlan, other: DataType) -> Edit:
        """other: the type besides the root's."""
        dtype, given = self.value_class.labels[self.value_class.root]
        for order in plan.before:
            self._transpose((dtype, given), (dtype, order))
        for order in plan.cast:
            self._cast((dtype, order), (other, order))
        for order in plan.after:
            self._transpose((other, plan.cast[0]), (other, order))
        for value in self.read:
            self._give(value)
        removed = tuple(node.name for node in self.value_class.conversions)
        return Edit(removed, tuple(self.inserted), self.replaced, types=self.types)

    def _transpose(self, source: _Label, label: _Label) -> None:
        value, order = self.there[source]
        of_result = self._order(label)
        name = self.names.get(label) or self._fresh(label, of_result)
        perm = compose(inverse(order), of_result)
        self._insert(Node("Transpose", (value,), (name,), {"perm": perm}), label, of_result)

    def _cast(self, source: _Label, label: _Label) -> None:
        """In the order of the operand; a member with that order in memory may have another, by axes of size 1."""
        value, order = self.there[source]
        name = self.names.get(label)
        if name is None or self.value_class.orders[name] != order:
            name = self._fresh(label, order)
        self._insert(cast_node(value, name, label[0], ""), label, order)

    def _insert(self, node: Node, label: _Label, order: Permutation) -> None:
        value = node.outputs[0]
        producer = self.graph.producer(value)
        name = producer.name if producer is not None else self.graph.fresh(f"to_{value}", self.taken)
        self.taken.add(name)
        self.inserted.append(node.replace(name=name))
        self.there[label] = value, order
        type_ = self.graph.tensor_type(self.value_class.root)
        if producer is None and type_ is not None:
            self.types[value] = TensorType(label[0], type_.permuted(order).shape)

    def _give(self, value: str) -> None:
        """Let the member be what is there with its label, if that has another name."""
        source, order = self.there[self.value_class.labels[value]]
        producer = self.graph.producer(value)
        if source == value or producer is None:
            return
        rest = compose(inverse(order), self.value_class.orders[value])
        if not is_identity(rest):
            self.inserted.append(Node("Transpose", (source,), (value,), {"perm": rest}, name=producer.name))
        elif self.graph.is_output(value):
            self.inserted.append(Node("Identity", (source,), (value,), name=producer.name))
        else:
            self.replaced[value] = source

    def _order(self, label: _Label) -> Permutation:
        """Of the member that will have the label; else of any with that order in memory."""
        orders, labels = self.value_class.orders, self.value_class.labels
        if label in self.names:
            return orders[self.names[label]]
        return next(order for value, order in orders.items() if labels[value][1] == label[1])

    def _fresh(self, label: _Label, order: Permutation) -> str:
        dtype, _ = self.value_class.labels[self.value_class.root]
        typed = "" if label[0] == dtype else f"_{numpy_name(label[0])}"
        permuted = "" if is_identity(order) else "_" + "".join(map(str, order))
        name = self.graph.fresh(f"{self.value_class.root}{typed}{permuted}", self.taken)
        self.taken.add(name)
        return name


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"
