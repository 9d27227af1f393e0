"""What was found about running a graph's operators side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.ir import Graph
from workbench.memory.blocks.packing import OverlapError, check_offsets
from workbench.memory.planning import MemoryPlan, plan_memory, sharing_of
from workbench.streams.in_use_together import sharing_of_lanes
from workbench.streams.problem import GPU_MODEL, ParallelProblem, parallel_problem
from workbench.streams.scheduling import Schedule, schedule

_SECONDS = 2  # of planning memory for lanes


@dataclass(frozen=True)
class StreamsAnalysis:
    """times_from: where the operators' times come from, in words."""

    graph: Graph
    problem: ParallelProblem
    schedule: Schedule
    times_from: str

    @cached_property
    def sequential(self) -> MemoryPlan:
        """Memory if operators run one after the other."""
        return plan_memory(sharing_of(self.graph, inner=False))

    @cached_property
    def beside(self) -> MemoryPlan:
        """Memory if operators run on these lanes."""
        return plan_memory(sharing_of_lanes(self.graph, self.problem, self.schedule), seconds=_SECONDS)

    @cached_property
    def clash(self) -> str:
        """Why the sequential plan must not be used on these lanes; "" if it may be."""
        sharing = sharing_of_lanes(self.graph, self.problem, self.schedule)
        place = {value.name: value.offset for value in self.sequential.values}
        try:
            check_offsets(sharing.packing, [place[name] or 0 for name in sharing.blocks])
        except OverlapError as error:
            return str(error)
        return ""

    @property
    def _proof(self) -> str:
        if self.beside.certified:
            return "the least that is possible"
        return f"and at least the {self.beside.packed.lower_bound:,} of blocks that may all be in use together"

    @property
    def sentences(self) -> tuple[str, ...]:
        dependencies, made = self.schedule.dependencies, self.schedule
        gain = dependencies.total / made.makespan_us if made.makespan_us else 1.0
        return (
            f"times: {self.times_from}",
            f"one after the other {dependencies.total:,.1f} us; the longest path through the graph"
            f" {dependencies.critical_path:,.1f} us: on however many lanes at most {dependencies.bound:.2f} times"
            " faster",
            f"lanes: {len(made.lanes):,}, as many as operators of which none waits for another; waits between them:"
            f" {made.waits:,}; by these times {made.makespan_us:,.1f} us, {gain:.2f} times faster",
            f"memory: {self.sequential.packed.total:,} bytes one after the other,"
            f" {self.beside.packed.total:,} bytes on these lanes, {self._proof}",
            f"the plan for one after the other is refused on these lanes: {self.clash}"
            if self.clash
            else "the plan for one after the other holds on these lanes too",
        )

    def to_json(self) -> dict[str, Any]:
        operators, made = self.problem.operators, self.schedule
        return {
            "times_from": self.times_from,
            "total_us": made.dependencies.total,
            "critical_path_us": made.dependencies.critical_path,
            "bound": made.dependencies.bound,
            "makespan_us": made.makespan_us,
            "waits": made.waits,
            "lanes": [[operators[number].name for number in chain] for chain in made.lanes],
            "launch_order": [operators[number].name for number in made.launches],
            "schedule": [
                {"node": operators[run.operator].name, "lane": run.lane, "start_us": run.start_us, "end_us": run.end_us}
                for run in made.runs
            ],
            "sequential_bytes": self.sequential.packed.total,
            "lanes_bytes": self.beside.packed.total,
            "lanes_lower_bound_bytes": self.beside.packed.lower_bound,
            "lanes_certified": self.beside.certified,
            "sequential_plan_refused": self.clash,
        }


def find_lanes(graph: Graph, measured_us: Mapping[str, float] | None = None) -> StreamsAnalysis:
    """measured_us: of operators by node name; without it a model of a GPU gives the times."""
    problem = parallel_problem(graph, GPU_MODEL, measured_us)
    words = GPU_MODEL.sentence if measured_us is None else "each operator measured alone, in a run one by one"
    return StreamsAnalysis(graph, problem, schedule(problem.dependencies), words)
