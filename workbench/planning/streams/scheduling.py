"""The order in which operators are launched on streams, and when each would run.

Source: Chen et al., "Opara: Exploiting Operator Parallelism for Expediting DNN Inference on GPUs", 2023
(https://arxiv.org/abs/2312.10351): kernels bound by arithmetic run beside kernels bound by memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from workbench.planning.solvers.path_cover import fewest_chains
from workbench.planning.streams.dependencies import Dependencies, closure


@dataclass(frozen=True)
class Scheduled:
    """A scheduled operator: its number, its stream, and when it runs, in microseconds."""

    operator: int
    stream: int
    start_us: float
    end_us: float


@dataclass(frozen=True)
class Schedule:
    """A schedule of operators on streams.

    streams:  chains of operators, the longest total time first.
    launches: operators in the order of their launch.
    before:   for each operator the operators that have ended when it begins, for any times, as a mask.
    """

    dependencies: Dependencies
    streams: tuple[tuple[int, ...], ...]
    launches: tuple[int, ...]
    runs: tuple[Scheduled, ...]
    before: tuple[int, ...]

    @property
    def makespan_us(self) -> float:
        return max((run.end_us for run in self.runs), default=0.0)

    @property
    def waits(self) -> int:
        """The number of events by which one stream waits for another."""
        return sum(map(len, self.waits_for))

    @cached_property
    def waits_for(self) -> tuple[tuple[int, ...], ...]:
        """For each operator the operators of other streams for which it must wait.

        Operators whose end its stream or another wait implies are left out (the transitive reduction of the order).
        """
        previous = {second: first for chain in self.streams for first, second in pairwise(chain)}
        results = []
        for number, earlier in enumerate(self.dependencies.after):
            previous_operator = previous.get(number)
            ended_mask = 0 if previous_operator is None else self.before[previous_operator] | 1 << previous_operator
            for operator in earlier:
                ended_mask |= self.before[operator]
            results.append(tuple(operator for operator in earlier if not ended_mask >> operator & 1))
        return tuple(results)


def schedule(dependencies: Dependencies) -> Schedule:
    """A schedule on as many streams as can be busy at once; launches in the order of the longest path to the end."""
    chains = fewest_chains(dependencies.after)
    chains.sort(key=lambda chain: -sum(dependencies.times[number] for number in chain))
    launches = launch_order(dependencies)
    stream = {number: i for i, chain in enumerate(chains) for number in chain}
    free, end_times = [0.0] * len(chains), [0.0] * len(launches)
    runs = []
    for number in launches:
        begin = max([free[stream[number]], *(end_times[operator] for operator in dependencies.after[number])])
        end_times[number] = free[stream[number]] = begin + dependencies.times[number]
        runs.append(Scheduled(number, stream[number], begin, end_times[number]))
    return Schedule(
        dependencies, tuple(map(tuple, chains)), tuple(launches), tuple(runs), tuple(_before(dependencies, chains))
    )


def launch_order(dependencies: Dependencies) -> list[int]:
    """A topological order by the longest path to the end.

    Among operators of equal paths, those bound by arithmetic and those bound by memory alternate.
    """
    missing = [len(earlier) for earlier in dependencies.after]
    ready = [(-dependencies.longest_to_end[number], number) for number, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    results: list[int] = []
    while ready:
        candidates = [heapq.heappop(ready)]
        while ready and ready[0][0] == candidates[0][0]:
            candidates.append(heapq.heappop(ready))
        last = dependencies.computing[results[-1]] if results else False
        chosen = next(
            (operator for operator in candidates if dependencies.computing[operator[1]] != last), candidates[0]
        )
        for operator in candidates:
            if operator is not chosen:
                heapq.heappush(ready, operator)
        results.append(chosen[1])
        for user in dependencies.users[chosen[1]]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (-dependencies.longest_to_end[user], user))
    return results


def _before(dependencies: Dependencies, chains: Sequence[Sequence[int]]) -> list[int]:
    """For each operator the operators that have ended before it begins, by dependencies and streams, as a mask."""
    after = [list(earlier) for earlier in dependencies.after]
    for chain in chains:
        for first, second in pairwise(chain):
            after[second].append(first)
    return closure(after)
