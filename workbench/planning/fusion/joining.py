"""Joining groups of operators as long as that saves memory traffic: a start for the search of the minimum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.ops.fusion_kinds import FUSABLE
from workbench.planning.fusion.problem import Operator
from workbench.planning.fusion.rules import FusionRules
from workbench.planning.fusion.traffic import StoredValue
from workbench.support.reachability import reachable

_Pair = tuple[int, int]  # the numbers of two groups


def join_groups(
    operators: Sequence[Operator],
    values: Sequence[StoredValue],
    rules: FusionRules,
    max_operators: int,
    group: Sequence[int],
) -> tuple[int, ...]:
    """The grouping with pairs of groups joined, in each round the pair that saves the most bytes.

    Two groups are joined if an edge connects them and all edges between them are allowed. At most one of them may have
    a product, and no path may lead from one through a third group to the other.
    group: for each operator the number of its group, which is the number of an operator in it.
    """
    groups = _Groups(operators, values, rules, max_operators, group)
    savings = {pair: groups.saved(*pair) for pair in groups.neighbours(range(len(operators)))}
    while savings:
        pair = max(sorted(savings), key=savings.__getitem__)
        if not savings[pair] or not groups.may_join(*pair):
            del savings[pair]
            continue
        joined = groups.join(*pair)
        savings = {other: size for other, size in savings.items() if not set(other) & set(pair)}
        savings |= {other: groups.saved(*other) for other in groups.neighbours(groups.members[joined])}
    return tuple(groups.group)


class _Groups:
    """A grouping that changes; `members` are the operators of each group."""

    def __init__(
        self,
        operators: Sequence[Operator],
        values: Sequence[StoredValue],
        rules: FusionRules,
        max_operators: int,
        group: Sequence[int],
    ) -> None:
        self.operators, self.rules, self.max_operators = operators, rules, max_operators
        self.group = list(group)
        self.members: dict[int, list[int]] = {}
        for i, number in enumerate(group):
            self.members.setdefault(number, []).append(i)
        self._values: list[list[StoredValue]] = [[] for _ in operators]
        for value in values:
            for i in {*value.users, *(() if value.producer is None else (value.producer,))}:
                self._values[i].append(value)
        self._users = [tuple(edge.user for edge in operator.edges) for operator in operators]
        self._producers: list[list[int]] = [[] for _ in operators]
        for i, users in enumerate(self._users):
            for user in users:
                self._producers[user].append(i)

    def neighbours(self, operators: Sequence[int]) -> set[_Pair]:
        """Pairs of groups that an edge from or to these operators connects, the producing group first."""
        edges = [(i, user) for i in operators for user in self._users[i]]
        edges += [(producer, i) for i in operators for producer in self._producers[i]]
        pairs = {(self.group[a], self.group[b]) for a, b in edges}
        return {(a, b) for a, b in pairs if a != b}

    def saved(self, first: int, second: int) -> int:
        """Bytes that are not moved if these two groups are one."""
        shared = {id(value): value for i in self.members[first] for value in self._values[i]}
        both = {id(value) for i in self.members[second] for value in self._values[i]} & shared.keys()
        return sum(self._moved(shared[key]) - self._moved(shared[key], first, second) for key in both)

    def _moved(self, value: StoredValue, first: int = -1, second: int = -1) -> int:
        def number(i: int) -> int:
            return first if self.group[i] == second else self.group[i]

        producing_group = None if value.producer is None else number(value.producer)
        readers = {number(user) for user in value.users} - {producing_group}
        return (value.size or 0) * (len(readers) + (producing_group is not None and bool(readers or value.leaves)))

    def may_join(self, first: int, second: int) -> bool:
        """Whether the rules allow these two groups to be one."""
        inside = self.members[first] + self.members[second]
        if len(inside) > self.max_operators or sum(self.operators[i].kind == FUSABLE for i in inside) > 1:
            return False
        for i in self.members[first]:
            for edge in self.operators[i].edges:
                kinds = self.operators[i].kind, edge.kind, self.operators[edge.user].kind
                if self.group[edge.user] == second and not self.rules.allow(*kinds):
                    return False
        return not self._leads_through_others(first, second)

    def _leads_through_others(self, first: int, second: int) -> bool:
        """Whether a path leads from the first group through a third to the second."""

        def following(group: int) -> Iterator[int]:
            return (self.group[user] for i in self.members[group] for user in self._users[i])

        others = {group for group in following(first) if group not in (first, second)}
        return second in reachable(others, lambda group: (other for other in following(group) if other != first))

    def join(self, first: int, second: int) -> int:
        """Join two groups; returns the number of the result."""
        removed = self.members.pop(second)
        self.members[first] += removed
        for i in removed:
            self.group[i] = first
        return first
