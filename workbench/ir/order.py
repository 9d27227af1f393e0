"""Topological order."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from workbench.ir.node import Node


def topological(nodes: Mapping[str, Node], producer: Mapping[str, str], rank: Mapping[str, float]) -> list[str] | None:
    """Names of the nodes in order, of those that are ready the lowest rank first; None where there is a cycle.

    Source: Kahn, "Topological sorting of large networks" (CACM 1962).
    """
    waiting: dict[str, int] = {}
    readers: dict[str, list[str]] = {}
    for node in nodes.values():
        makers = {producer[v] for v in node.uses if v in producer}
        waiting[node.name] = len(makers)
        for maker in makers:
            readers.setdefault(maker, []).append(node.name)
    ready = [(rank[name], name) for name, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, name = heapq.heappop(ready)
        order.append(name)
        for reader in readers.get(name, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, (rank[reader], reader))
    return order if len(order) == len(nodes) else None
