"""Operators that select elements by index, on permuted operands."""

from __future__ import annotations

from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, inverse
from workbench.ops.permutation.kinds import (
    NO_OPERAND,
    Layout,
    NotPermutable,
    PermutedCall,
    check_rank,
    or_none,
    remapped,
    with_attributes,
)


def _propagate_gather(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """Either operand may be permuted: the data, or the indices into a constant (an embedding)."""
    data, indices = (graph.rank_of(value) for value in node.inputs)
    if data is None or indices is None:
        raise NotPermutable(f"the rank of an operand of {node} is not known")
    axis = node.attr("axis") % data
    if node.inputs[0] in graph.constants and indices == len(perm):
        return PermutedCall((1,), (_in_place_of(axis, perm, data),))
    check_rank(graph, node, perm)
    out: list[int] = []
    for data_axis in perm:
        if data_axis == axis:
            out.extend(range(axis, axis + indices))
        else:
            out.append(data_axis if data_axis < axis else data_axis + indices - 1)
    return PermutedCall((0,), (or_none(tuple(out)),), with_attributes(node, axis=inverse(perm)[axis]))


def _in_place_of(axis: int, perm: Permutation, rank: int) -> Permutation | None:
    """The result's permutation: the axes of the data in order, and in place of `axis` the permuted axes of the indices.

    rank: the rank of the data.
    """
    after = range(axis + len(perm), rank - 1 + len(perm))
    return or_none((*range(axis), *(axis + index_axis for index_axis in perm), *after))


def _propagate_gather_nd(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The leading axes are indexed, and must stay; those that are copied whole may be permuted."""
    indices = graph.shape(node.inputs[1])
    if not indices or not isinstance(indices[-1], int):
        raise NotPermutable(f"the number of axes that {node} indexes is not known")
    indexed = node.attr("batch_dims") + indices[-1]
    if perm[:indexed] != tuple(range(indexed)):
        raise NotPermutable(f"{node} indexes the first {indexed} axes")
    leading = len(indices) - 1
    out = (*range(leading), *(axis - indexed + leading for axis in perm[indexed:]))
    return PermutedCall((0,), (or_none(out),))


GATHER = Layout("remapped", _propagate_gather)
GATHER_ND = remapped(_propagate_gather_nd, NO_OPERAND)
