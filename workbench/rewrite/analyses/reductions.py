"""The axes of a reduction."""

from __future__ import annotations

from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, drop_axes
from workbench.rewrite.core.guards import require_constant
from workbench.rewrite.core.rule import NoMatch


def reduced_axes(graph: Graph, node: Node) -> frozenset[int]:
    """The reduced axes, nonnegative. Raises NoMatch if they are unknown."""
    rank = graph.rank_of(node.inputs[0])
    if rank is None:
        raise NoMatch(f"the rank of '{node.inputs[0]}', which {node} reduces, is not known")
    if rank == 0:
        raise NoMatch(f"'{node.inputs[0]}', which {node} reduces, is a scalar")
    if len(node.inputs) < 2 or not node.inputs[1]:
        if node.attr("noop_with_empty_axes"):
            raise NoMatch(f"{node} has noop_with_empty_axes and reduces nothing")
        return frozenset(range(rank))
    axes = require_constant(graph, node.inputs[1], node)
    if not axes.size:
        raise NoMatch(f"{node} has an empty axes tensor")
    return frozenset(int(axis) % rank for axis in axes)


def keeps_axes(node: Node) -> bool:
    """Whether reduced axes are kept with size 1."""
    return bool(node.attr("keepdims") == 1)


def remaining_permutation(perm: Permutation, axes: frozenset[int], keeps: bool) -> Permutation:
    """The permutation of the Transpose after a reduction that was moved before it.

    perm:  the permutation before the move.
    axes:  the reduced axes, counted in the result of the Transpose.
    keeps: whether reduced axes are kept with size 1.
    """
    if keeps:
        return perm
    return drop_axes(perm, {perm[axis] for axis in axes})
