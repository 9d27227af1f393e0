"""Remove nodes whose results are unused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule


def match_dead(graph: Graph, node: Node, options: Pass) -> Rewrite:
    for value in filter(None, node.outputs):
        if users := graph.users(value):
            raise NoMatch(f"{users[0]} reads '{value}' of {node}")
        if graph.is_output(value):
            raise NoMatch(f"'{value}' of {node} is an output of the graph")
    gone = _with_what_fed_it(graph, node)
    others = ""
    if len(gone) > 1:
        which = f"{gone[1]}" if len(gone) == 2 else f"{len(gone) - 1:,} nodes"
        others = f" with {which} before it, which nothing else reads"
    names = tuple(other.name for other in gone)
    return Rewrite(Edit(remove=names), f"{node} is unused; removed{others}", names)


def _may_be_dead(graph: Graph, node: Node) -> bool:
    return not any(map(graph.count_users, node.outputs))


def _with_what_fed_it(graph: Graph, node: Node) -> list[Node]:
    """The node, and those before it whose results are read only by nodes of this list."""
    gone = {node.name: node}
    waiting = [node]
    while waiting:
        for value in waiting.pop().operands:
            maker = graph.producer(value)
            if maker is not None and maker.name not in gone and _is_read_by(graph, maker, gone):
                gone[maker.name] = maker
                waiting.append(maker)
    return list(gone.values())


def _is_read_by(graph: Graph, node: Node, readers: Mapping[str, Node]) -> bool:
    """Whether only these nodes read its results."""
    for value in filter(None, node.outputs):
        if graph.is_output(value) or graph.count_users(value) > len(readers):
            return False
        if any(user.name not in readers for user in graph.users(value)):
            return False
    return True


@dataclass(frozen=True)
class DeadNodes(Pass):
    """Dead-code elimination: a node is removed if no node, body or output of the graph reads any of its results.

    Nodes whose results only such a node reads are removed with it, a dead chain in one rewrite. A constant that loses
    its last reader is removed too.

    Must not act on a node if any of its results is read.

    Source: buddy plan, "dead-code elimination" (docs/references.md).
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
            exactness=Exactness.BITS,
        ),
    )
