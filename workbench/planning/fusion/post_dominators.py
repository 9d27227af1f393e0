"""The post-dominator tree of a graph of operators.

An operator's immediate post-dominator is the first one that all its results flow into, on every path.

Source: Lengauer and Tarjan's notion for flow graphs. In an acyclic graph the immediate post-dominator is the lowest
common ancestor of the users in the tree so far, as in Apache TVM, src/relax/analysis/graph_partitioner.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.ops.fusion_kinds import ELEMENTWISE, OPAQUE, FusionKind
from workbench.planning.fusion.problem import Operator


@dataclass(frozen=True)
class PostDominator:
    """An operator's position in the tree.

    parent:   index of its immediate post-dominator; None if it has none.
    depth:    in the tree, 1 without a parent.
    relation: the least fusable kind of an edge on all paths to the parent.
    """

    parent: int | None
    depth: int
    relation: FusionKind


def post_dominators(operators: Sequence[Operator]) -> tuple[PostDominator, ...]:
    """The tree as a tuple with an entry for each operator; `operators` are in topological order.

    An operator whose result leaves the graph, or is unused, has none.
    """
    tree: dict[int, PostDominator] = {}
    for i in range(len(operators) - 1, -1, -1):
        tree[i] = _post_dominator(operators[i], tree)
    return tuple(tree[i] for i in range(len(operators)))


def _post_dominator(operator: Operator, tree: dict[int, PostDominator]) -> PostDominator:
    if operator.is_output or not operator.edges:
        return PostDominator(None, 1, OPAQUE)
    parent: int | None = operator.edges[0].user
    relation = ELEMENTWISE
    for edge in operator.edges:
        relation = max(relation, edge.kind)
        other: int | None = edge.user
        while parent != other and parent is not None and other is not None:
            if tree[parent].depth >= tree[other].depth:
                parent, other = other, parent  # the deeper one goes up
            relation, other = max(relation, tree[other].relation), tree[other].parent
        if parent is None or other is None:
            return PostDominator(None, 1, OPAQUE)
    assert parent is not None
    return PostDominator(parent, tree[parent].depth + 1, relation)
