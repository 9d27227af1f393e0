"""Execution orders by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from workbench.errors import UserError
from workbench.ir import Graph, Node
from workbench.planning.memory.order import lowest_peak
from workbench.planning.memory.scheduling import UnknownSizeError, scheduling_problem

FILE_ORDER = "file"


def _file_order(graph: Graph) -> Sequence[Node]:
    return graph.nodes


def _depth_first(graph: Graph) -> Sequence[Node]:
    """Each operator after its operands' operators, one result of the graph after the other."""
    results: dict[str, Node] = {}
    for value in graph.outputs:
        _append_with_producers(graph, graph.producer(value), results)
    for node in graph.nodes:
        _append_with_producers(graph, node, results)
    return tuple(results.values())


def _append_with_producers(graph: Graph, target: Node | None, results: dict[str, Node]) -> None:
    """Append what `target` needs, then itself; without recursion, since graphs are deep."""
    waiting = [target] if target is not None else []
    while waiting:
        node = waiting[-1]
        producers = (graph.producer(value) for value in node.operands)
        needed = [producer for producer in producers if producer is not None and producer.name not in results]
        if node.name in results or not needed:
            results.setdefault(waiting.pop().name, node)
            continue
        waiting.extend(reversed(needed))


def _breadth_first(graph: Graph) -> Sequence[Node]:
    """By the number of operators on the longest path from an input."""
    depth: dict[str, int] = {}
    for node in graph.nodes:
        producers = (graph.producer(value) for value in node.operands)
        depth[node.name] = 1 + max((depth[producer.name] for producer in producers if producer is not None), default=0)
    return sorted(graph.nodes, key=lambda node: depth[node.name])


def _lowest_peak(graph: Graph) -> Sequence[Node]:
    """The order that the pass order_for_memory computes. Raises UserError if a size is unknown."""
    try:
        problem = scheduling_problem(graph)
    except UnknownSizeError as unknown:
        raise UserError(f"The size of '{unknown}' is not known, so no order can be searched for; bind dims.") from None
    nodes = graph.nodes
    return [nodes[number] for number in lowest_peak(problem).order]


ORDERS: Mapping[str, Callable[[Graph], Sequence[Node]]] = {
    FILE_ORDER: _file_order,
    "depth_first": _depth_first,
    "breadth_first": _breadth_first,
    "lowest_peak": _lowest_peak,
}


def ordered(graph: Graph, order: str) -> Sequence[Node]:
    """The nodes of the graph in the execution order of that name. Raises UserError for an unknown name."""
    if order not in ORDERS:
        raise UserError(f"There is no execution order '{order}'; choose one of: {', '.join(ORDERS)}.")
    return ORDERS[order](graph)
