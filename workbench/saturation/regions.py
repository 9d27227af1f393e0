"""Regions of a graph: connected operators of equations, of one element type, as terms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workbench.ir import DataType, Graph, Node, constant_shape
from workbench.rewrite.analyses.discontinuous import STEPS
from workbench.rewrite.analyses.signs import is_never_negative
from workbench.rewrite.core.exactness import EXACT
from workbench.saturation.exact_numbers import ExactNumbers, as_number
from workbench.saturation.program import ARITIES, IS_CONSTANT, IS_TENSOR

KIND_OF = {
    DataType.FLOAT: "floats",
    DataType.DOUBLE: "floats",
    DataType.FLOAT16: "floats",
    DataType.INT32: "integers",
    DataType.INT64: "integers",
    DataType.BOOL: "booleans",
}
ElementSizes = tuple[int, ...]
FEWEST_OPERATORS = (
    2  # operators: of one alone there is nothing to find but a neutral number, which remove_neutral finds
)


@dataclass(frozen=True)
class AlgebraicRegion:
    """Operators of one graph, operands first.

    values:  what they read, then what they compute; a place in it is a value's number in an e-graph.
    leaves:  how many they read.
    results: places of values that anything else reads, or that are outputs of the graph.
    steps:   whether an operator in it, or one that reads a result, is discontinuous.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    values: tuple[str, ...]
    leaves: int
    results: tuple[int, ...]
    steps: bool
    dtype: DataType

    @property
    def kind(self) -> str:
        return KIND_OF[self.dtype]

    @cached_property
    def place_of(self) -> dict[str, int]:
        return {value: place for place, value in enumerate(self.values)}

    @cached_property
    def numbers(self) -> dict[int, str]:
        """By place, the number of a constant of one element that can be written as a scalar."""
        results = {place: _number(self.graph, value) for place, value in enumerate(self.values[: self.leaves])}
        numbers = {place: number for place, number in results.items() if number is not None}
        return {place: number for place, number in numbers.items() if self._is_scalar(self.values[place])}

    @cached_property
    def constants(self) -> frozenset[int]:
        """Places of constants."""
        result = (place for place in range(self.leaves) if self.graph.constant(self.values[place]) is not None)
        return frozenset(result)

    @cached_property
    def sizes(self) -> tuple[ElementSizes | None, ...]:
        """Of each value, at the sizes to which symbolic dims are bound; None if they are not known."""
        return tuple(map(self._sizes_of, self.values))

    @property
    def elements(self) -> int | None:
        """The elements that its operators compute in one run; None if they are not known."""
        made = [size for size in self.sizes[self.leaves :] if size is not None]
        return sum(map(math.prod, made)) if len(made) == len(self.nodes) else None

    def _sizes_of(self, value: str) -> ElementSizes | None:
        tensor = self.graph.constant(value)
        if tensor is not None:
            return constant_shape(tensor)
        type_ = self.graph.bound_types.get(value) or self.graph.tensor_type(value)
        return None if type_ is None else type_.static_shape

    def _is_scalar(self, constant: str) -> bool:
        """Whether its axes of one element make no axis of any operator's result, as those of a scalar do not."""
        rank = self.graph.rank_of(constant) or 0
        others = (
            [self.graph.rank_of(value) for value in node.inputs if value != constant]
            for node in self.nodes
            if constant in node.inputs
        )
        return rank == 0 or all(any(other is not None and other >= rank for other in ranks) for ranks in others)

    def terms(self) -> Iterator[str]:
        """Its operators, and what is known of its values, as commands of egglog."""
        for node in self.nodes:
            operands = " ".join(self._written(self.place_of[value]) for value in node.inputs)
            yield f"(union (Value {self.place_of[node.outputs[0]]}) ({node.op} {operands}))"
        for place, value in enumerate(self.values):
            if place not in self.numbers:
                known = [IS_TENSOR, *([IS_CONSTANT] if place in self.constants else [])]
                known += self._signs(value) if self.kind == "floats" else []
                yield from (f"({relation} (Value {place}))" for relation in known)

    def _written(self, place: int) -> str:
        return f'(Num "{self.numbers[place]}")' if place in self.numbers else f"(Value {place})"

    def _signs(self, value: str) -> Iterator[str]:
        tensor = self.graph.constant(value)
        if is_never_negative(self.graph, value):
            yield "NotNegative"
        if tensor is not None and bool((tensor.numpy() > 0).all()):
            yield "Positive"
        if tensor is not None and bool((tensor.numpy() != 0).all()):
            yield "Nonzero"

    def number_rules(self, mode: str) -> ExactNumbers:
        """Which results of its numbers are numbers: in mode `exact` those that are not rounded."""
        if self.kind == "booleans":
            return ExactNumbers("1", "1", True, None, True, ("1", "1"))
        if self.kind == "integers":
            most = np.iinfo(self.dtype.numpy()).max
            return ExactNumbers("1", str(most), True, None, True, ("1", "1"))
        limits = np.finfo(self.dtype.numpy())
        half = int(limits.maxexp) // 2
        return ExactNumbers(
            as_number(float(limits.tiny)),
            as_number(float(limits.max)),
            False,
            int(limits.nmant) + 1 if mode == EXACT else None,
            mode == "fast",
            (f"1/{2**half}", str(2**half)),
        )


def _number(graph: Graph, value: str) -> str | None:
    tensor = graph.constant(value)
    if tensor is None or math.prod(constant_shape(tensor)) != 1:
        return None
    number = tensor.numpy().reshape(()).item()
    return as_number(number) if math.isfinite(number) else None


def algebraic_groups(graph: Graph, most: int) -> tuple[list[tuple[str, ...]], int]:
    """The names of the operators of each region of FEWEST_OPERATORS or more, in the graph's order.

    Regions of more than `most` operators are cut into pieces, whose number is the second result.
    """
    groups, pieces = [], 0
    for nodes in _connected(graph):
        parts = [nodes[start : start + most] for start in range(0, len(nodes), most)]
        pieces += len(parts) if len(parts) > 1 else 0
        groups += [tuple(node.name for node in part) for part in parts if len(part) >= FEWEST_OPERATORS]
    return groups, pieces


def _connected(graph: Graph) -> list[list[Node]]:
    """Algebraic operators of one element type, together where one reads the other."""
    import networkx  # imported late: the import is slow, and listing the passes does not need it

    dtype_of = {node.name: dtype for node in graph.nodes if (dtype := _dtype(graph, node)) is not None}
    near = networkx.Graph()
    near.add_nodes_from(dtype_of)
    for name, dtype in dtype_of.items():
        producers = [graph.producer(value) for value in graph.node(name).inputs]
        near.add_edges_from(
            (producer.name, name) for producer in producers if producer and dtype_of.get(producer.name) is dtype
        )
    groups = [sorted(group, key=graph.position) for group in networkx.connected_components(near)]
    return [[graph.node(name) for name in group] for group in sorted(groups, key=lambda g: graph.position(g[0]))]


def _dtype(graph: Graph, node: Node) -> DataType | None:
    """The one element type of its operands and its result, if it is an operator of equations; else None."""
    if node.domain or ARITIES.get(node.op_type) != len(node.inputs) or node.attributes or len(node.outputs) != 1:
        return None
    types = [graph.tensor_type(value) for value in (*node.inputs, *node.outputs)]
    results = {None if type_ is None else type_.dtype for type_ in types}
    dtype = results.pop()
    return dtype if not results and dtype in KIND_OF else None


def algebraic_region(graph: Graph, names: Sequence[str]) -> AlgebraicRegion:
    """The region of these operators, as the graph is now."""
    nodes = sorted(map(graph.node, names), key=lambda node: graph.position(node.name))
    made = [node.outputs[0] for node in nodes]
    own = {node.name for node in nodes}
    computed = set(made)
    read = [value for value in dict.fromkeys(v for node in nodes for v in node.inputs) if value not in computed]
    outside = {value: [user for user in graph.users(value) if user.name not in own] for value in made}
    results = [value for value in made if outside[value] or graph.is_output(value)]
    steps = {user.op for users in outside.values() for user in users} | {node.op for node in nodes}
    values = (*read, *made)
    dtype = _dtype(graph, nodes[0])
    assert dtype is not None
    places = tuple(place for place, value in enumerate(values) if value in results)
    return AlgebraicRegion(graph, tuple(nodes), values, len(read), places, bool(steps & STEPS), dtype)
