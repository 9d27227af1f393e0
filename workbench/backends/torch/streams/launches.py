"""Launches: what each operator runs on its stream, and for which operators it waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.backends.failures import first_line
from workbench.backends.torch.arena.arena_run import ARENA_ALIGNMENT, ArenaRun
from workbench.backends.torch.arena.out_kernels import Write
from workbench.backends.torch.arena.run_plan import graph_of_run
from workbench.backends.torch.executor.operator_errors import OperatorError
from workbench.ir import Graph, Node
from workbench.planning.memory.planning import plan_memory
from workbench.planning.streams.interference import sharing_on_streams
from workbench.planning.streams.problem import ParallelProblem, parallel_problem
from workbench.planning.streams.scheduling import Schedule, schedule

if TYPE_CHECKING:
    from workbench.backends.torch.executor.executor import TorchExecutor

_SECONDS = 2  # the time limit of planning memory


@dataclass(frozen=True)
class Launch:
    """An operator on a stream.

    waits: numbers of operators of other streams that must have ended.
    runs:  its step, and the steps of views that this plan copies, each with its node.
    """

    operator: int
    stream: int
    waits: tuple[int, ...]
    runs: tuple[tuple[Node, Write], ...]

    def run(self) -> None:
        for node, write in self.runs:
            run_named(node, write)


@dataclass(frozen=True)
class Launches:
    """A graph on streams.

    prologue: steps that depend on no operator and run before all.
    in_order: the launches, in order.
    """

    arena: ArenaRun
    schedule: Schedule
    prologue: tuple[tuple[Node, Write], ...]
    in_order: tuple[Launch, ...]


def launches_of(executor: TorchExecutor, tensors: Mapping[str, Any]) -> Launches:
    """The graph's operators on as few streams as can be busy at once, with values in an arena.

    The arena is planned for the order that streams and waits enforce.
    """
    graph = graph_of_run(executor, tensors)
    problem = parallel_problem(graph)
    schedule_ = schedule(problem.dependencies)
    plan = plan_memory(sharing_on_streams(graph, problem, schedule_, ARENA_ALIGNMENT), seconds=_SECONDS)
    return _launches(graph, problem, schedule_, ArenaRun(executor, tensors, plan))


def run_named(node: Node, write: Write) -> None:
    """Run a step. Raises OperatorError, which names the node, if a kernel fails."""
    try:
        write()
    except OperatorError:
        raise
    except Exception as error:
        raise OperatorError(f"{node} failed: {first_line(error)}.") from error


def _launches(
    graph: Graph,
    problem: ParallelProblem,
    schedule_: Schedule,
    arena: ArenaRun,
) -> Launches:
    number = {node.name: i for i, node in enumerate(problem.operators)}
    stream = {operator: i for i, chain in enumerate(schedule_.streams) for operator in chain}
    rank = {operator: i for i, operator in enumerate(schedule_.launches)}
    prologue: list[tuple[Node, Write]] = []
    runs: dict[int, list[tuple[Node, Write]]] = {operator: [] for operator in schedule_.launches}
    waits = {operator: dict.fromkeys(schedule_.waits_for[operator]) for operator in schedule_.launches}
    for step in arena.steps:
        if step.kernel == "view":
            continue
        node = step.instruction.node
        needed = problem.needed[node.name]
        if node.name in number:
            runs[number[node.name]].append((node, step.run))
        elif not needed:
            prologue.append((node, step.run))
        else:  # after the last operator that it needs, and so before all its users
            last = max(needed, key=rank.__getitem__)
            runs[last].append((node, step.run))
            done_before = schedule_.before[last] | 1 << last
            waits[last].update(
                dict.fromkeys(operator for operator in sorted(needed) if not done_before >> operator & 1)
            )
    in_order = tuple(
        Launch(operator, stream[operator], tuple(waits[operator]), tuple(runs[operator]))
        for operator in schedule_.launches
    )
    return Launches(arena, schedule_, tuple(prologue), in_order)
