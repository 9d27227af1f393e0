"""Which blocks of memory may be in use at the same time if operators run concurrently."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.ir import Graph
from workbench.planning.memory.blocks.packing import Packing
from workbench.planning.memory.lifetimes import Kind
from workbench.planning.memory.planning import Sharing, sharing_of
from workbench.planning.memory.shared_memory import Alias
from workbench.planning.streams.problem import ParallelProblem
from workbench.planning.streams.scheduling import Schedule


def sharing_on_streams(graph: Graph, problem: ParallelProblem, schedule: Schedule, alignment: int = 1) -> Sharing:
    """The memory sharing of a graph whose operators run on the streams of a schedule.

    Its packing has the pairs of blocks that may be in use together. A pair is left out if streams and waits guarantee
    that all users of one block have ended before any user of the other begins. Bodies are not included.
    alignment: the alignment of blocks, in bytes.
    """
    step_of = {node.name: number for number, node in enumerate(graph.nodes)}
    steps = [step_of[node.name] for node in problem.operators]
    ended_before = {
        step: frozenset(steps[other] for other in range(len(steps)) if mask >> other & 1)
        for step, mask in zip(steps, schedule.before, strict=True)
    }
    sharing = sharing_of(graph, "streams", inner=False, alignment=alignment, before=ended_before)
    return replace(sharing, packing=_packing(sharing, problem, schedule))


@dataclass(frozen=True)
class _Use:
    """The use of a block.

    running: the operators that use it, as a mask.
    before:  the operators that have ended when any of these begins, as a mask.
    stays:   whether it is in use to the end: it is a result of the graph, or used by a node that is not an operator.
    """

    running: int
    before: int
    stays: bool

    def has_ended(self, later: _Use) -> bool:
        """Whether this block is no longer in use when the later one is first used."""
        return not self.stays and self.running & ~later.before == 0


def _packing(sharing: Sharing, problem: ParallelProblem, schedule: Schedule) -> Packing:
    number = {node.name: i for i, node in enumerate(problem.operators)}
    uses = [_use(sharing, name, number, schedule) for name in sharing.blocks]
    pairs = frozenset(
        (i, j)
        for i, one in enumerate(uses)
        for j, other in enumerate(uses[i + 1 :], i + 1)
        if not one.has_ended(other) and not other.has_ended(one)
    )
    return replace(sharing.packing, partial_order=pairs)


def _use(sharing: Sharing, block: str, index_of: dict[str, int], schedule: Schedule) -> _Use:
    """The use of a block. Values that depend on constants alone count as in use all the time."""
    values, steps = sharing.lifetimes.values, sharing.lifetimes.steps
    members = [values[name] for name in sharing.memory.members(block)]
    used = {step for value in members for step in (value.producer, *value.reads) if step is not None}
    running = {index_of[steps[step].label] for step in used if steps[step].label in index_of}
    if any(steps[step].label not in index_of and not _is_view_step(sharing, step) for step in used):
        return _Use(0, 0, stays=True)
    before = -1
    for operator in running:
        before &= schedule.before[operator]
    stays = any(value.kind == Kind.OUTPUT for value in members)
    return _Use(sum(1 << operator for operator in running), before if running else 0, stays)


def _is_view_step(sharing: Sharing, step: int) -> bool:
    """Whether the step only computes views, which do not access memory."""
    node = sharing.lifetimes.steps[step].node
    return all(
        (shared := sharing.memory.parent.get(value)) is not None and shared.alias == Alias.VIEW
        for value in node.outputs
        if value
    )
