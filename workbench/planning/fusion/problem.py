"""A graph as a problem of grouping operators: their fusion kinds, and the kinds of the edges between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.ops import contract_of, fusion_kind_of
from workbench.ops.fusion_kinds import BROADCAST, ELEMENTWISE, OPAQUE, FusionKind


@dataclass(frozen=True)
class FusionEdge:
    """An edge to an operator that reads a result. user: its index; kind: of the edge."""

    user: int
    kind: FusionKind


@dataclass(frozen=True)
class Operator:
    """A node of the graph, as grouping sees it.

    label:     for sentences, "Conv 'c'".
    edges:     those to the operators that read its results.
    is_output: whether one of its results is an output of the graph.
    """

    name: str
    label: str
    kind: FusionKind
    edges: tuple[FusionEdge, ...] = ()
    is_output: bool = False


def fusion_problem(graph: Graph) -> tuple[Operator, ...]:
    """The nodes in topological order, with edges as in TVM's IndexedForwardGraph (graph_partitioner.cc).

    An operand of the shape of the result has an elementwise edge even into a broadcasting operator. An operand
    whose elements are read on the host, such as the shape of a Reshape, has an opaque edge.
    """
    nodes = graph.nodes
    index = {node.name: i for i, node in enumerate(nodes)}
    kinds = [fusion_kind_of(node) for node in nodes]
    return tuple(
        Operator(
            node.name,
            str(node),
            kinds[i],
            tuple(
                FusionEdge(index[user.name], _edge_kind(graph, user, kinds[index[user.name]], value))
                for value in filter(None, node.outputs)
                for user in graph.users(value)
            ),
            any(graph.is_output(value) for value in node.outputs if value),
        )
        for i, node in enumerate(nodes)
    )


def _edge_kind(graph: Graph, user: Node, kind: FusionKind, value: str) -> FusionKind:
    """The kind of the edge from `value` to `user`; the least fusable one if the value is read several times."""
    contract = contract_of(user)
    if contract is None or value not in user.inputs:  # a body captures the value
        return OPAQUE
    positions = [i for i, operand in enumerate(user.inputs) if operand == value]
    if any(position in contract.host_inputs for position in positions):
        return OPAQUE
    if kind > BROADCAST:
        return kind
    if kind == ELEMENTWISE and positions == [0]:
        return ELEMENTWISE
    shape = graph.shape(value)
    return ELEMENTWISE if shape is not None and shape == graph.shape(user.outputs[0]) else BROADCAST


def users_of(operators: Sequence[Operator], operator: int) -> tuple[int, ...]:
    return tuple(edge.user for edge in operators[operator].edges)
