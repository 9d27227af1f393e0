"""The least cost of separating two vertices of a network: the maximum flow between them (Ford and Fulkerson 1956).

The flow is that of Dinic's algorithm (1970): shortest paths only, a blocking flow along them in each round. It
repeats what `planning/solvers/minimum_cut.py` computes, on purpose: the checker uses no code of the engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

from workbench.checker.outcome import NotFinished

_MAX_VISITS = 100_000_000  # of edges


class Network:
    """Vertices that lie on the first or on the last side, and what it costs if they lie on different ones."""

    SOURCE, SINK = "first", "last"  # the vertices that lie on the first and on the last side

    def __init__(self) -> None:
        self._number: dict[Hashable, int] = {}
        self._edges: list[list[int]] = []  # by vertex; an edge and the one back differ in their last bit
        self._heads: list[int] = []
        self._capacities: list[int] = []
        self._all = 1  # more than all costs
        self._visits = 0

    def add(self, members: Iterable[Hashable], cost: int) -> None:
        """A cost that is paid once if not all members lie on one side."""
        several = list(dict.fromkeys(members))
        if len(several) < 2 or cost < 1:
            return
        self._all += cost
        if len(several) == 2:
            self._connect(several[0], several[1], cost, cost)
            return
        first_in, last_in = (("shared", len(self._number), end) for end in range(2))  # Lawler 1973
        self._connect(first_in, last_in, cost, 0)
        for member in several:
            self._connect(member, first_in, None, 0)
            self._connect(last_in, member, None, 0)

    def minimum_cut(self) -> int:
        """The least cost at which SOURCE lies on the first side and SINK on the last one. Raises NotFinished."""
        source, sink = self._vertex(self.SOURCE), self._vertex(self.SINK)
        residual = [self._all if capacity < 0 else capacity for capacity in self._capacities]
        total = 0
        while (levels := self._levels(residual, source))[sink] >= 0:
            total += self._blocking_flow(residual, levels, source, sink)
        return total

    def _vertex(self, name: Hashable) -> int:
        if name not in self._number:
            self._number[name] = len(self._edges)
            self._edges.append([])
        return self._number[name]

    def _connect(self, tail: Hashable, head: Hashable, capacity: int | None, back: int) -> None:
        """capacity: None if infinite, which is stored as -1."""
        for start, end, most in ((tail, head, -1 if capacity is None else capacity), (head, tail, back)):
            self._edges[self._vertex(start)].append(len(self._heads))
            self._heads.append(self._vertex(end))
            self._capacities.append(most)

    def _spend(self, visits: int) -> None:
        self._visits += visits
        if self._visits > _MAX_VISITS:
            raise NotFinished(f"its cut takes more than {_MAX_VISITS:,} visits of edges")

    def _levels(self, residual: list[int], source: int) -> list[int]:
        """For each vertex the number of edges on a shortest path to it; -1 if there is none."""
        levels = [-1] * len(self._edges)
        levels[source], waiting = 0, deque([source])
        self._spend(len(self._heads))
        while waiting:
            vertex = waiting.popleft()
            for edge in self._edges[vertex]:
                head = self._heads[edge]
                if residual[edge] and levels[head] < 0:
                    levels[head] = levels[vertex] + 1
                    waiting.append(head)
        return levels

    def _blocking_flow(self, residual: list[int], levels: list[int], source: int, sink: int) -> int:
        """Push a blocking flow along shortest paths, and take it from what their edges have left."""
        tried = [0] * len(self._edges)  # by vertex, how many of its edges lead nowhere any more
        total, vertex = 0, source
        path: list[int] = []
        while True:
            if vertex == sink:
                self._spend(len(path))
                sent = min(residual[edge] for edge in path)
                total += sent
                for edge in path:
                    residual[edge] -= sent
                    residual[edge ^ 1] += sent
                full = next(index for index, edge in enumerate(path) if not residual[edge])
                vertex = self._heads[path[full] ^ 1]
                del path[full:]
            edges = self._edges[vertex]
            while tried[vertex] < len(edges):
                edge = edges[tried[vertex]]
                if residual[edge] and levels[self._heads[edge]] == levels[vertex] + 1:
                    break
                tried[vertex] += 1
            if tried[vertex] < len(edges):
                path.append(edges[tried[vertex]])
                vertex = self._heads[path[-1]]
            elif path:
                vertex = self._heads[path.pop() ^ 1]
                tried[vertex] += 1
            else:
                return total
