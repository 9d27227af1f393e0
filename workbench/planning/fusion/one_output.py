"""The grouping with the least memory traffic when each group has one output operator, as an integer program.

For an operator i and a root r there is a variable z[i, r]: i is in the group whose results leave it from r. Each
operator is in one group. It is in the group of r only if all its users are, so groups are convex and their graph has no
cycle. A group writes what its root returns, and reads once each value that another group computes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.ops.fusion_kinds import FUSABLE
from workbench.planning.fusion.problem import Operator
from workbench.planning.fusion.rules import FusionRules, candidates
from workbench.planning.fusion.traffic import StoredValue
from workbench.planning.solvers.binary_program import Row, minimize


@dataclass(frozen=True)
class MinimumGrouping:
    """group: for each operator the number of its group, which is that of an operator in it. lower_bound: in bytes."""

    group: tuple[int, ...]
    lower_bound: int


class _Program:
    """Columns z[i, r] for each operator and root, then one for each value and each group that may read it."""

    def __init__(self, operators: Sequence[Operator], rules: FusionRules, max_operators: int) -> None:
        groups = enumerate(candidates(operators, rules, max_operators))
        self.pairs = [(i, root) for root, inside in groups for i in inside]
        self.column = {pair: number for number, pair in enumerate(self.pairs)}
        self.costs = [0] * len(self.pairs)
        self.rows: list[Row] = []
        self.reads: list[tuple[StoredValue, int]] = []
        self.roots: dict[int, list[int]] = defaultdict(list)
        members: dict[int, list[int]] = defaultdict(list)
        for i, root in self.pairs:
            self.roots[i].append(root)
            members[root].append(i)
            for edge in operators[i].edges if i != root else ():
                self._limit({(i, root): 1, (edge.user, root): -1}, 0)
        for i in range(len(operators)):
            self.rows.append(Row({self.column[i, root]: 1 for root in self.roots[i]}, 1, 1))
        for root, inside in members.items():
            if len(inside) > max_operators:
                self._limit({(i, root): 1 for i in inside}, max_operators)
            products = [i for i in inside if operators[i].kind == FUSABLE]
            if len(products) > 1:
                self._limit({(i, root): 1 for i in products}, 1)

    def _limit(self, coefficients: dict[tuple[int, int], int], upper: int) -> None:
        self.rows.append(Row({self.column[pair]: number for pair, number in coefficients.items()}, upper=upper))

    def add(self, value: StoredValue) -> None:
        """The costs of writing and reading the value."""
        if value.size is None:
            raise ValueError("the size of a value is unknown")
        if value.producer is not None and (value.users or value.leaves):
            for root in (value.producer, *value.views):  # the group of this root writes it
                if (value.producer, root) in self.column:
                    self.costs[self.column[value.producer, root]] += value.size
        readers: dict[int, list[int]] = defaultdict(list)
        for user in value.users:
            for root in self.roots[user]:
                readers[root].append(user)
        for root, users in readers.items():
            inside = () if value.producer is None else ((value.producer, root),)
            producer_columns = {self.column[pair]: 1 for pair in inside if pair in self.column}
            for user in users:
                self.rows.append(Row({len(self.costs): 1, **producer_columns, self.column[user, root]: -1}, lower=0))
            self.costs.append(value.size)
            self.reads.append((value, root))

    def columns_of(self, root_of: Sequence[int]) -> list[float]:
        """A grouping as values of the columns."""
        grouped = [float(root_of[i] == root) for i, root in self.pairs]
        read = [
            float(
                any(root_of[user] == root for user in value.users)
                and (value.producer is None or root_of[value.producer] != root)
            )
            for value, root in self.reads
        ]
        return grouped + read


def least_traffic_of_one_output(
    operators: Sequence[Operator],
    values: Sequence[StoredValue],
    rules: FusionRules,
    max_operators: int,
    start: Sequence[int],
    seconds: float,
) -> MinimumGrouping:
    """The grouping with the least traffic that was found within `seconds`.

    values: all of known size; raises ValueError otherwise. max_operators: in one group.
    start: for each operator the root of its group, in a grouping that the rules allow.
    """
    program = _Program(operators, rules, max_operators)
    for value in values:
        program.add(value)
    binary_solution = minimize(program.costs, program.rows, program.columns_of(start), seconds)
    if binary_solution.values is None:
        return MinimumGrouping(tuple(start), binary_solution.lower_bound)
    root_of = {i: root for number, (i, root) in enumerate(program.pairs) if binary_solution.values[number] > 0.5}
    return MinimumGrouping(tuple(root_of[i] for i in range(len(operators))), binary_solution.lower_bound)
