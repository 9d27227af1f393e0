"""A graph as a problem of execution order."""

from __future__ import annotations

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.ir import Graph, Node
from workbench.ops import fusion_kind_of
from workbench.ops.fusion_kinds import BROADCAST
from workbench.planning.fusion.traffic import is_view, size_of
from workbench.planning.memory.order import OrderedOperator, SchedulingProblem


class UnknownSizeError(ValueError):
    """The size of a value is not known; its name is the argument."""


def scheduling_problem(graph: Graph) -> SchedulingProblem:
    """The graph's operators and the memories that they read and write.

    Memories are values that operators compute; a view shares its operand's. Elementwise and broadcasting operators
    may overwrite an operand of the shape and element size of their result. Inputs and weights are not counted, a
    Concat copies, and a node with bodies is one operator.

    Raises UnknownSizeError.
    """
    memory_of: dict[str, int] = {}
    sizes: list[int] = []
    number = {node.name: i for i, node in enumerate(graph.nodes)}
    operators = []
    for node in graph.nodes:
        producers = (graph.producer(value) for value in node.operands)
        after = dict.fromkeys(number[producer.name] for producer in producers if producer is not None)
        reads = dict.fromkeys(memory_of[value] for value in node.operands if value in memory_of)
        if is_view(graph, node):
            if node.inputs[0] in memory_of:  # a view of an input or weight has no memory
                memory_of[node.outputs[0]] = memory_of[node.inputs[0]]
            operators.append(OrderedOperator(tuple(after), tuple(reads), ()))
            continue
        writes = []
        for value in filter(None, node.outputs):
            size = size_of(graph, value)
            if size is None:
                raise UnknownSizeError(value)
            memory_of[value] = len(sizes)
            writes.append(len(sizes))
            sizes.append(size)
        overwritable = tuple(memory_of[value] for value in _overwritable(graph, node) if value in memory_of)
        operators.append(OrderedOperator(tuple(after), tuple(reads), tuple(writes), overwritable))
    outputs = frozenset(memory_of[value] for value in graph.outputs if value in memory_of)
    return SchedulingProblem(tuple(operators), tuple(sizes), outputs)


def _overwritable(graph: Graph, node: Node) -> list[str]:
    """The operands that the result may overwrite."""
    if fusion_kind_of(node) > BROADCAST or is_view(graph, node):
        return []
    result, shape = graph.tensor_type(node.outputs[0]), bound_shape(graph, node.outputs[0])
    overwritable = []
    for value in filter(None, node.inputs):
        operand = graph.tensor_type(value)
        if operand is None or result is None or operand.dtype.bitwidth != result.dtype.bitwidth:
            continue
        if shape is not None and bound_shape(graph, value) == shape:
            overwritable.append(value)
    return overwritable
