"""The cost of transposes: elements whose position in memory changes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from workbench.analysis.inference.bound_shapes import shape_of_rank
from workbench.analysis.inference.called_functions import called_function
from workbench.ir import DataType, Graph, Node
from workbench.ir.liveness import unread_nodes
from workbench.ir.permutation import Permutation, inverse, moves_data, perm_of, permuted


@dataclass(frozen=True)
class Counts:
    """What the transposes of a graph move in one run, with those in bodies and functions.

    transposes: the number of Transposes of computed values.
    elements_moved, bytes_moved: by those whose shape is known.
    unknown: the number of those whose shape is unknown.
    """

    transposes: int
    elements_moved: int
    bytes_moved: int
    unknown: int


def moved_by(graph: Graph, value: str, perm: Permutation) -> int | None:
    """Elements that a Transpose of `value` by `perm` moves; 0 if only axes of size 1 move, None if unknown."""
    shape = shape_of_rank(graph, value, len(perm))
    if shape is None or len(shape) != len(perm):
        return None
    return math.prod(shape) if moves_data(perm, shape) else 0


def moved_by_node(graph: Graph, node: Node) -> int | None:
    """Elements that the Transpose `node` moves; None if neither its operand nor its result has a known shape."""
    perm = perm_of(graph, node)
    if perm is None:
        return None
    moved = moved_by(graph, node.inputs[0], perm)
    if moved is not None:
        return moved
    output_shape = shape_of_rank(graph, node.outputs[0], len(perm))
    if output_shape is None or len(output_shape) != len(perm):
        return None
    return math.prod(output_shape) if moves_data(perm, permuted(output_shape, inverse(perm))) else 0


def element_bytes(graph: Graph, value: str) -> int:
    """Bytes of one element; 4 if the element type is unknown or string."""
    type_ = graph.tensor_type(value)
    if type_ is None or type_.dtype in (DataType.UNDEFINED, DataType.STRING):
        return 4
    return max(math.ceil(type_.dtype.itemsize), 1)


def count_transposes(graph: Graph) -> Counts:
    """The transposes and what they move, except transposes of constants and those whose results nothing reads."""
    transposes = moved = moved_bytes = unknown = 0
    for body in (*(body for node in graph.with_bodies for body in node.bodies.values()), *_called_bodies(graph)):
        inner = count_transposes(body)
        transposes, unknown = transposes + inner.transposes, unknown + inner.unknown
        moved, moved_bytes = moved + inner.elements_moved, moved_bytes + inner.bytes_moved
    nodes = graph.nodes_of(("Transpose",))
    fixed = computed_from_constants(graph) if nodes else set()
    unread = unread_nodes(graph) if nodes else {}
    for node in nodes:
        if node.inputs[0] in fixed or node.name in unread:
            continue
        cost = moved_by_node(graph, node)
        transposes, moved, unknown = transposes + 1, moved + (cost or 0), unknown + (cost is None)
        moved_bytes += (cost or 0) * element_bytes(graph, node.inputs[0])
    return Counts(transposes, moved, moved_bytes, unknown)


def _called_bodies(graph: Graph) -> Iterator[Graph]:
    """The body of each called model-local function that has no contract."""
    for node in graph.nodes if graph.functions else ():
        function = called_function(graph, node)
        if function is not None:
            yield function.graph


def computed_from_constants(graph: Graph, in_each_run: Collection[str] = ()) -> set[str]:
    """The constants, and values computed from constants only. Their transposes do not count.

    in_each_run: operators that compute in each run, of constants too.
    """
    fixed = set(graph.constants)
    for node in graph.nodes:
        if node.operands and node.op_type not in in_each_run and fixed.issuperset(node.operands):
            fixed.update(node.outputs)
    return fixed


def known_sum(numbers: Iterable[int | None]) -> int | None:
    """The sum; None if one of the numbers is unknown."""
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def elements_saved(graph: Graph, *transposes: Node) -> str:
    """What removing these Transposes saves: "1,024 elements no longer moved"."""
    return f"{elements(known_sum(moved_by_node(graph, node) for node in transposes))} no longer moved"


def elements(number: int | None) -> str:
    """The number of elements as text: "1,024 elements"."""
    return "an unknown number of elements" if number is None else f"{number:,} element{'' if number == 1 else 's'}"
