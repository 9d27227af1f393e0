"""A plan of a graph's memory: one arena, and where each value lies in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.ir import Graph, Node
from workbench.planning.memory.aliasing import Decision, share_memory
from workbench.planning.memory.blocks.packing import MemoryBlock, Packing
from workbench.planning.memory.lifetimes import Kind, Lifetimes, lifetimes
from workbench.planning.memory.planners import Packed, pack, planner_of
from workbench.planning.memory.shared_memory import Alias, SharedMemory

DEFAULT_PLANNER = "exact"
SECONDS = 20


@dataclass(frozen=True)
class PlannedValue:
    """A value and where it lies.

    bytes:    its size; None if unknown. offset: in the arena, in bytes; None if it is not there: inputs and weights,
              views of them, and values of unknown size.
    born, dies: the steps, half-open, in which it is in use.
    alias_of: the value in whose memory it lies, and `how`.
    block:    the index of its memory block, in order of allocation; None outside of the arena.
    """

    name: str
    kind: Kind
    bytes: int | None
    offset: int | None
    born: int
    dies: int
    alias_of: str | None
    how: Alias | None
    block: int | None


@dataclass(frozen=True)
class Sharing:
    """Lifetimes and shared memory of a graph in one execution order: what every planner starts from.

    blocks: the names of the values that have memory of their own, as in `packing`.
    unshared_bound: the most bytes in use at once, if every value had memory of its own.
    """

    order: str
    lifetimes: Lifetimes
    memory: SharedMemory
    decisions: tuple[Decision, ...]
    packing: Packing
    unshared_bound: int

    @property
    def blocks(self) -> tuple[str, ...]:
        return tuple(block.name for block in self.packing.blocks)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The values that would lie in the arena if their size were known."""
        values = self.lifetimes.values.values()
        return tuple(value.name for value in values if value.kind.lies_in_arena and value.bytes is None)

    @property
    def certified_of(self) -> str:
        """What a proof of the smallest arena holds for, as a phrase."""
        known = ", of the values whose size is known" if self.unknown else ""
        return f"the execution order '{self.order}' and these decisions about shared memory{known}"


@dataclass(frozen=True)
class MemoryPlan:
    """An arena for a graph: `packed` has its size, bound and certificate."""

    sharing: Sharing
    packed: Packed
    values: tuple[PlannedValue, ...]

    @property
    def certified(self) -> bool:
        """Whether no arena is smaller, of what `certified_of` says."""
        return self.packed.certified

    @property
    def certified_of(self) -> str:
        """What the proof that no arena is smaller holds for, as a phrase; "" if there is no proof."""
        return self.sharing.certified_of if self.packed.certified else ""

    def to_json(self) -> dict[str, Any]:
        sharing, packed = self.sharing, self.packed
        return {
            "planner": packed.planner,
            "order": sharing.order,
            "total_bytes": packed.total,
            "lower_bound_bytes": packed.lower_bound,
            "unshared_lower_bound_bytes": sharing.unshared_bound,
            "certified": self.certified,
            "certified_of": self.certified_of or None,
            "seconds": round(packed.seconds, 4),
            "values": [_row(value) for value in self.values],
            "steps": [step.label for step in sharing.lifetimes.steps],
            "sharing": [_decision_row(decision) for decision in sharing.decisions],
            "actions": [
                {
                    "step": a.step,
                    "does": a.does,
                    "value": sharing.blocks[a.block],
                    "offset": a.offset,
                    "why": a.sentence,
                }
                for a in packed.actions
            ],
            "unknown": list(sharing.unknown),
        }


def sharing_of(
    graph: Graph,
    order: str = "file",
    nodes: Sequence[Node] | None = None,
    *,
    inner: bool = True,
    alignment: int = 1,
    before: Mapping[int, frozenset[int]] | None = None,
) -> Sharing:
    """Lifetimes and shared memory of a graph.

    order: a name for the execution order of `nodes`, by default that of the file.
    inner: whether values in bodies and functions are included. alignment: of blocks, in bytes.
    before: see `share_memory`.
    """
    result = lifetimes(graph, nodes, inner)
    unshared = SharedMemory(result).peak
    memory, decisions = share_memory(result, before)
    values = result.values
    blocks = []
    for root in memory.roots():
        size = values[root].bytes
        if values[root].kind.lies_in_arena and size is not None:
            blocks.append(MemoryBlock(root, -(-size // alignment) * alignment, *memory.span(root)))
    blocks.sort(key=lambda block: block.born)
    return Sharing(order, result, memory, tuple(decisions), Packing(tuple(blocks)), unshared)


def plan_memory(sharing: Sharing, planner: str = DEFAULT_PLANNER, seconds: float = SECONDS) -> MemoryPlan:
    """Offsets for all values by a planner of that name. Raises UserError if there is none."""
    packed = pack(sharing.packing, planner_of(planner), seconds)
    return MemoryPlan(sharing, packed, tuple(_planned(sharing, packed.offsets)))


def _planned(sharing: Sharing, offsets: Sequence[int]) -> Iterable[PlannedValue]:
    number = {name: i for i, name in enumerate(sharing.blocks)}
    for value in sharing.lifetimes.values.values():
        location = sharing.memory.location(value.name)
        block = number.get(location.base)
        parent = sharing.memory.parent.get(value.name)
        yield PlannedValue(
            value.name,
            value.kind,
            value.bytes,
            None if block is None or value.bytes is None else offsets[block] + location.offset,
            value.born,
            value.dies,
            None if parent is None else parent.base,
            None if parent is None else parent.alias,
            block,
        )


def _row(value: PlannedValue) -> Mapping[str, Any]:
    return {
        "name": value.name,
        "kind": str(value.kind),
        "bytes": value.bytes,
        "offset": value.offset,
        "born": value.born,
        "dies": value.dies,
        "alias_of": value.alias_of,
        "how": None if value.how is None else str(value.how),
        "block": value.block,
    }


def _decision_row(decision: Decision) -> Mapping[str, Any]:
    return {
        "step": decision.step,
        "how": str(decision.how),
        "value": decision.value,
        "other": decision.other,
        "accepted": decision.accepted,
        "why": decision.sentence,
    }
