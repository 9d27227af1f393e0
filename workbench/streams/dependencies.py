"""Operators, their times, and what must run before what; knows no graph.

Sets of operators are bit masks: bit i is operator i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Dependencies:
    """after: for each operator those that must run before, with lower numbers. times: of operators, in microseconds.
    computing: for each whether arithmetic bounds it, and not memory."""

    after: tuple[tuple[int, ...], ...]
    times: tuple[float, ...]
    computing: tuple[bool, ...]

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        results: list[list[int]] = [[] for _ in self.after]
        for number, earlier in enumerate(self.after):
            for one in earlier:
                results[one].append(number)
        return tuple(map(tuple, results))

    @cached_property
    def to_the_end(self) -> tuple[float, ...]:
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
        return max(self.to_the_end, default=0.0)

    @property
    def bound(self) -> float:
        """No order on any number of lanes is faster than one after the other by more than this factor."""
        return self.total / self.critical_path if self.critical_path else 1.0


def closure(after: Sequence[Sequence[int]]) -> list[int]:
    """For each operator all that must have run before, as a mask."""
    before: list[int] = []
    for earlier in after:
        mask = 0
        for one in earlier:
            mask |= before[one] | 1 << one
        before.append(mask)
    return before
