"""The Casts of a graph between float32 and a narrower type, and the bytes that they read and write."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from workbench.analysis.inference.bound_shapes import bound_shape, bytes_of_value
from workbench.analysis.metrics.transpose_cost import computed_from_constants
from workbench.ir import DataType, Graph, Node
from workbench.ir.liveness import unread_nodes
from workbench.ir.types import constant_type
from workbench.planning.precision.element_types import WIDE


@dataclass(frozen=True)
class CastCounts:
    """casts: of computed values, read by something. bytes: read and written by those of known size, in one run.

    unknown: the number of those of unknown size.
    """

    casts: int
    bytes: int
    unknown: int = 0


def start_of_chain(graph: Graph, value: str, converts: Callable[[Node], bool]) -> str:
    """The value from which a chain of nodes that convert it, each with one operand, leads to `value`."""
    producer = graph.producer(value)
    while producer is not None and converts(producer):
        value = producer.inputs[0]
        producer = graph.producer(value)
    return value


def computed_before_run(graph: Graph) -> set[str]:
    """The constants, and values computed from constants only. Their Casts do not count.

    What a DequantizeLinear gives is none of them: runtimes keep weights as integers, and dequantize them in each run.
    """
    return computed_from_constants(graph, ("DequantizeLinear",))


def bytes_converted(graph: Graph, value: str, narrow: DataType) -> int | None:
    """The bytes that a Cast of the value between the two types reads and writes; None if its size is unknown."""
    shape = bound_shape(graph, value)
    bytes_of_both = int(WIDE.itemsize + narrow.itemsize)
    return None if shape is None else math.prod(shape) * bytes_of_both


def bytes_read_and_written(graph: Graph) -> int:
    """By all operators in one run, each by itself, as far as sizes are known; those in bodies do not count."""
    return sum(_bytes_of(graph, value) for node in graph.nodes for value in (*node.inputs, *node.outputs) if value)


def _bytes_of(graph: Graph, value: str) -> int:
    tensor = graph.constant(value)
    return (bytes_of_value(graph, value) if tensor is None else constant_type(tensor).bytes) or 0


def casts_between(graph: Graph, narrow: DataType) -> Iterator[Node]:
    """The Casts of computed values from float32 to the narrow type, or back, whose results are read."""
    nodes = graph.nodes_of(("Cast",))
    fixed = computed_before_run(graph) if nodes else set()
    unread = unread_nodes(graph) if nodes else {}
    for node in nodes:
        types = [graph.tensor_type(value) for value in (node.inputs[0], node.outputs[0])]
        converts = {None if type_ is None else type_.dtype for type_ in types} == {WIDE, narrow}
        if converts and node.inputs[0] not in fixed and node.name not in unread:
            yield node


def count_casts(graph: Graph, narrow: DataType) -> CastCounts:
    sizes = [_bytes_of_cast(graph, node, narrow) for node in casts_between(graph, narrow)]
    known = [size for size in sizes if size is not None]
    return CastCounts(len(sizes), sum(known), len(sizes) - len(known))


def _bytes_of_cast(graph: Graph, node: Node, narrow: DataType) -> int | None:
    """By its operand, else by its result: sizes with bound dims are known of values that the pass did not make."""
    by_operand = bytes_converted(graph, node.inputs[0], narrow)
    return by_operand if by_operand is not None else bytes_converted(graph, node.outputs[0], narrow)
