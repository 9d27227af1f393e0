"""The axes of a reduction."""

from __future__ import annotations

from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation
from workbench.rewrite.core.guards import require_constant
from workbench.rewrite.core.rule import NoMatch


def reduced_axes(graph: Graph, node: Node) -> frozenset[int]:
    """The reduced axes, nonnegative. Raises NoMatch if they are unknown."""
    if "axes" in node.attributes:
        raise NoMatch(f"{node} is of an opset in which axes are not an operand")
    rank = graph.rank_of(node.inputs[0])
    if not rank:
        raise NoMatch(f"the rank of '{node.inputs[0]}', which {node} reduces, is not known")
    if len(node.inputs) < 2 or not node.inputs[1]:
        if node.attr("noop_with_empty_axes"):
            raise NoMatch(f"{node} reduces no axis")
        return frozenset(range(rank))
    axes = require_constant(graph, node.inputs[1], node)
    if not axes.size:
        raise NoMatch(f"{node} names no axis")
    return frozenset(int(axis) % rank for axis in axes)


def keeps_axes(node: Node) -> bool:
    """Whether reduced axes are kept with size 1."""
    return bool(node.attr("keepdims") == 1)


def remaining_permutation(perm: Permutation, axes: frozenset[int], keeps: bool) -> Permutation:
    """The permutation of the result of a reduction that was moved before the Transpose.

    perm, axes: the Transpose, and the axes of its result that were reduced after it. keeps: whether they are kept with
    size 1.
    """
    if keeps:
        return perm
    left = [perm[axis] for axis in range(len(perm)) if axis not in axes]
    return tuple(sorted(left).index(axis) for axis in left)
