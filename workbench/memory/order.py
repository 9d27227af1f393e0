"""An execution order with the lowest peak of memory, by best-first search over sets of operators that have run.

Sources: the problem is register sufficiency, which is NP-complete (Sethi, "Complete Register Allocation Problems",
1975); the search over sets of finished operators as in Ahn et al., "Ordering Chaos: Memory-Aware Scheduling of
Irregularly Wired Neural Networks for Edge Devices", MLSys 2020 (https://arxiv.org/abs/2003.02369), section 3.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

STATES = 200_000  # that a search may visit by default


@dataclass(frozen=True)
class OrderedOperator:
    """after: the operators that must run before. reads, makes: memories, by number. over: memories that its result may
    overwrite, if nothing reads them later."""

    after: tuple[int, ...]
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    over: tuple[int, ...] = ()


@dataclass(frozen=True)
class SchedulingProblem:
    """Operators in an incumbent order. sizes: bytes of each memory. kept: memories in use at the end."""

    operators: tuple[OrderedOperator, ...]
    sizes: tuple[int, ...]
    kept: frozenset[int] = frozenset()


@dataclass(frozen=True)
class FoundOrder:
    """order: operators by number. peak, incumbent, lower_bound: bytes; states: sets of operators visited."""

    order: tuple[int, ...]
    peak: int
    incumbent: int
    lower_bound: int
    states: int
    seconds: float

    @property
    def certified(self) -> bool:
        """Whether no order has a lower peak."""
        return self.peak == self.lower_bound


def lowest_peak(problem: SchedulingProblem, seconds: float = 20, states: int = STATES) -> FoundOrder:
    """An order whose peak is the lowest, or the best found within the limits, never above the incumbent's."""
    begun = time.perf_counter()
    search = _Search(problem)
    incumbent = search.peak_of(range(len(problem.operators)))
    order, peak, bound = search.run(incumbent, begun + seconds, states)
    return FoundOrder(order, peak, incumbent, bound, len(search.seen), time.perf_counter() - begun)


@dataclass(order=True)
class _State:
    """A set of operators that have run, as a bit mask, and how it came about."""

    peak: int
    left: int  # operators still to run
    number: int  # of the state, so that equal ones are taken in order
    done: int = field(compare=False)
    in_use: int = field(compare=False)
    ready: tuple[int, ...] = field(compare=False)
    before: _State | None = field(compare=False)
    ran: tuple[int, ...] = field(compare=False)


class _Search:
    def __init__(self, problem: SchedulingProblem) -> None:
        self.problem = problem
        self.count = len(problem.operators)
        self.users = [0] * len(problem.sizes)  # of each memory, as a bit mask
        self.after = [0] * self.count
        self.next: list[list[int]] = [[] for _ in range(self.count)]
        for number, operator in enumerate(problem.operators):
            for memory in (*operator.reads, *operator.makes):
                self.users[memory] |= 1 << number
            for earlier in operator.after:
                self.after[number] |= 1 << earlier
                self.next[earlier].append(number)
        self.seen: dict[int, int] = {}

    def run(self, incumbent: int, deadline: float, states: int) -> tuple[tuple[int, ...], int, int]:
        """The best order, its peak, and a lower bound of all peaks."""
        least = max((self._inherent(number) for number in range(self.count)), default=0)
        if incumbent <= least:
            return tuple(range(self.count)), incumbent, incumbent
        ready = tuple(number for number in range(self.count) if not self.after[number])
        waiting = [self._settled(_State(least, self.count, 0, 0, 0, ready, None, ()))]
        made = 1
        while waiting:
            state = heapq.heappop(waiting)
            if state.peak >= incumbent:
                break
            if not state.left:
                return _path(state), state.peak, state.peak
            if len(self.seen) >= states or time.perf_counter() > deadline:
                return tuple(range(self.count)), incumbent, state.peak
            if self.seen.get(state.done, state.peak + 1) < state.peak:
                continue
            for number in state.ready:
                following = self._settled(self._ran(state, number, made))
                made += 1
                if following.peak < incumbent and following.peak < self.seen.get(following.done, incumbent):
                    self.seen[following.done] = following.peak
                    heapq.heappush(waiting, following)
        return tuple(range(self.count)), incumbent, incumbent

    def peak_of(self, order: Sequence[int]) -> int:
        peak = in_use = done = 0
        for number in order:
            most, in_use = self._cost(number, done, in_use)
            peak, done = max(peak, most), done | 1 << number
        return peak

    def _inherent(self, number: int) -> int:
        """What an operator needs while it runs, in any order."""
        operator = self.problem.operators[number]
        sizes = self.problem.sizes
        needed = sum(sizes[memory] for memory in {*operator.reads, *operator.makes})
        return needed - max((sizes[memory] for memory in operator.over), default=0)

    def _cost(self, number: int, done: int, in_use: int) -> tuple[int, int]:
        """Bytes in use while an operator runs after those done, and then."""
        operator, sizes = self.problem.operators[number], self.problem.sizes
        made = sum(sizes[memory] for memory in operator.makes if not self.users[memory] & done)
        then = done | 1 << number
        touched = {*operator.reads, *operator.makes}
        free = [memory for memory in touched if not self.users[memory] & ~then and memory not in self.problem.kept]
        over = max((sizes[memory] for memory in operator.over if memory in free), default=0)
        return in_use + made - over, in_use + made - sum(sizes[memory] for memory in free)

    def _ran(self, state: _State, number: int, made: int) -> _State:
        most, in_use = self._cost(number, state.done, state.in_use)
        done = state.done | 1 << number
        opened = (one for one in self.next[number] if not self.after[one] & ~done)
        ready = tuple(sorted({*state.ready, *opened} - {number}))
        return _State(max(state.peak, most), state.left - 1, made, done, in_use, ready, state, (number,))

    def _settled(self, state: _State) -> _State:
        """The state after all ready operators have run that neither raise the peak nor add to what is in use: to run
        them at once is never worse."""
        done, in_use, ready, ran = state.done, state.in_use, list(state.ready), list(state.ran)
        running = True
        while running:
            running = False
            for number in ready:
                most, then = self._cost(number, done, in_use)
                if most > state.peak or then > in_use:
                    continue
                done, in_use, running = done | 1 << number, then, True
                ran.append(number)
                opened = {one for one in self.next[number] if not self.after[one] & ~done}
                ready = sorted({*ready, *opened} - {number})
                break
        left = self.count - done.bit_count()
        return _State(state.peak, left, state.number, done, in_use, tuple(ready), state.before, tuple(ran))


def _path(last: _State | None) -> tuple[int, ...]:
    pieces = []
    while last is not None:
        pieces.append(last.ran)
        last = last.before
    return tuple(number for piece in reversed(pieces) for number in piece)
