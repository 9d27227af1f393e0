"""The order in which operators are launched on lanes, and when each would run.

Source: Chen et al., "Opara: Exploiting Operator Parallelism for Expediting DNN Inference on GPUs", 2023
(https://arxiv.org/abs/2312.10351): kernels bound by arithmetic beside kernels bound by memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from workbench.solvers.path_cover import fewest_chains
from workbench.streams.dependencies import Dependencies, closure


@dataclass(frozen=True)
class Scheduled:
    """An operator by number, its lane, and when it runs, in microseconds."""

    operator: int
    lane: int
    start_us: float
    end_us: float


@dataclass(frozen=True)
class Schedule:
    """lanes: chains of operators, the longest total time first. launches: operators in the order of their launch.
    before: for each operator those that have ended when it begins, whatever their times, as a mask."""

    dependencies: Dependencies
    lanes: tuple[tuple[int, ...], ...]
    launches: tuple[int, ...]
    runs: tuple[Scheduled, ...]
    before: tuple[int, ...]

    @property
    def makespan_us(self) -> float:
        return max((run.end_us for run in self.runs), default=0.0)

    @property
    def waits(self) -> int:
        """Events by which one lane waits for another."""
        return sum(map(len, self.waits_for))

    @cached_property
    def waits_for(self) -> tuple[tuple[int, ...], ...]:
        """For each operator those of other lanes whose end it must wait for: what it needs, as far as its lane or
        another wait does not say that it has ended (the transitive reduction of the order)."""
        previous = {second: first for chain in self.lanes for first, second in pairwise(chain)}
        results = []
        for number, earlier in enumerate(self.dependencies.after):
            own = previous.get(number)
            known = 0 if own is None else self.before[own] | 1 << own
            for one in earlier:
                known |= self.before[one]
            results.append(tuple(one for one in earlier if not known >> one & 1))
        return tuple(results)


def schedule(dependencies: Dependencies) -> Schedule:
    """As many lanes as can ever be busy; launches by the longest path to the end."""
    chains = fewest_chains(dependencies.after)
    chains.sort(key=lambda chain: -sum(dependencies.times[number] for number in chain))
    launches = launch_order(dependencies)
    lane = {number: i for i, chain in enumerate(chains) for number in chain}
    free, ended = [0.0] * len(chains), [0.0] * len(launches)
    runs = []
    for number in launches:
        begin = max([free[lane[number]], *(ended[one] for one in dependencies.after[number])])
        ended[number] = free[lane[number]] = begin + dependencies.times[number]
        runs.append(Scheduled(number, lane[number], begin, ended[number]))
    return Schedule(
        dependencies, tuple(map(tuple, chains)), tuple(launches), tuple(runs), tuple(_before(dependencies, chains))
    )


def launch_order(dependencies: Dependencies) -> list[int]:
    """Of the operators that may run, the one with the longest path to the end; of equal ones, one bound by arithmetic
    after one bound by memory and the other way round."""
    missing = [len(earlier) for earlier in dependencies.after]
    ready = [(-dependencies.to_the_end[number], number) for number, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    results: list[int] = []
    while ready:
        equal = [heapq.heappop(ready)]
        while ready and ready[0][0] == equal[0][0]:
            equal.append(heapq.heappop(ready))
        last = dependencies.computing[results[-1]] if results else False
        chosen = next((one for one in equal if dependencies.computing[one[1]] != last), equal[0])
        for one in equal:
            if one is not chosen:
                heapq.heappush(ready, one)
        results.append(chosen[1])
        for user in dependencies.users[chosen[1]]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (-dependencies.to_the_end[user], user))
    return results


def _before(dependencies: Dependencies, chains: Sequence[Sequence[int]]) -> list[int]:
    """What has ended before an operator begins: what its dependencies and its place in a lane say."""
    after = [list(earlier) for earlier in dependencies.after]
    for chain in chains:
        for first, second in pairwise(chain):
            after[second].append(first)
    return closure(after)
