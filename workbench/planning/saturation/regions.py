"""Regions of a graph as terms: connected operators of one element type that occur in equations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workbench.ir import DataType, Graph, Node, constant_shape
from workbench.planning.saturation.exact_numbers import ExactNumbers, as_number
from workbench.planning.saturation.program import ARITIES, IS_CONSTANT, IS_TENSOR
from workbench.rewrite.analyses.discontinuous import DISCONTINUOUS
from workbench.rewrite.analyses.signs import is_never_negative
from workbench.rewrite.core.amplified_rounding import amplifier_of
from workbench.rewrite.core.exactness import EXACT

KIND_OF = {
    DataType.FLOAT: "floats",
    DataType.DOUBLE: "floats",
    DataType.FLOAT16: "floats",
    DataType.INT32: "integers",
    DataType.INT64: "integers",
    DataType.BOOL: "booleans",
}
ElementSizes = tuple[int, ...]
# In one operator there is nothing to gain except a neutral number, which remove_neutral removes.
FEWEST_OPERATORS = 2


@dataclass(frozen=True)
class AlgebraicRegion:
    """Operators of one graph, operands first.

    values:  the values that they read, then those that they compute; an index in it is a value's number in an e-graph.
    leaves:  the number of values that they read.
    results: indices of values that other nodes read, or that are outputs of the graph.
    steps:   whether an operator in it, or one that reads a result, is discontinuous, or a difference in the last bit of
             a result shows behind it.
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
    def index_of(self) -> dict[str, int]:
        return {value: index for index, value in enumerate(self.values)}

    @cached_property
    def numbers(self) -> dict[int, str]:
        """For each index, the number of a constant of one element that can be written as a scalar."""
        results = {index: _number(self.graph, value) for index, value in enumerate(self.values[: self.leaves])}
        numbers = {index: number for index, number in results.items() if number is not None}
        return {index: number for index, number in numbers.items() if self._is_scalar(self.values[index])}

    @cached_property
    def constants(self) -> frozenset[int]:
        """The indices of constants."""
        indices = (index for index in range(self.leaves) if self.graph.constant(self.values[index]) is not None)
        return frozenset(indices)

    @cached_property
    def sizes(self) -> tuple[ElementSizes | None, ...]:
        """The shape of each value, with symbolic dims bound; None if it is not known."""
        return tuple(map(self._sizes_of, self.values))

    @property
    def elements(self) -> int | None:
        """The elements that its operators compute in one run; None if they are not known."""
        computed = [size for size in self.sizes[self.leaves :] if size is not None]
        return sum(map(math.prod, computed)) if len(computed) == len(self.nodes) else None

    def _sizes_of(self, value: str) -> ElementSizes | None:
        tensor = self.graph.constant(value)
        if tensor is not None:
            return constant_shape(tensor)
        type_ = self.graph.bound_types.get(value) or self.graph.tensor_type(value)
        return None if type_ is None else type_.static_shape

    def _is_scalar(self, constant: str) -> bool:
        """Whether the constant adds no axis to any operator's result, like a scalar."""
        rank = self.graph.rank_of(constant) or 0
        others = (
            [self.graph.rank_of(value) for value in node.inputs if value != constant]
            for node in self.nodes
            if constant in node.inputs
        )
        return rank == 0 or all(any(other is not None and other >= rank for other in ranks) for ranks in others)

    def terms(self) -> Iterator[str]:
        """Its operators and the known relations of its values, as commands of egglog."""
        for node in self.nodes:
            operands = " ".join(self._written(self.index_of[value]) for value in node.inputs)
            yield f"(union (Value {self.index_of[node.outputs[0]]}) ({node.op} {operands}))"
        for index, value in enumerate(self.values):
            if index not in self.numbers:
                known = [IS_TENSOR, *([IS_CONSTANT] if index in self.constants else [])]
                known += self._signs(value) if self.kind == "floats" else []
                yield from (f"({relation} (Value {index}))" for relation in known)

    def _written(self, index: int) -> str:
        return f'(Num "{self.numbers[index]}")' if index in self.numbers else f"(Value {index})"

    def _signs(self, value: str) -> Iterator[str]:
        tensor = self.graph.constant(value)
        if is_never_negative(self.graph, value):
            yield "NotNegative"
        if tensor is not None and bool((tensor.numpy() > 0).all()):
            yield "Positive"
        if tensor is not None and bool((tensor.numpy() != 0).all()):
            yield "Nonzero"

    def number_rules(self, mode: str) -> ExactNumbers:
        """Which results of operators on its numbers are numbers; in mode `exact` those that are not rounded."""
        if self.kind == "booleans":
            return ExactNumbers("1", "1", True, None, True, ("1", "1"))
        if self.kind == "integers":
            largest = np.iinfo(self.dtype.numpy()).max
            return ExactNumbers("1", str(largest), True, None, True, ("1", "1"))
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


def algebraic_groups(graph: Graph, max_operators: int) -> tuple[list[tuple[str, ...]], int]:
    """The names of the operators of each region of FEWEST_OPERATORS or more, in the graph's order.

    Regions of more than `max_operators` operators are cut into pieces, whose number is the second result.
    """
    groups, pieces = [], 0
    for nodes in _connected(graph):
        parts = [nodes[start : start + max_operators] for start in range(0, len(nodes), max_operators)]
        pieces += len(parts) if len(parts) > 1 else 0
        groups += [tuple(node.name for node in part) for part in parts if len(part) >= FEWEST_OPERATORS]
    return groups, pieces


def _connected(graph: Graph) -> list[list[Node]]:
    """Algebraic operators of one element type, grouped if one reads the result of the other."""
    import networkx  # imported late: the import is slow, and listing the passes does not need it

    dtype_of = {node.name: dtype for node in graph.nodes if (dtype := _dtype(graph, node)) is not None}
    connections = networkx.Graph()
    connections.add_nodes_from(dtype_of)
    for name, dtype in dtype_of.items():
        producers = [graph.producer(value) for value in graph.node(name).inputs]
        connections.add_edges_from(
            (producer.name, name) for producer in producers if producer and dtype_of.get(producer.name) is dtype
        )
    groups = [sorted(group, key=graph.position) for group in networkx.connected_components(connections)]
    return [[graph.node(name) for name in group] for group in sorted(groups, key=lambda g: graph.position(g[0]))]


def _dtype(graph: Graph, node: Node) -> DataType | None:
    """The element type of the operands and the result, if it is one type and equations have the operator; else None."""
    if node.domain or ARITIES.get(node.op_type) != len(node.inputs) or node.attributes or len(node.outputs) != 1:
        return None
    types = [graph.tensor_type(value) for value in (*node.inputs, *node.outputs)]
    dtypes = {None if type_ is None else type_.dtype for type_ in types}
    dtype = dtypes.pop()
    return dtype if not dtypes and dtype in KIND_OF else None


def algebraic_region(graph: Graph, names: Sequence[str]) -> AlgebraicRegion:
    """The region of these operators in the current graph."""
    nodes = sorted(map(graph.node, names), key=lambda node: graph.position(node.name))
    results_of_nodes = [node.outputs[0] for node in nodes]
    names_of_nodes = {node.name for node in nodes}
    computed = set(results_of_nodes)
    read = [value for value in dict.fromkeys(v for node in nodes for v in node.inputs) if value not in computed]
    outside = {
        value: [user for user in graph.users(value) if user.name not in names_of_nodes] for value in results_of_nodes
    }
    results = [value for value in results_of_nodes if outside[value] or graph.is_output(value)]
    operators = {user.op for users in outside.values() for user in users} | {node.op for node in nodes}
    steps = bool(operators & DISCONTINUOUS)
    steps = steps or any(amplifier_of(graph, value, without=names_of_nodes) for value in results)
    values = (*read, *results_of_nodes)
    dtype = _dtype(graph, nodes[0])
    assert dtype is not None
    result_indices = tuple(index for index, value in enumerate(values) if value in results)
    return AlgebraicRegion(graph, tuple(nodes), values, len(read), result_indices, steps, dtype)
