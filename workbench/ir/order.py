"""Topological order as ranks: the rank of an inserted node is between those of its neighbours."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from workbench.ir.edit import EditError
from workbench.ir.node import Node


def topological(nodes: Mapping[str, Node], producer: Mapping[str, str], rank: Mapping[str, float]) -> list[str] | None:
    """Names of the nodes in topological order, ties broken by the lowest rank; None if there is a cycle.

    Source: Kahn, "Topological sorting of large networks" (CACM 1962).
    """
    waiting: dict[str, int] = {}
    readers: dict[str, list[str]] = {}
    for node in nodes.values():
        producers = {producer[v] for v in node.operands if v in producer}
        waiting[node.name] = len(producers)
        for source in producers:
            readers.setdefault(source, []).append(node.name)
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


def sorted_among(nodes: Mapping[str, Node]) -> list[Node] | None:
    """The nodes in topological order, otherwise in their present order; None if there is a cycle."""
    producer = {value: name for name, node in nodes.items() for value in node.outputs if value}
    order = topological(nodes, producer, {name: position for position, name in enumerate(nodes)})
    return None if order is None else [nodes[name] for name in order]


def rank_bounds(
    nodes: Sequence[Node], users: Mapping[str, Mapping[str, None]], rank: Mapping[str, float]
) -> dict[str, float]:
    """For each new node, by name, an upper bound of its rank: that of its first reader, new nodes included."""
    results: dict[str, float] = {}
    later: dict[str, float] = {}  # value -> the lowest upper bound among the new nodes that use it
    for node in reversed(nodes):
        readers = {u for v in node.outputs if v for u in users.get(v, ())}
        after = (later[v] for v in node.outputs if v in later)
        results[node.name] = min([*(rank[u] for u in readers), *after], default=math.inf)
        for value in node.operands:
            later[value] = min(later.get(value, math.inf), results[node.name])
    return results


def rank_between(ranks: Sequence[float], low: float, high: float) -> float:
    """A rank not among the sorted `ranks`: just before `high`, or just after `low` if there is no `high`."""
    if math.isfinite(high):
        index = bisect_left(ranks, high)
        below = max(low, ranks[index - 1] if index else high - 2.0)
        return (below + high) / 2
    if not math.isfinite(low):
        return ranks[-1] + 1.0 if ranks else 0.0
    index = bisect_right(ranks, low)
    above = ranks[index] if index < len(ranks) else low + 2.0
    return (low + above) / 2


def check_order(
    nodes: Mapping[str, Node], producer: Mapping[str, str], rank: Mapping[str, float], ranks: Mapping[str, float]
) -> dict[str, float]:
    """The present ranks of nodes that get new `ranks`. Raises EditError if a node would run before one of its
    operands."""
    unknown = [name for name in ranks if name not in nodes]
    if unknown:
        raise EditError(f"there is no node '{unknown[0]}' to move")
    after = {**rank, **ranks}
    for node in nodes.values() if ranks else ():
        late = [value for value in node.operands if value in producer and after[producer[value]] >= after[node.name]]
        if late:
            raise EditError(f"in the new order {node} runs before '{late[0]}' is computed")
    return {name: rank[name] for name in ranks}
