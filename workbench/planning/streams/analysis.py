"""The analysis of running a graph's operators concurrently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.ir import Graph
from workbench.planning.memory.blocks.packing import OverlapError, check_offsets
from workbench.planning.memory.planning import MemoryPlan, plan_memory, sharing_of
from workbench.planning.streams.interference import sharing_on_streams
from workbench.planning.streams.problem import GPU_MODEL, ParallelProblem, parallel_problem
from workbench.planning.streams.scheduling import Schedule, schedule

_SECONDS = 2  # the time limit of planning memory for streams


@dataclass(frozen=True)
class StreamsAnalysis:
    """Dependencies and a schedule of a graph's operators. times_from: the origin of the operators' times, as text."""

    graph: Graph
    problem: ParallelProblem
    schedule: Schedule
    times_from: str

    @cached_property
    def sequential(self) -> MemoryPlan:
        """The memory plan if operators run sequentially."""
        return plan_memory(sharing_of(self.graph, inner=False))

    @cached_property
    def concurrent(self) -> MemoryPlan:
        """The memory plan if operators run on the streams of the schedule."""
        return plan_memory(sharing_on_streams(self.graph, self.problem, self.schedule), seconds=_SECONDS)

    @cached_property
    def conflict(self) -> str:
        """Why the sequential plan must not be used on these streams; "" if it may be used."""
        sharing = sharing_on_streams(self.graph, self.problem, self.schedule)
        offsets = {value.name: value.offset for value in self.sequential.values}
        try:
            check_offsets(sharing.packing, [offsets[name] or 0 for name in sharing.blocks])
        except OverlapError as error:
            return str(error)
        return ""

    @property
    def _proof(self) -> str:
        if self.concurrent.certified:
            return "the proven minimum"
        return f"and at least the {self.concurrent.packed.lower_bound:,} of blocks that may all be in use together"

    @property
    def sentences(self) -> tuple[str, ...]:
        dependencies, schedule_ = self.schedule.dependencies, self.schedule
        gain = dependencies.total / schedule_.makespan_us if schedule_.makespan_us else 1.0
        return (
            f"times: {self.times_from}",
            f"sequentially {dependencies.total:,.1f} us; the longest path through the graph"
            f" {dependencies.critical_path:,.1f} us: at most {dependencies.bound:.2f} times faster on any number of"
            " streams",
            f"streams: {len(schedule_.streams):,}, as many as operators of which none waits for another; waits between"
            f" streams: {schedule_.waits:,}; predicted from these times: {schedule_.makespan_us:,.1f} us,"
            f" {gain:.2f} times faster",
            f"memory: {self.sequential.packed.total:,} bytes sequentially,"
            f" {self.concurrent.packed.total:,} bytes on these streams, {self._proof}",
            f"the sequential plan is refused on these streams: {self.conflict}"
            if self.conflict
            else "the sequential plan is valid on these streams too",
        )

    def to_json(self) -> dict[str, Any]:
        operators, schedule_ = self.problem.operators, self.schedule
        return {
            "times_from": self.times_from,
            "total_us": schedule_.dependencies.total,
            "critical_path_us": schedule_.dependencies.critical_path,
            "bound": schedule_.dependencies.bound,
            "makespan_us": schedule_.makespan_us,
            "waits": schedule_.waits,
            "streams": [[operators[number].name for number in chain] for chain in schedule_.streams],
            "launch_order": [operators[number].name for number in schedule_.launches],
            "schedule": [
                {
                    "node": operators[run.operator].name,
                    "stream": run.stream,
                    "start_us": run.start_us,
                    "end_us": run.end_us,
                }
                for run in schedule_.runs
            ],
            "sequential_bytes": self.sequential.packed.total,
            "concurrent_bytes": self.concurrent.packed.total,
            "concurrent_lower_bound_bytes": self.concurrent.packed.lower_bound,
            "concurrent_certified": self.concurrent.certified,
            "sequential_plan_refused": self.conflict,
        }


def analyze_streams(graph: Graph, measured_us: Mapping[str, float] | None = None) -> StreamsAnalysis:
    """The analysis of a graph. measured_us: times of operators by node name; None: by a model of a GPU."""
    problem = parallel_problem(graph, GPU_MODEL, measured_us)
    times_from = GPU_MODEL.sentence if measured_us is None else "each operator measured alone, in a run one by one"
    return StreamsAnalysis(graph, problem, schedule(problem.dependencies), times_from)
