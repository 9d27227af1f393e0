"""Whether groups of operators take less time than their operators alone, as measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.fusion.group_calls import group_call
from workbench.ir import Graph
from workbench.layout.problem.probe import OperatorTimer, group_probe, kernel_probe


@dataclass(frozen=True)
class GroupTime:
    """Microseconds of a group in one kernel, and of its operators alone, each by its own kernel; None if unknown."""

    group_us: float | None
    alone_us: float | None

    @property
    def pays(self) -> bool:
        return self.group_us is not None and self.alone_us is not None and self.group_us < self.alone_us

    @property
    def words(self) -> str:
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
    whole = {number: group_probe(graph, *calls[number]) for number, members in groups.items() if len(members) > 1}
    alone = {i: kernel_probe(graph, nodes[i]) for number in whole for i in groups[number]}
    probes = [probe for probe in (*whole.values(), *alone.values()) if probe is not None]
    times = timer.times(probes, device, dtype).by_probe if probes else {}
    taken = {probe: time.best / 1e3 for probe, time in times.items()}
    results = {}
    for number, probe in whole.items():
        parts = [taken.get(part) if (part := alone[i]) is not None else None for i in groups[number]]
        known = [part for part in parts if part is not None]
        own = None if probe is None else taken.get(probe)
        results[number] = GroupTime(own, sum(known) if len(known) == len(parts) else None)
    return results
