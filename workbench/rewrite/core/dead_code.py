"""Dead-code elimination, for the pass dead_nodes and for passes that must not see dead nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from workbench.ir import Edit, Graph, Node
from workbench.ir.liveness import unread_nodes
from workbench.rewrite.core.exactness import Exactness
from workbench.rewrite.core.rule import Rewrite


def dead_node_removals(graph: Graph) -> Iterator[Rewrite]:
    """The rewrites that remove all nodes that nothing reads, a dead chain in one."""
    unread = unread_nodes(graph)
    for node in [graph.node(name) for name in unread]:
        if node.name in graph and not any(map(graph.count_users, node.outputs)):
            yield dead_chain_removal(graph, node)


def dead_chain_removal(graph: Graph, node: Node) -> Rewrite:
    """The rewrite that removes a dead node and the nodes before it that only it reads."""
    removed = _dead_chain(graph, node)
    others = ""
    if len(removed) > 1:
        which = f"{removed[1]}" if len(removed) == 2 else f"{len(removed) - 1:,} nodes"
        others = f" with {which} before it, which nothing else reads"
    names = tuple(other.name for other in removed)
    return Rewrite(Edit(remove=names), f"{node} is unused; removed{others}", names, exactness=Exactness.BIT_EXACT)


def _dead_chain(graph: Graph, node: Node) -> list[Node]:
    """The node, and those before it whose results are read only by nodes of this list."""
    removed = {node.name: node}
    waiting = [node]
    while waiting:
        for value in waiting.pop().operands:
            producer = graph.producer(value)
            if producer is not None and producer.name not in removed and _is_read_only_by(graph, producer, removed):
                removed[producer.name] = producer
                waiting.append(producer)
    return list(removed.values())


def _is_read_only_by(graph: Graph, node: Node, readers: Mapping[str, Node]) -> bool:
    """Whether only these nodes read its results."""
    for value in filter(None, node.outputs):
        if graph.is_output(value) or graph.count_users(value) > len(readers):
            return False
        if any(user.name not in readers for user in graph.users(value)):
            return False
    return True
