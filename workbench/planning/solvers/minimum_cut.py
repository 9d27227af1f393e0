"""The cheapest assignment of two layouts to operators, exactly: a minimum s-t cut.

One side of the cut runs in the first layout, the other in the second. A value
that several operators read in the other layout is transposed once, so its cost
is that of a hyperedge; one auxiliary vertex for each direction reduces it to
ordinary edges. The maximum flow equals the minimum cut and proves it minimal.

Source: Ford and Fulkerson 1956; the auxiliary vertices: Lawler, "Cutsets and
partitions of hypergraphs", 1973; Goldberg and Tarjan 1988 for the flow
(the fastest of networkx's algorithms on residual chains and random graphs).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FIRST_SIDE, LAST_SIDE = 0, 1
SOURCE, SINK = "first", "last"


@dataclass(frozen=True)
class Choice:
    """The costs of an operator in the first and in the second layout; None if it cannot run in it."""

    costs: tuple[int | None, int | None] = (0, 0)

    @property
    def fixed(self) -> int | None:
        """The layout, if there is only one."""
        first, last = self.costs
        return LAST_SIDE if first is None else FIRST_SIDE if last is None else None


@dataclass(frozen=True)
class SharedValue:
    """A value: `weight` is paid once if any reader has another layout than the producer.

    producer, readers: indices of choices.
    back:              the weight if the producer has the second layout; None if it is the same.
    """

    producer: int
    readers: tuple[int, ...]
    weight: int
    back: int | None = None

    def paid(self, side: int) -> int:
        """The weight if the producer has the layout `side`."""
        return self.weight if side == FIRST_SIDE or self.back is None else self.back


@dataclass(frozen=True)
class CutProblem:
    choices: tuple[Choice, ...]
    values: tuple[SharedValue, ...]

    def cost(self, sides: tuple[int, ...]) -> int | None:
        """The cost of an assignment; None if an operator cannot run in its layout."""
        chosen = [choice.costs[side] for choice, side in zip(self.choices, sides, strict=True)]
        known = [cost for cost in chosen if cost is not None]
        if len(known) < len(chosen):
            return None
        cut = (v.paid(sides[v.producer]) for v in self.values if any(sides[r] != sides[v.producer] for r in v.readers))
        return sum(known) + sum(cut)


@dataclass(frozen=True)
class CutSolution:
    """A layout for each choice, and its cost. No assignment costs less than `lower_bound`, the maximum flow."""

    sides: tuple[int, ...]
    cost: int
    lower_bound: int


def solve_cut(problem: CutProblem) -> CutSolution:
    """The minimum, in nearly linear time on the graphs of neural networks.

    Raises ValueError if a choice has no layout.
    """
    import networkx  # imported late: the import is slow, and listing the passes does not need it
    from networkx.algorithms.flow import preflow_push

    if any(choice.costs == (None, None) for choice in problem.choices):
        raise ValueError("a choice can run in neither layout")
    fixed_cost = _fixed_cost(problem)
    graph = _network(_edges(problem))
    flow, (first, _) = networkx.minimum_cut(graph, SOURCE, SINK, flow_func=preflow_push)
    sides = tuple(
        choice.fixed if choice.fixed is not None else FIRST_SIDE if index in first else LAST_SIDE
        for index, choice in enumerate(problem.choices)
    )
    cost = problem.cost(sides)
    assert cost is not None
    return CutSolution(sides, cost, fixed_cost + int(flow))


def _fixed_cost(problem: CutProblem) -> int:
    return sum(min(c for c in choice.costs if c is not None) for choice in problem.choices)


def _network(edges: Mapping[tuple[Hashable, Hashable], int | None]) -> Any:
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from((SOURCE, SINK))
    for (tail, head), capacity in edges.items():
        if capacity is None:
            graph.add_edge(tail, head)  # without a capacity: infinite
        else:
            graph.add_edge(tail, head, capacity=capacity)
    return graph


def _edges(problem: CutProblem) -> dict[tuple[Hashable, Hashable], int | None]:
    """Capacities by (tail, head), None if infinite. An edge is cut if its tail is on the first side and its head is
    not."""
    edges: dict[tuple[Hashable, Hashable], int | None] = defaultdict(int)
    vertices = [_vertex(index, choice) for index, choice in enumerate(problem.choices)]
    for vertex, choice in zip(vertices, problem.choices, strict=True):
        first, last = choice.costs
        if first is not None and last is not None and first != last:
            tail, head = (SOURCE, vertex) if last > first else (vertex, SINK)
            _add(edges, tail, head, abs(last - first))
    for number, value in enumerate(problem.values):
        for edge in _cut_by(value, number, vertices):
            _add(edges, *edge)
    return edges


def _vertex(index: int, choice: Choice) -> Hashable:
    """The vertex of a choice; for a fixed choice, the terminal."""
    return index if choice.fixed is None else (SOURCE, SINK)[choice.fixed]


def _cut_by(
    value: SharedValue, number: int, vertices: list[Hashable]
) -> Iterator[tuple[Hashable, Hashable, int | None]]:
    producer = vertices[value.producer]
    readers = sorted({vertices[r] for r in value.readers} - {producer}, key=str)
    if not readers or not (value.paid(FIRST_SIDE) or value.paid(LAST_SIDE)):
        return
    if len(readers) == 1:
        yield producer, readers[0], value.paid(FIRST_SIDE)
        yield readers[0], producer, value.paid(LAST_SIDE)
        return
    to_last, to_first = ("to last", number), ("to first", number)
    yield producer, to_last, value.paid(FIRST_SIDE)
    yield to_first, producer, value.paid(LAST_SIDE)
    for reader in readers:
        yield to_last, reader, None
        yield reader, to_first, None


def _add(
    edges: dict[tuple[Hashable, Hashable], int | None], tail: Hashable, head: Hashable, weight: int | None
) -> None:
    if weight == 0 or tail in (head, SINK) or head == SOURCE:  # never paid
        return
    known = edges[tail, head]
    edges[tail, head] = None if weight is None or known is None else known + weight
