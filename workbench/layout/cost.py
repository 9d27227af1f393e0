"""The cost of transposes: elements whose position in memory changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from workbench.ir import DataType, Graph, Node, TensorType
from workbench.ir.liveness import unread_nodes
from workbench.ir.permutation import Permutation, inverse, moves_data, permuted
from workbench.layout.calls import called_function


@dataclass(frozen=True)
class Counts:
    """transposes: those of computed values, also in bodies and functions. elements_moved, bytes_moved: what they move.
    unknown: transposes of unknown shape."""

    transposes: int
    elements_moved: int
    bytes_moved: int
    unknown: int = 0


def bound_shape(graph: Graph, value: str) -> tuple[int, ...] | None:
    """The value's shape with the symbolic dims bound; for costs only, since rules must hold for all sizes.

    Its rank is `graph.rank_of(value)`. None if that or a size is unknown.
    """
    rank = graph.rank_of(value)
    return None if rank is None else _shape_of_rank(graph, value, rank)


def _shape_of_rank(graph: Graph, value: str, rank: int) -> tuple[int, ...] | None:
    found = _known_shape(graph, value, rank)
    return found if found is not None else _shape_by_reshape(graph, value)


def _known_shape(graph: Graph, value: str, rank: int) -> tuple[int, ...] | None:
    """Bound sizes can change the rank: a Squeeze without axes then removes a batch of 1 too."""
    for type_ in (graph.tensor_type(value), graph.bound_types.get(value)):
        shape = _bound(type_, graph)
        if shape is not None and len(shape) == rank:
            return shape
    return None


def _shape_by_reshape(graph: Graph, value: str) -> tuple[int, ...] | None:
    """For a result or operand of a Reshape: its symbolic dims, as far as the known other side has them too."""
    maker = graph.producer(value)
    beside = [maker.inputs[0]] if maker is not None and maker.op == "Reshape" else []
    beside += [user.outputs[0] for user in graph.users(value) if user.op == "Reshape"]
    for other in beside:
        dims = graph.shape(other)
        known = None if dims is None else _known_shape(graph, other, len(dims))
        if dims is None or known is None:
            continue
        lengths = dict(zip(dims, known, strict=True))
        sizes = [lengths.get(dim) if isinstance(dim, str) else dim for dim in graph.shape(value) or (None,)]
        if None not in sizes:
            return tuple(size for size in sizes if isinstance(size, int))
    return None


def _bound(type_: TensorType | None, graph: Graph) -> tuple[int, ...] | None:
    if type_ is None or type_.shape is None:
        return None
    shape = tuple([graph.dims.get(d) if isinstance(d, str) else d for d in type_.shape])
    return None if None in shape else cast(tuple[int, ...], shape)


def moved_by(graph: Graph, value: str, perm: Permutation) -> int | None:
    """Elements that a Transpose of `value` by `perm` moves; 0 if only axes of size 1 move, None if unknown."""
    shape = _shape_of_rank(graph, value, len(perm))
    if shape is None or len(shape) != len(perm):
        return None
    return math.prod(shape) if moves_data(perm, shape) else 0


def perm_of(graph: Graph, node: Node) -> Permutation | None:
    """The permutation of a Transpose; without the attribute it reverses the axes."""
    perm = node.attr("perm")
    if perm is not None:
        return tuple(perm)
    rank = graph.rank_of(node.inputs[0])
    return None if rank is None else tuple(reversed(range(rank)))


def moved_by_node(graph: Graph, node: Node) -> int | None:
    """Elements that the Transpose `node` moves; None if no shape is known."""
    perm = perm_of(graph, node)
    if perm is None:
        return None
    moved = moved_by(graph, node.inputs[0], perm)
    if moved is not None:
        return moved
    result = _shape_of_rank(graph, node.outputs[0], len(perm))
    if result is None or len(result) != len(perm):
        return None
    return math.prod(result) if moves_data(perm, permuted(result, inverse(perm))) else 0


def element_bytes(graph: Graph, value: str) -> int:
    """Bytes of one element; 4 if the element type is unknown or of no fixed size, as strings are."""
    type_ = graph.tensor_type(value)
    if type_ is None or type_.dtype in (DataType.UNDEFINED, DataType.STRING):
        return 4
    return max(math.ceil(type_.dtype.itemsize), 1)


def count(graph: Graph) -> Counts:
    """The transposes and what they move, with those of bodies and functions, but without those of constants and those
    whose results nothing reads."""
    transposes = moved = size = unknown = 0
    for body in (*(body for node in graph.with_bodies for body in node.bodies.values()), *_called(graph)):
        inner = count(body)
        transposes, unknown = transposes + inner.transposes, unknown + inner.unknown
        moved, size = moved + inner.elements_moved, size + inner.bytes_moved
    found = graph.nodes_of(("Transpose",))
    fixed = follow_from_constants(graph) if found else set()
    unread = unread_nodes(graph) if found else {}
    for node in found:
        if node.inputs[0] in fixed or node.name in unread:
            continue
        cost = moved_by_node(graph, node)
        transposes, moved, unknown = transposes + 1, moved + (cost or 0), unknown + (cost is None)
        size += (cost or 0) * element_bytes(graph, node.inputs[0])
    return Counts(transposes, moved, size, unknown)


def _called(graph: Graph) -> Iterator[Graph]:
    """The body of each call of a model-local function, functions with a contract apart."""
    for node in graph.nodes if graph.functions else ():
        function = called_function(graph, node)
        if function is not None:
            yield function.graph


def follow_from_constants(graph: Graph) -> set[str]:
    """The constants and what is computed from constants only: values whose transposes do not count."""
    fixed = set(graph.constants)
    for node in graph.nodes:
        if node.operands and fixed.issuperset(node.operands):
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


def no_longer_moved(graph: Graph, *transposes: Node) -> str:
    """What removing these Transposes saves, in words."""
    return f"{elements(known_sum(moved_by_node(graph, node) for node in transposes))} no longer moved"


def elements(number: int | None) -> str:
    """The number of elements in words."""
    return "an unknown number of elements" if number is None else f"{number:,} element{'' if number == 1 else 's'}"
