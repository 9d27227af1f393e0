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

STATES = 200_000  # the default limit of states that a search visits


@dataclass(frozen=True)
class OrderedOperator:
    """after: the operators that must run before. reads, writes: memories, by number. overwritable: memories that its
    result may overwrite if nothing reads them later."""

    after: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    overwritable: tuple[int, ...] = ()


@dataclass(frozen=True)
class SchedulingProblem:
    """Operators in an incumbent order. sizes: bytes of each memory. outputs: memories in use at the end."""

    operators: tuple[OrderedOperator, ...]
    sizes: tuple[int, ...]
    outputs: frozenset[int] = frozenset()


@dataclass(frozen=True)
class OrderSolution:
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


def lowest_peak(problem: SchedulingProblem, seconds: float = 20, states: int = STATES) -> OrderSolution:
    """An order whose peak is the lowest, or the best found within the limits, never above the incumbent's."""
    began = time.perf_counter()
    search = _Search(problem)
    incumbent = search.peak_of(range(len(problem.operators)))
    order, peak, bound = search.run(incumbent, began + seconds, states)
    return OrderSolution(order, peak, incumbent, bound, len(search.seen), time.perf_counter() - began)


@dataclass(order=True)
class _State:
    """A set of operators that have run: `done`, as a bit mask. Operators `ran` led to it from the state `previous`."""

    peak: int
    remaining: int  # operators still to run
    number: int  # of the state, so that equal states are expanded in order
    done: int = field(compare=False)
    in_use: int = field(compare=False)
    ready: tuple[int, ...] = field(compare=False)
    previous: _State | None = field(compare=False)
    ran: tuple[int, ...] = field(compare=False)


class _Search:
    def __init__(self, problem: SchedulingProblem) -> None:
        self.problem = problem
        self.count = len(problem.operators)
        self.users = [0] * len(problem.sizes)  # for each memory, its users as a bit mask
        self.after = [0] * self.count
        self.next: list[list[int]] = [[] for _ in range(self.count)]
        for number, operator in enumerate(problem.operators):
            for memory in (*operator.reads, *operator.writes):
                self.users[memory] |= 1 << number
            for earlier in operator.after:
                self.after[number] |= 1 << earlier
                self.next[earlier].append(number)
        self.seen: dict[int, int] = {}

    def run(self, incumbent: int, deadline: float, states: int) -> tuple[tuple[int, ...], int, int]:
        """The best order, its peak, and a lower bound of all peaks."""
        lower_bound = max((self._inherent(number) for number in range(self.count)), default=0)
        if incumbent <= lower_bound:
            return tuple(range(self.count)), incumbent, incumbent
        ready = tuple(number for number in range(self.count) if not self.after[number])
        waiting = [self._settled(_State(lower_bound, self.count, 0, 0, 0, ready, None, ()))]
        created = 1
        while waiting:
            state = heapq.heappop(waiting)
            if state.peak >= incumbent:
                break
            if not state.remaining:
                return _path(state), state.peak, state.peak
            if len(self.seen) >= states or time.perf_counter() > deadline:
                return tuple(range(self.count)), incumbent, state.peak
            if self.seen.get(state.done, state.peak + 1) < state.peak:
                continue
            for number in state.ready:
                following = self._settled(self._after_running(state, number, created))
                created += 1
                if following.peak < incumbent and following.peak < self.seen.get(following.done, incumbent):
                    self.seen[following.done] = following.peak
                    heapq.heappush(waiting, following)
        return tuple(range(self.count)), incumbent, incumbent

    def peak_of(self, order: Sequence[int]) -> int:
        peak = in_use = done = 0
        for number in order:
            running_peak, in_use = self._cost(number, done, in_use)
            peak, done = max(peak, running_peak), done | 1 << number
        return peak

    def _inherent(self, number: int) -> int:
        """What an operator needs while it runs, in any order."""
        operator = self.problem.operators[number]
        sizes = self.problem.sizes
        needed = sum(sizes[memory] for memory in {*operator.reads, *operator.writes})
        return needed - max((sizes[memory] for memory in operator.overwritable), default=0)

    def _cost(self, number: int, done: int, in_use: int) -> tuple[int, int]:
        """Bytes in use while an operator runs after the operators in `done`, and bytes in use afterwards."""
        operator, sizes = self.problem.operators[number], self.problem.sizes
        allocated = sum(sizes[memory] for memory in operator.writes if not self.users[memory] & done)
        done_after = done | 1 << number
        touched = {*operator.reads, *operator.writes}
        free = [
            memory for memory in touched if not self.users[memory] & ~done_after and memory not in self.problem.outputs
        ]
        overwritten = max((sizes[memory] for memory in operator.overwritable if memory in free), default=0)
        return in_use + allocated - overwritten, in_use + allocated - sum(sizes[memory] for memory in free)

    def _after_running(self, state: _State, number: int, state_number: int) -> _State:
        running_peak, in_use = self._cost(number, state.done, state.in_use)
        done = state.done | 1 << number
        released = (operator for operator in self.next[number] if not self.after[operator] & ~done)
        ready = tuple(sorted({*state.ready, *released} - {number}))
        return _State(
            max(state.peak, running_peak), state.remaining - 1, state_number, done, in_use, ready, state, (number,)
        )

    def _settled(self, state: _State) -> _State:
        """The state after all ready operators have run that raise neither the peak nor the bytes in use: running them
        first is never worse."""
        done, in_use, ready, ran = state.done, state.in_use, list(state.ready), list(state.ran)
        running = True
        while running:
            running = False
            for number in ready:
                running_peak, in_use_after = self._cost(number, done, in_use)
                if running_peak > state.peak or in_use_after > in_use:
                    continue
                done, in_use, running = done | 1 << number, in_use_after, True
                ran.append(number)
                released = {operator for operator in self.next[number] if not self.after[operator] & ~done}
                ready = sorted({*ready, *released} - {number})
                break
        remaining = self.count - done.bit_count()
        return _State(state.peak, remaining, state.number, done, in_use, tuple(ready), state.previous, tuple(ran))


def _path(last: _State | None) -> tuple[int, ...]:
    pieces = []
    while last is not None:
        pieces.append(last.ran)
        last = last.previous
    return tuple(number for piece in reversed(pieces) for number in piece)
