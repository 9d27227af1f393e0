"""The grouping with the least memory traffic if several results may leave a group, as an integer program with cuts.

A variable for each edge says whether both its ends are in one group. So does a variable for each two operators that
share a value; on these depends what is written and read. Edges connect the operators of a group. Constraints that few
groupings violate are added when a solution violates them, and the program is solved again: a cycle of groups, two
products in one group, a forbidden edge, or two readers that no edges connect. Each solution is a lower bound, since it
has fewer constraints; the first that violates none is the minimum.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence

from workbench.ops.fusion_kinds import FUSABLE
from workbench.planning.fusion.one_output import MinimumGrouping
from workbench.planning.fusion.problem import Operator
from workbench.planning.fusion.rules import FusionRules
from workbench.planning.fusion.traffic import StoredValue
from workbench.planning.solvers.binary_program import Row, minimize

_Pair = tuple[int, int]  # two operators, the earlier first


def least_traffic_of_multi_output(
    operators: Sequence[Operator],
    values: Sequence[StoredValue],
    rules: FusionRules,
    max_operators: int,
    start: Sequence[int],
    seconds: float,
) -> MinimumGrouping:
    """The grouping with the least traffic that was found within `seconds`; several results may leave a group.

    values: all of known size. start: for each operator the number of its group, in an allowed grouping.
    """
    program = _Program(operators, values, rules, max_operators)
    deadline = time.monotonic() + seconds
    bound = 0
    while (remaining := deadline - time.monotonic()) > 0:
        binary_solution = minimize(program.costs, program.rows, program.columns_of(start), remaining)
        bound = max(bound, binary_solution.lower_bound + program.constant)
        if binary_solution.values is None:
            break
        together = {pair for pair, column in program.column.items() if binary_solution.values[column] > 0.5}
        group = program.groups(together)
        cuts = list(program.violated(together, group))
        if not cuts:
            return MinimumGrouping(tuple(group), bound)
        program.rows += cuts
    return MinimumGrouping(tuple(start), bound)


class _Program:
    """Columns for pairs of operators that may be in one group, then for what is written and read."""

    def __init__(
        self, operators: Sequence[Operator], values: Sequence[StoredValue], rules: FusionRules, max_operators: int
    ) -> None:
        self.operators, self.max_operators = operators, max_operators
        self.edges = {(i, edge.user) for i, operator in enumerate(operators) for edge in operator.edges}
        forbidden = {
            (i, edge.user)
            for i, operator in enumerate(operators)
            for edge in operator.edges
            if not rules.allow(operator.kind, edge.kind, operators[edge.user].kind)
        }
        self.allowed = self.edges - forbidden
        self.neighbours: dict[int, list[int]] = defaultdict(list)
        for a, b in sorted(self.allowed):
            self.neighbours[a].append(b)
            self.neighbours[b].append(a)
        component = self.groups(self.allowed)
        self.column: dict[_Pair, int] = {}
        self.costs: list[int] = []
        self.rows: list[Row] = []
        self.constant = 0
        self.payments: list[list[list[_Pair]]] = []  # by column after the columns of pairs: the cases of `_pay`
        for pair in sorted(self.allowed):
            self._add_pair(pair)
        for value in values:
            members = ([] if value.producer is None else [value.producer]) + value.users
            for pair in itertools.combinations(sorted(set(members)), 2):
                possible = component[pair[0]] == component[pair[1]] and pair not in self.edges
                if possible and not all(operators[i].kind == FUSABLE for i in pair):
                    self._add_pair(pair)
        self._add_convexity()
        self._add_products()
        for value in values:
            self._add_costs(value)

    def columns_of(self, group: Sequence[int]) -> list[float]:
        """A grouping as values of the columns."""
        together = [float(group[a] == group[b]) for a, b in self.column]
        paid = [float(any(all(group[a] != group[b] for a, b in pairs) for pairs in cases)) for cases in self.payments]
        return together + paid

    def groups(self, together: Iterable[_Pair]) -> list[int]:
        """For each operator the number of its group's first operator. together: pairs that are in one group."""
        group = list(range(len(self.operators)))

        def root(i: int) -> int:
            while group[i] != i:
                group[i] = group[group[i]]
                i = group[i]
            return i

        for a, b in together:
            if (a, b) in self.allowed:
                low, high = sorted((root(a), root(b)))
                group[high] = low
        return [root(i) for i in range(len(group))]

    def violated(self, together: set[_Pair], group: Sequence[int]) -> Iterator[Row]:
        """Constraints that the grouping violates."""
        joined = {pair for pair in together if pair in self.allowed}
        members: dict[int, list[int]] = defaultdict(list)
        for i, number in enumerate(group):
            members[number].append(i)
        for a, b in together - joined:
            if group[a] != group[b]:
                yield from (self._connected((a, b), members[group[end]]) for end in (a, b))
        for a, b in self.edges - joined:
            if group[a] == group[b]:
                yield self._joined((a, b), self._path(a, b, joined))
        for inside in members.values():
            products = [i for i in inside if self._is_product(i)]
            for a, b in itertools.combinations(products, 2):
                remaining = set(joined)
                while path := self._path(a, b, remaining):
                    yield self._at_most(path, len(path) - 1)
                    remaining.difference_update(path)
            if len(inside) > self.max_operators:
                tree = [pair for pair in joined if group[pair[0]] == group[inside[0]]]
                yield self._at_most(tree, len(tree) - 1)
        for cycle in _cycles({(group[a], group[b]): (a, b) for a, b in self.edges if group[a] != group[b]}):
            crossing = [edge for _, edge in cycle]
            connections = [(end, start) for (_, end), (start, _) in itertools.pairwise([*crossing, crossing[0]])]
            path = [pair for end, start in connections if end != start for pair in self._path(end, start, joined)]
            yield from (self._joined(edge, path) for edge in crossing)

    # ---- rows ------------------------------------------------------------------------

    def _add_pair(self, pair: _Pair) -> None:
        if pair in self.column:
            return
        self.column[pair] = len(self.costs)
        self.costs.append(0)

    def _add_convexity(self) -> None:
        """Two operators are together only with all operators on paths between them. These rows state a part of that:
        the first and last edge of each path. Two that share a value but no edge need an edge each to be together."""
        users: dict[int, list[int]] = defaultdict(list)
        producers: dict[int, list[int]] = defaultdict(list)
        for a, b in self.edges:
            users[a].append(b)
            producers[b].append(a)
        reached = [0] * len(self.operators)  # bit b of a: there is a path from a to b
        for a in reversed(range(len(self.operators))):
            for b in users[a]:
                reached[a] |= reached[b] | 1 << b
        for (a, b), column in self.column.items():
            between = [(a, i) for i in users[a] if i != b and reached[i] >> b & 1]
            between += [(i, b) for i in producers[b] if i != a and reached[a] >> i & 1]
            for edge in between:
                self.rows.append(self._joined(edge, [(a, b)]))
            if (a, b) not in self.edges:
                for end in (a, b):
                    edge_columns = {self.column[min(end, i), max(end, i)]: 1 for i in self.neighbours[end]}
                    self.rows.append(Row({**edge_columns, column: -1}, lower=0))

    def _add_products(self) -> None:
        """No operator is together with two products. Two operators with edges to different products are not together
        with both."""
        products = {
            i: {other: self.column[min(i, other), max(i, other)] for other in neighbours if self._is_product(other)}
            for i, neighbours in self.neighbours.items()
        }
        for product_columns in products.values():
            if len(product_columns) > 1:
                self.rows.append(Row(dict.fromkeys(product_columns.values(), 1), upper=1))
        for a, b in self.allowed:
            if products[a] and products[b] and not {a, *products[a]} & {b, *products[b]}:
                columns = [*products[a].values(), *products[b].values(), self.column[a, b]]
                self.rows.append(Row(dict.fromkeys(columns, 1), upper=2))

    def _is_product(self, i: int) -> bool:
        return self.operators[i].kind == FUSABLE

    def _add_costs(self, value: StoredValue) -> None:
        """Add the costs of writing the value, and of reading it in each group."""
        if value.size is None:
            raise ValueError("the size of a value is unknown")
        producer = [] if value.producer is None else [value.producer]
        if producer and value.leaves:
            self.constant += value.size
        elif producer and value.users:
            self._pay(value.size, [[(producer[0], user)] for user in value.users])
        for number, user in enumerate(value.users):
            self._pay(value.size, [[(other, user) for other in (*producer, *value.users[:number])]])

    def _pay(self, size: int, cases: Sequence[Sequence[_Pair]]) -> None:
        """Add a cost of `size`, which is paid if in one of the cases no pair is together."""
        ordered = [[(min(pair), max(pair)) for pair in pairs] for pairs in cases]
        possible = [[pair for pair in pairs if pair in self.column] for pairs in ordered]
        if not all(possible):
            self.constant += size
            return
        for pairs in possible:
            self.rows.append(Row({len(self.costs): 1, **{self.column[pair]: 1 for pair in pairs}}, lower=1))
        self.costs.append(size)
        self.payments.append(possible)

    def _joined(self, edge: _Pair, path: Sequence[_Pair]) -> Row:
        """If all pairs of the path are together, so are the ends of the edge; never, if the edge is forbidden."""
        row = dict.fromkeys((self.column[pair] for pair in path), -1)
        if edge in self.column:
            row[self.column[edge]] = 1
        return Row(row, lower=1 - len(set(path)))

    def _at_most(self, pairs: Sequence[_Pair], upper: int) -> Row:
        return Row(dict.fromkeys((self.column[pair] for pair in pairs), 1), upper=upper)

    def _connected(self, pair: _Pair, inside: Sequence[int]) -> Row:
        """The pair is together only if an edge leaves the operators `inside`, to which one of the pair belongs."""
        row = {
            self.column[min(i, other), max(i, other)]: 1
            for i in inside
            for other in self.neighbours[i]
            if other not in inside
        }
        return Row({**row, self.column[pair]: -1}, lower=0)

    def _path(self, a: int, b: int, joined: set[_Pair]) -> list[_Pair]:
        """The edges of a shortest path from a to b within `joined`; [] if there is no path."""
        previous = {a: a}
        waiting = deque([a])
        while b not in previous:
            if not waiting:
                return []
            i = waiting.popleft()
            for other in self.neighbours[i]:
                if other not in previous and (min(i, other), max(i, other)) in joined:
                    previous[other] = i
                    waiting.append(other)
        path = []
        while b != a:
            path.append((min(b, previous[b]), max(b, previous[b])))
            b = previous[b]
        return path


def _cycles(edges: dict[_Pair, _Pair]) -> Iterator[list[tuple[int, _Pair]]]:
    """A shortest cycle through each group in a cycle: groups, each with the edge of operators to the next group.

    edges: by edge between groups, an edge between operators.
    """
    users: dict[int, list[int]] = defaultdict(list)
    for a, b in edges:
        users[a].append(b)
    seen: set[frozenset[int]] = set()
    for start in _in_cycles(users):
        previous: dict[int, int] = {}
        waiting = deque([start])
        while start not in previous and waiting:
            i = waiting.popleft()
            for other in users[i]:
                if other not in previous:
                    previous[other] = i
                    waiting.append(other)
        if start not in previous:
            continue
        cycle: list[tuple[int, _Pair]] = []
        current = start
        while not cycle or current != start:
            cycle.append((previous[current], edges[previous[current], current]))
            current = previous[current]
        if (groups := frozenset(group for group, _ in cycle)) not in seen:
            seen.add(groups)
            yield cycle[::-1]


def _in_cycles(users: dict[int, list[int]]) -> list[int]:
    """The groups that remain when groups without users or without producers are removed repeatedly."""
    remaining = {*users, *(b for others in users.values() for b in others)}
    producers: dict[int, list[int]] = defaultdict(list)
    for a, others in users.items():
        for b in others:
            producers[b].append(a)
    for inputs_of in (producers, users):
        degree = {i: sum(other in remaining for other in inputs_of.get(i, ())) for i in remaining}
        outputs_of = users if inputs_of is producers else producers
        waiting = [i for i in remaining if not degree[i]]
        while waiting:
            i = waiting.pop()
            remaining.discard(i)
            for other in outputs_of.get(i, ()):
                if other in remaining:
                    degree[other] -= 1
                    if not degree[other]:
                        waiting.append(other)
    return sorted(remaining)
