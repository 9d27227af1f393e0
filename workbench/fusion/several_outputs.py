"""The grouping with the least memory traffic if several results may leave a group, as an integer program with cuts.

A variable for each edge says whether both its ends are in one group, and one for each two operators that share a
value, on which depends what is written and read: a group is connected by its edges. What few groupings violate is
added as it happens, and the program solved again: a cycle of groups, two products in one, an edge that is forbidden
or two readers that no edges connect. Each solution is a lower bound, since it has fewer constraints; the first that
violates none is the minimum.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence

from workbench.fusion.one_output import GroupingProgram, MinimumGrouping
from workbench.fusion.problem import Operator
from workbench.fusion.rules import FusionRules
from workbench.fusion.traffic import StoredValue
from workbench.ops.fusion_kinds import FUSABLE
from workbench.solvers.binary_program import BinaryProgram, Row, minimize

_Pair = tuple[int, int]  # of operators, the earlier first


def least_traffic_of_several_outputs(
    operators: Sequence[Operator],
    values: Sequence[StoredValue],
    rules: FusionRules,
    max_operators: int,
    start: Sequence[int],
    seconds: float,
) -> MinimumGrouping:
    """The grouping with the least traffic that was found within `seconds`; several results may leave a group.

    values: all of known size. start: for each operator the number of its group, in a grouping that is allowed.
    """
    program = _Program(operators, values, rules, max_operators)
    deadline = time.monotonic() + seconds
    bound = 0
    while (left := deadline - time.monotonic()) > 0:
        binary_solution = minimize(program.costs, program.rows, program.columns_of(start), left)
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


def program_of_several_outputs(
    operators: Sequence[Operator],
    values: Sequence[StoredValue],
    rules: FusionRules,
    max_operators: int,
    group: Sequence[int],
) -> GroupingProgram:
    """The program with which `least_traffic_of_several_outputs` starts; what it adds later makes its bound larger."""
    program = _Program(operators, values, rules, max_operators)
    pairs = tuple((column, a, b) for (a, b), column in program.column.items())
    solved = BinaryProgram(program.costs, program.rows, program.columns_of(group))
    return GroupingProgram(solved, program.constant, pairs)


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
        self.beside: dict[int, list[int]] = defaultdict(list)
        for a, b in sorted(self.allowed):
            self.beside[a].append(b)
            self.beside[b].append(a)
        part = self.groups(self.allowed)
        self.column: dict[_Pair, int] = {}
        self.costs: list[int] = []
        self.rows: list[Row] = []
        self.constant = 0
        self.payments: list[list[list[_Pair]]] = []  # by column after those of pairs: cases, as for `_pay`
        for pair in sorted(self.allowed):
            self._add_pair(pair)
        for value in values:
            members = ([] if value.producer is None else [value.producer]) + value.users
            for pair in itertools.combinations(sorted(set(members)), 2):
                may = part[pair[0]] == part[pair[1]] and pair not in self.edges
                if may and not all(operators[i].kind == FUSABLE for i in pair):
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
        """For each operator the number of its group: that of its first operator, by edges whose ends are together."""
        group = list(range(len(self.operators)))

        def first(i: int) -> int:
            while group[i] != i:
                group[i] = group[group[i]]
                i = group[i]
            return i

        for a, b in together:
            if (a, b) in self.allowed:
                low, high = sorted((first(a), first(b)))
                group[high] = low
        return [first(i) for i in range(len(group))]

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
                left = set(joined)
                while path := self._path(a, b, left):
                    yield self._at_most(path, len(path) - 1)
                    left.difference_update(path)
            if len(inside) > self.max_operators:
                tree = [pair for pair in joined if group[pair[0]] == group[inside[0]]]
                yield self._at_most(tree, len(tree) - 1)
        for cycle in _cycles({(group[a], group[b]): (a, b) for a, b in self.edges if group[a] != group[b]}):
            crossing = [edge for _, edge in cycle]
            turns = [(end, start) for (_, end), (start, _) in itertools.pairwise([*crossing, crossing[0]])]
            path = [pair for end, start in turns if end != start for pair in self._path(end, start, joined)]
            yield from (self._joined(edge, path) for edge in crossing)

    # ---- rows ------------------------------------------------------------------------

    def _add_pair(self, pair: _Pair) -> None:
        if pair in self.column:
            return
        self.column[pair] = len(self.costs)
        self.costs.append(0)

    def _add_convexity(self) -> None:
        """Two operators are together only with all that lies on a path between them, of which this is a part: the
        first and last edge of each path. Two that share a value but no edge are together only by edges of both."""
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
                    own = {self.column[min(end, i), max(end, i)]: 1 for i in self.beside[end]}
                    self.rows.append(Row({**own, column: -1}, least=0))

    def _add_products(self) -> None:
        """No operator is together with two products; nor are two operators of which each has an edge with another."""
        products = {
            i: {other: self.column[min(i, other), max(i, other)] for other in beside if self._is_product(other)}
            for i, beside in self.beside.items()
        }
        for own in products.values():
            if len(own) > 1:
                self.rows.append(Row(dict.fromkeys(own.values(), 1), most=1))
        for a, b in self.allowed:
            if products[a] and products[b] and not {a, *products[a]} & {b, *products[b]}:
                columns = [*products[a].values(), *products[b].values(), self.column[a, b]]
                self.rows.append(Row(dict.fromkeys(columns, 1), most=2))

    def _is_product(self, i: int) -> bool:
        return self.operators[i].kind == FUSABLE

    def _add_costs(self, value: StoredValue) -> None:
        """What is paid if the value is written, and for each group that reads it."""
        if value.size is None:
            raise ValueError("the size of a value is unknown")
        own = [] if value.producer is None else [value.producer]
        if own and value.leaves:
            self.constant += value.size
        elif own and value.users:
            self._pay(value.size, [[(own[0], user)] for user in value.users])
        for number, user in enumerate(value.users):
            self._pay(value.size, [[(other, user) for other in (*own, *value.users[:number])]])

    def _pay(self, size: int, cases: Sequence[Sequence[_Pair]]) -> None:
        """The size is paid if in one of the cases no pair is together."""
        ordered = [[(min(pair), max(pair)) for pair in pairs] for pairs in cases]
        possible = [[pair for pair in pairs if pair in self.column] for pairs in ordered]
        if not all(possible):
            self.constant += size
            return
        for pairs in possible:
            self.rows.append(Row({len(self.costs): 1, **{self.column[pair]: 1 for pair in pairs}}, least=1))
        self.costs.append(size)
        self.payments.append(possible)

    def _joined(self, edge: _Pair, path: Sequence[_Pair]) -> Row:
        """Where all pairs of the path are together, the ends of the edge are: never, if it is forbidden."""
        row = dict.fromkeys((self.column[pair] for pair in path), -1)
        if edge in self.column:
            row[self.column[edge]] = 1
        return Row(row, least=1 - len(set(path)))

    def _at_most(self, pairs: Sequence[_Pair], most: int) -> Row:
        return Row(dict.fromkeys((self.column[pair] for pair in pairs), 1), most=most)

    def _connected(self, pair: _Pair, inside: Sequence[int]) -> Row:
        """The two are together only if an edge leaves these operators, to which one of them belongs."""
        row = {
            self.column[min(i, other), max(i, other)]: 1
            for i in inside
            for other in self.beside[i]
            if other not in inside
        }
        return Row({**row, self.column[pair]: -1}, least=0)

    def _path(self, a: int, b: int, joined: set[_Pair]) -> list[_Pair]:
        """The edges of a shortest path from a to b among those that are joined; none if there is no path."""
        before = {a: a}
        waiting = deque([a])
        while b not in before:
            if not waiting:
                return []
            i = waiting.popleft()
            for other in self.beside[i]:
                if other not in before and (min(i, other), max(i, other)) in joined:
                    before[other] = i
                    waiting.append(other)
        path = []
        while b != a:
            path.append((min(b, before[b]), max(b, before[b])))
            b = before[b]
        return path


def _cycles(edges: dict[_Pair, _Pair]) -> Iterator[list[tuple[int, _Pair]]]:
    """A shortest cycle of groups through each that is in one: groups, each with the edge of operators to the next.

    edges: of groups, with an edge of operators for each.
    """
    users: dict[int, list[int]] = defaultdict(list)
    for a, b in edges:
        users[a].append(b)
    seen: set[frozenset[int]] = set()
    for start in _in_cycles(users):
        before: dict[int, int] = {}
        waiting = deque([start])
        while start not in before and waiting:
            i = waiting.popleft()
            for other in users[i]:
                if other not in before:
                    before[other] = i
                    waiting.append(other)
        if start not in before:
            continue
        cycle: list[tuple[int, _Pair]] = []
        at = start
        while not cycle or at != start:
            cycle.append((before[at], edges[before[at], at]))
            at = before[at]
        if (result := frozenset(group for group, _ in cycle)) not in seen:
            seen.add(result)
            yield cycle[::-1]


def _in_cycles(users: dict[int, list[int]]) -> list[int]:
    """The groups that are left when those before and after all others are taken away again and again."""
    left = {*users, *(b for others in users.values() for b in others)}
    producers: dict[int, list[int]] = defaultdict(list)
    for a, others in users.items():
        for b in others:
            producers[b].append(a)
    for ahead in (producers, users):
        count = {i: sum(other in left for other in ahead.get(i, ())) for i in left}
        after = users if ahead is producers else producers
        waiting = [i for i in left if not count[i]]
        while waiting:
            i = waiting.pop()
            left.discard(i)
            for other in after.get(i, ()):
                if other in left:
                    count[other] -= 1
                    if not count[other]:
                        waiting.append(other)
    return sorted(left)
