"""What each operator runs when it is launched on its lane, and what it waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.ir import Graph, Node
from workbench.memory.planning import plan_memory
from workbench.run.torch.arena.arena_run import ARENA_ALIGNMENT, ArenaRun
from workbench.run.torch.arena.out_kernels import Write
from workbench.run.torch.arena.planned import graph_of_run
from workbench.run.torch.executor.operator_errors import OperatorError
from workbench.run.worker.failures import first_line
from workbench.streams.in_use_together import sharing_of_lanes
from workbench.streams.problem import ParallelProblem, parallel_problem
from workbench.streams.scheduling import Schedule, schedule

if TYPE_CHECKING:
    from workbench.run.torch.executor.executor import TorchExecutor

_SECONDS = 2  # of planning memory
_ROUNDS = 3  # in which operators are timed


@dataclass(frozen=True)
class Launch:
    """An operator on a lane: `runs` are its own step, and after it those of views that are copies in this plan.

    waits: for the ends of these operators of other lanes, by number.
    """

    operator: int
    lane: int
    waits: tuple[int, ...]
    runs: tuple[tuple[Node, Write], ...]

    def run(self) -> None:
        for node, write in self.runs:
            run_named(node, write)


@dataclass(frozen=True)
class Launches:
    """A graph on lanes.

    first: what no operator precedes, and runs before all. in_order: the others, as launched. computing: the context
    of a run, in each thread.
    """

    arena: ArenaRun
    schedule: Schedule
    first: tuple[tuple[Node, Write], ...]
    in_order: tuple[Launch, ...]
    computing: Callable[[], AbstractContextManager[None]]


def launches_of(executor: TorchExecutor, tensors: Mapping[str, Any]) -> Launches:
    """The graph's operators on as few lanes as can ever be busy, their values in an arena whose lifetimes are those of
    the lanes' order."""
    graph = graph_of_run(executor, tensors)
    measured = _times_us(executor, tensors) if executor.device.type == "cpu" else None
    problem = parallel_problem(graph, measured_us=measured)
    made = schedule(problem.dependencies)
    plan = plan_memory(sharing_of_lanes(graph, problem, made, ARENA_ALIGNMENT), seconds=_SECONDS)
    return _launches(graph, problem, made, ArenaRun(executor, tensors, plan), executor.computing)


def run_named(node: Node, write: Write) -> None:
    """Raises OperatorError, which names the node, if a kernel fails."""
    try:
        write()
    except OperatorError:
        raise
    except Exception as error:
        raise OperatorError(f"{node} failed: {first_line(error)}.") from error


def _times_us(executor: TorchExecutor, tensors: Mapping[str, Any]) -> dict[str, float]:
    """Of each node in a run one by one, the fastest of a few."""
    fastest: dict[str, float] = {}

    for _ in range(_ROUNDS):
        last = time.perf_counter()

        def observe(node: Node, results: tuple[Any, ...]) -> None:
            nonlocal last
            now = time.perf_counter()
            taken = (now - last) * 1e6
            fastest[node.name] = min(fastest.get(node.name, taken), taken)
            last = now

        executor.run_tensors(tensors, observe)
    return fastest


def _launches(
    graph: Graph,
    problem: ParallelProblem,
    made: Schedule,
    arena: ArenaRun,
    computing: Callable[[], AbstractContextManager[None]],
) -> Launches:
    number = {node.name: i for i, node in enumerate(problem.operators)}
    lane = {one: i for i, chain in enumerate(made.lanes) for one in chain}
    rank = {one: i for i, one in enumerate(made.launches)}
    first: list[tuple[Node, Write]] = []
    runs: dict[int, list[tuple[Node, Write]]] = {one: [] for one in made.launches}
    waits = {one: dict.fromkeys(made.waits_for[one]) for one in made.launches}
    for step in arena.steps:
        if step.kernel == "view":
            continue
        node = step.instruction.node
        needed = problem.needed[node.name]
        if node.name in number:
            runs[number[node.name]].append((node, step.run))
        elif not needed:
            first.append((node, step.run))
        else:  # after the last that it needs, and so before all that needs it
            last = max(needed, key=rank.__getitem__)
            runs[last].append((node, step.run))
            ended = made.before[last] | 1 << last
            waits[last].update(dict.fromkeys(one for one in sorted(needed) if not ended >> one & 1))
    in_order = tuple(Launch(one, lane[one], tuple(waits[one]), tuple(runs[one])) for one in made.launches)
    return Launches(arena, made, tuple(first), in_order, computing)
