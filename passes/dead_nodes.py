"""Remove nodes whose results nobody reads."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, Found, NoMatch, Pass, Refusal, Rule


def match_dead(graph: Graph, node: Node, options: Pass) -> Found:
    for value in filter(None, node.outputs):
        if graph.users(value):
            raise NoMatch(f"{graph.users(value)[0]} reads '{value}' of {node}")
        if graph.is_output(value):
            raise NoMatch(f"'{value}' of {node} is an output of the graph")
    return Found(Edit(remove=(node.name,)), f"nobody reads {node}; removed", (node.name,))


@dataclass(frozen=True)
class DeadNodes(Pass):
    """Dead-code elimination: a node goes when no node, body or output of the graph reads any of its results.

    Whatever fed only such a node goes after it, so a dead chain goes in one run. A
    constant that loses its last reader goes with the node.

    Must not act on a node of which one of several results is read.

    Source: the buddy compiler's plan for graph optimization, "dead-code elimination".
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
                sentences=("nobody reads Abs 'Abs_b'; removed", "nobody reads Neg 'Neg_a'; removed"),
                title="A chain that ends nowhere goes whole",
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
            exactness=Exactness.BITS,
        ),
    )
