"""Operators that select elements by index, on permuted operands."""

from __future__ import annotations

from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, inverse
from workbench.ops.permutation.kinds import (
    NONE,
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
    place = inverse(perm)[axis]
    out: list[int] = []
    for own in perm:
        if own == axis:
            out.extend(range(axis, axis + indices))
        else:
            out.append(own if own < axis else own + indices - 1)
    return PermutedCall((0,), (or_none(tuple(out)),), with_attributes(node, axis=place))


def _in_place_of(axis: int, perm: Permutation, rank: int) -> Permutation | None:
    """The result's axes: those of the data in order, with the permuted axes of the indices in place of `axis`."""
    after = range(axis + len(perm), rank - 1 + len(perm))
    return or_none((*range(axis), *(axis + own for own in perm), *after))


def _propagate_gather_nd(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The leading axes are indexed, and must stay; those that are copied whole may be permuted."""
    indices = graph.shape(node.inputs[1])
    if not indices or not isinstance(indices[-1], int):
        raise NotPermutable(f"the number of axes that {node} indexes is not known")
    looked_up = node.attr("batch_dims") + indices[-1]
    if perm[:looked_up] != tuple(range(looked_up)):
        raise NotPermutable(f"{node} indexes the first {looked_up} axes")
    ahead = len(indices) - 1
    out = (*range(ahead), *(own - looked_up + ahead for own in perm[looked_up:]))
    return PermutedCall((0,), (or_none(out),))


GATHER = Layout("remapped", _propagate_gather)
GATHER_ND = remapped(_propagate_gather_nd, NONE)
