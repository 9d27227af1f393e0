"""Remove nodes whose results are unused."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.dead_code import dead_chain_removal


def match_dead(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    for value in filter(None, node.outputs):
        if users := graph.users(value):
            raise NoMatch(f"{users[0]} reads '{value}' of {node}")
        if graph.is_output(value):
            raise NoMatch(f"'{value}' of {node} is an output of the graph")
    return dead_chain_removal(graph, node)


def _may_be_dead(graph: Graph, node: Node) -> bool:
    return not any(map(graph.count_users, node.outputs))


@dataclass(frozen=True)
class DeadNodes(Pass):
    """Dead-code elimination: a node is removed if no node, body or output of the graph reads any of its results.

    If the removed node was the only user of other nodes, these are removed in the same rewrite, so that a dead chain
    takes one rewrite. A constant that loses its last user is removed too.

    Does not apply to a node if any of its results is read.

    Source: the unpublished plan of graph optimizations for buddy-compiler, "dead-code elimination"
    (docs/references.md, "buddy plan").
    """

    title = "Remove dead nodes"

    rules = (
        Rule(
            "dead",
            ("*",),
            match_dead,
            Example(
                before="g (float[2] x) => (float[2] y) { a = Neg(x)  b = Abs(a)  y = Relu(x) }",
                after="g (float[2] x) => (float[2] y) { y = Relu(x) }",
                sentences=("Abs 'Abs_b' is unused; removed with Neg 'Neg_a' before it, which nothing else reads",),
                title="A dead chain is removed in one rewrite",
            ),
            refusals=(
                Refusal(
                    "g (float[4] x) => (float[1] y) <int64[1] k = {1}> { v, i = TopK(x, k)  y = Relu(v) }",
                    "Relu 'Relu_y' reads 'v' of TopK 'TopK_v'",
                ),
                Refusal(
                    "g (float[2] x) => (float[2] y) { y = Relu(x) }",
                    "'y' of Relu 'Relu_y' is an output of the graph",
                ),
            ),
            may_match=_may_be_dead,
            exactness=Exactness.BIT_EXACT,
        ),
    )
