"""Execution orders by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from workbench.errors import UserError
from workbench.ir import Graph, Node
from workbench.memory.order import lowest_peak
from workbench.memory.scheduling import UnknownSizeError, scheduling_problem


def _of_file(graph: Graph) -> Sequence[Node]:
    return graph.nodes


def _depth_first(graph: Graph) -> Sequence[Node]:
    """Each operator after its operands' operators, one result of the graph after the other."""
    results: dict[str, Node] = {}
    for value in graph.outputs:
        _after(graph, graph.producer(value), results)
    for node in graph.nodes:
        _after(graph, node, results)
    return tuple(results.values())


def _after(graph: Graph, last: Node | None, results: dict[str, Node]) -> None:
    """Append what `last` needs, then itself; without recursion, since graphs are deep."""
    waiting = [last] if last is not None else []
    while waiting:
        node = waiting[-1]
        makers = (graph.producer(value) for value in node.operands)
        needed = [maker for maker in makers if maker is not None and maker.name not in results]
        if node.name in results or not needed:
            results.setdefault(waiting.pop().name, node)
            continue
        waiting.extend(reversed(needed))


def _breadth_first(graph: Graph) -> Sequence[Node]:
    """By the number of operators on the longest way from an input."""
    depth: dict[str, int] = {}
    for node in graph.nodes:
        makers = (graph.producer(value) for value in node.operands)
        depth[node.name] = 1 + max((depth[maker.name] for maker in makers if maker is not None), default=0)
    return sorted(graph.nodes, key=lambda node: depth[node.name])


def _lowest_peak(graph: Graph) -> Sequence[Node]:
    """As the pass order_for_memory has it. Raises UserError if a size is unknown."""
    try:
        problem = scheduling_problem(graph)
    except UnknownSizeError as unknown:
        raise UserError(f"The size of '{unknown}' is not known, so no order can be searched for; bind dims.") from None
    nodes = graph.nodes
    return [nodes[number] for number in lowest_peak(problem).order]


ORDERS: Mapping[str, Callable[[Graph], Sequence[Node]]] = {
    "file": _of_file,
    "depth_first": _depth_first,
    "breadth_first": _breadth_first,
    "lowest_peak": _lowest_peak,
}


def ordered(graph: Graph, order: str) -> Sequence[Node]:
    """The nodes of the graph in the execution order of that name. Raises UserError if there is none."""
    if order not in ORDERS:
        raise UserError(f"There is no execution order '{order}'; choose one of: {', '.join(ORDERS)}.")
    return ORDERS[order](graph)
