"""Finds nodes whose results nothing needs."""

from __future__ import annotations

from workbench.ir.graph import Graph


def unread_nodes(graph: Graph) -> dict[str, None]:
    """The names of nodes on which no output of the graph depends, the last node first."""
    outputs = set(graph.outputs)
    if all(any(map(graph.count_users, node.outputs)) or not outputs.isdisjoint(node.outputs) for node in graph.nodes):
        return {}
    unread: dict[str, None] = {}
    for node in reversed(graph.nodes):
        results = [value for value in node.outputs if value]
        if outputs.isdisjoint(results) and all(user.name in unread for v in results for user in graph.users(v)):
            unread[node.name] = None
    return unread
