"""Operators, their times and dependencies; independent of graphs.

Sets of operators are bit masks: bit i is operator i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Dependencies:
    """The dependencies of operators.

    after:     for each operator the operators that must run before, which have lower numbers.
    times:     the times of operators, in microseconds.
    computing: for each operator whether arithmetic, not memory, bounds its time.
    """

    after: tuple[tuple[int, ...], ...]
    times: tuple[float, ...]
    computing: tuple[bool, ...]

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        results: list[list[int]] = [[] for _ in self.after]
        for number, earlier in enumerate(self.after):
            for operator in earlier:
                results[operator].append(number)
        return tuple(map(tuple, results))

    @cached_property
    def longest_to_end(self) -> tuple[float, ...]:
        """For each operator the longest time from its begin to the end of the graph."""
        longest = [0.0] * len(self.times)
        for number in reversed(range(len(self.times))):
            longest[number] = self.times[number] + max((longest[user] for user in self.users[number]), default=0.0)
        return tuple(longest)

    @property
    def total(self) -> float:
        return sum(self.times)

    @property
    def critical_path(self) -> float:
        """The longest time of operators that must run one after the other."""
        return max(self.longest_to_end, default=0.0)

    @property
    def bound(self) -> float:
        """An upper bound on the speedup of any schedule on any number of streams over sequential execution."""
        return self.total / self.critical_path if self.critical_path else 1.0


def closure(after: Sequence[Sequence[int]]) -> list[int]:
    """For each operator all operators that must have run before, as a mask."""
    before: list[int] = []
    for earlier in after:
        mask = 0
        for operator in earlier:
            mask |= before[operator] | 1 << operator
        before.append(mask)
    return before
