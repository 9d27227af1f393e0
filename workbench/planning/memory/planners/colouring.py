"""Colours the conflict graph; each colour is a buffer."""

from __future__ import annotations

from workbench.planning.memory.blocks.actions import actions_of
from workbench.planning.memory.blocks.buffers import offsets_of_buffers
from workbench.planning.memory.blocks.packing import Packing
from workbench.planning.memory.blocks.planner import PlannedOffsets, Planner


def coloured(packing: Packing, seconds: float) -> PlannedOffsets:
    colours: dict[int, int] = {}
    for i in sorted(range(len(packing.blocks)), key=lambda i: -packing.blocks[i].bytes):
        taken = {colours[j] for j in packing.conflicts[i] if j in colours}
        colours[i] = next(colour for colour in range(len(taken) + 1) if colour not in taken)
    labels = [colours[i] for i in range(len(packing.blocks))]
    offsets = offsets_of_buffers(packing, labels)
    return PlannedOffsets(offsets, actions_of(packing, offsets, labels))


PLANNER = Planner(
    name="colouring",
    title="Colouring of the conflict graph",
    explanation=(
        "Blocks are the nodes of a graph, with an edge between those that are in use together, like variables in "
        "a register allocator. Blocks of one colour share a buffer. The largest block is coloured first; each gets "
        "the first colour that no neighbour has. Using the fewest colours is NP-complete for general graphs. If "
        "operators run one after the other, it is easy, in order of birth, but the fewest buffers need not be the "
        "fewest bytes. Source: Chaitin et al., Register Allocation via Coloring, 1981."
    ),
    place=coloured,
)
