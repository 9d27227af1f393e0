"""Shapes with the numbers that are bound to symbolic dims: for costs, not for rules."""

from __future__ import annotations

from typing import cast

from workbench.analysis.inference.shapes import infer_types
from workbench.ir import Graph, TensorType


def bound_shape(graph: Graph, value: str) -> tuple[int, ...] | None:
    """The value's shape with the symbolic dims bound; for costs only, since rules must hold for all sizes.

    Its rank is `graph.rank_of(value)`. None if the rank or a size is unknown.
    """
    rank = graph.rank_of(value)
    return None if rank is None else shape_of_rank(graph, value, rank)


def bound_type(graph: Graph, value: str) -> TensorType | None:
    """The value's type, with symbolic dims bound where their sizes are known; None if unknown."""
    type_, shape = graph.tensor_type(value), bound_shape(graph, value)
    return type_ if type_ is None or shape is None else type_.with_shape(shape)


def bytes_of_value(graph: Graph, value: str) -> int | None:
    """The value's size in bytes with symbolic dims bound; None if unknown."""
    type_ = bound_type(graph, value)
    return None if type_ is None else type_.bytes


def shape_of_rank(graph: Graph, value: str, rank: int) -> tuple[int, ...] | None:
    """The bound shape of a value of this rank; None if a size is unknown."""
    known = _known_shape(graph, value, rank)
    return known if known is not None else _shape_by_reshape(graph, value)


def _known_shape(graph: Graph, value: str, rank: int) -> tuple[int, ...] | None:
    """The bound shape, if it has this rank.

    Bound sizes can change the rank: a Squeeze without axes then removes a batch of 1 too.
    """
    for type_ in (graph.tensor_type(value), graph.bound_types.get(value)):
        shape = _bound(type_, graph)
        if shape is not None and len(shape) == rank:
            return shape
    return None


def _shape_by_reshape(graph: Graph, value: str) -> tuple[int, ...] | None:
    """The bound shape of a Reshape's result or operand whose symbolic dims all occur on its known other side."""
    producer = graph.producer(value)
    other_sides = [producer.inputs[0]] if producer is not None and producer.op == "Reshape" else []
    other_sides += [user.outputs[0] for user in graph.users(value) if user.op == "Reshape"]
    for other in other_sides:
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
    is_known = all(size is not None and size >= 0 for size in shape)  # negative: smaller than a kernel
    return cast(tuple[int, ...], shape) if is_known else None


def infer_sizes(graph: Graph) -> bool:
    """Infer unknown sizes from the inputs and store them on the graph, for costs only; returns whether any was
    inferred."""
    open_ = [v for v in graph.values() if isinstance(graph.types.get(v), TensorType) and bound_shape(graph, v) is None]
    if not open_:
        return False
    inferred = infer_types(graph, graph.dims, again=True)
    graph.bound_types.update((value, inferred[value]) for value in open_ if value in inferred)
    return any(bound_shape(graph, value) is not None for value in open_)
