"""The fewest chains that contain every operator.

Chains may skip operators: they are a minimum path cover of the transitive closure. By Dilworth's theorem their number
is that of the largest set of operators in which none must run before another. The closure is not built: a path of a
flow may pass operators of other chains (Ford and Fulkerson, "Flows in Networks", 1962, section II.9). Chains follow
edges if they can, since an operator right after the one that it needs waits for no other chain: each skip costs 1, and
units of flow take a cheapest path, one after another. That leaves one skip too many in 4 of 1,000 random graphs of up
to 80 operators.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence


def fewest_chains(after: Sequence[Sequence[int]]) -> list[list[int]]:
    """Chains of operators, each in topological order, and each operator in one of them.

    after: for each operator those that it needs, with lower numbers.
    """
    count = len(after)
    flow = _Flow(after)
    unmatched = [start for start in range(count) if not flow.augment_along_edges(start)]
    for start in unmatched:
        flow.augment(start)
    following = flow.following()
    heads = set(range(count)) - set(following.values())
    chains = []
    for head in sorted(heads):
        chain = [head]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        chains.append(chain)
    return chains


class _Flow:
    """Units of flow, each from an operator to the next of its chain.

    An operator has three vertices: its own unit starts at the first (its number), units pass it at the second
    (count + number), and at most one unit ends at the third (2 * count + number). A unit goes along one edge at no
    cost, or enters the second vertices at a cost of 1 and goes along edges from there.
    """

    def __init__(self, after: Sequence[Sequence[int]]) -> None:
        self.count = len(after)
        self.after = after
        self.users: list[list[int]] = [[] for _ in after]
        for number, earlier in enumerate(after):
            for predecessor in earlier:
                self.users[predecessor].append(number)
        self.units: dict[tuple[int, int], int] = defaultdict(int)  # by (vertex, vertex)
        self.ended = [False] * self.count

    def augment_along_edges(self, start: int) -> bool:
        """Add a unit that starts at the operator, if every unit can go along one edge; returns whether it can."""
        previous, waiting = {start: -1}, deque([start])
        while waiting:
            vertex = waiting.popleft()
            if vertex >= self.count and not self.ended[vertex - 2 * self.count]:
                self._add_path(previous, vertex)
                return True
            for successor in self._along_edges(vertex):
                if successor not in previous:
                    previous[successor] = vertex
                    waiting.append(successor)
        return False

    def _along_edges(self, vertex: int) -> Iterator[int]:
        if vertex < self.count:
            yield from (2 * self.count + user for user in self.users[vertex])
        else:
            yield from (
                predecessor
                for predecessor in self.after[vertex - 2 * self.count]
                if self.units.get((predecessor, vertex))
            )

    def augment(self, start: int) -> None:
        """Add a unit that starts at the operator, on a cheapest path in the residual graph, if there is a path."""
        previous, cost, waiting = {start: -1}, {start: 0}, deque([start])
        queued = {start}
        while waiting:
            vertex = waiting.popleft()
            queued.discard(vertex)
            for successor, edge_cost in self._residual(vertex):
                if cost[vertex] + edge_cost < cost.get(successor, self.count + 1):
                    previous[successor], cost[successor] = vertex, cost[vertex] + edge_cost
                    if successor not in queued:
                        queued.add(successor)
                        waiting.append(successor)
        ends = [vertex for vertex in cost if vertex >= 2 * self.count and not self.ended[vertex - 2 * self.count]]
        if ends:
            self._add_path(previous, min(ends, key=lambda vertex: (cost[vertex], vertex)))

    def _residual(self, vertex: int) -> Iterator[tuple[int, int]]:
        """The vertices to which a unit, or one that is taken back, can go from a vertex, each with its cost."""
        count, number = self.count, vertex % self.count
        start, passing, end = number, count + number, 2 * count + number
        if vertex == start:
            yield passing, 1
            yield from ((2 * count + user, 0) for user in self.users[number])
        elif vertex == passing:
            if self.units.get((start, passing)):
                yield start, -1
            for user in self.users[number]:
                yield count + user, 0
                yield 2 * count + user, 0
            yield from (
                (count + predecessor, 0)
                for predecessor in self.after[number]
                if self.units.get((count + predecessor, passing))
            )
        else:
            for predecessor in self.after[number]:
                if self.units.get((predecessor, end)):
                    yield predecessor, 0
                if self.units.get((count + predecessor, end)):
                    yield count + predecessor, 0

    def _add_path(self, previous: dict[int, int], vertex: int) -> None:
        self.ended[vertex % self.count] = True
        while (predecessor := previous[vertex]) != -1:
            if self.units.get((vertex, predecessor)):
                self.units[vertex, predecessor] -= 1
            else:
                self.units[predecessor, vertex] += 1
            vertex = predecessor

    def following(self) -> dict[int, int]:
        """For each operator the next of its chain."""
        remaining: dict[int, list[int]] = defaultdict(list)
        for (start, end), units in self.units.items():
            remaining[start] += [end] * units
        results: dict[int, int] = {}
        for start in range(self.count):
            if not remaining[start]:
                continue
            vertex = start
            while vertex < 2 * self.count:
                vertex = remaining[vertex].pop()
            results[start] = vertex - 2 * self.count
        return results
