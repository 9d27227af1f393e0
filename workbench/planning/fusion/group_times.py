"""Measures whether groups of operators take less time than their operators alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.ir import Graph
from workbench.planning.fusion.group_calls import group_call
from workbench.planning.layout.problem.operator_benchmark import OperatorTimer, group_benchmark, kernel_benchmark


@dataclass(frozen=True)
class GroupTime:
    """Microseconds of a group in one kernel, and of its operators alone, each by its own kernel; None if unknown."""

    group_us: float | None
    alone_us: float | None

    @property
    def is_faster(self) -> bool:
        return self.group_us is not None and self.alone_us is not None and self.group_us < self.alone_us

    @property
    def clause(self) -> str:
        """Both times, as a clause of a sentence."""
        if self.group_us is None or self.alone_us is None:
            return "it cannot be timed"
        return f"it takes {self.group_us:,.1f} us as one, and {self.alone_us:,.1f} us operator by operator"


def group_times(
    graph: Graph, groups: Mapping[int, Sequence[int]], timer: OperatorTimer, device: str, dtype: str
) -> dict[int, GroupTime]:
    """The time of each group of more than one operator.

    groups: the operators of each, as indices of `graph.nodes` in topological order.
    Raises UserError if the device cannot be used.
    """
    nodes = graph.nodes
    calls = {number: group_call(graph, [nodes[i] for i in members], "group") for number, members in groups.items()}
    group_benchmarks = {
        number: group_benchmark(graph, *calls[number]) for number, members in groups.items() if len(members) > 1
    }
    operator_benchmarks = {i: kernel_benchmark(graph, nodes[i]) for number in group_benchmarks for i in groups[number]}
    benchmarks = [
        benchmark for benchmark in (*group_benchmarks.values(), *operator_benchmarks.values()) if benchmark is not None
    ]
    times = timer.times(benchmarks, device, dtype).by_benchmark if benchmarks else {}
    time_us = {benchmark: time.best / 1e3 for benchmark, time in times.items()}
    results = {}
    for number, benchmark in group_benchmarks.items():
        parts = [time_us.get(part) if (part := operator_benchmarks[i]) is not None else None for i in groups[number]]
        known = [part for part in parts if part is not None]
        group_us = None if benchmark is None else time_us.get(benchmark)
        results[number] = GroupTime(group_us, sum(known) if len(known) == len(parts) else None)
    return results
