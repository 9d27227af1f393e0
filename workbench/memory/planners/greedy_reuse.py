"""A dead block's buffer is reused if it is large enough."""

from __future__ import annotations

from workbench.memory.blocks.actions import in_sequence, played
from workbench.memory.blocks.buffers import offsets_of_buffers
from workbench.memory.blocks.packing import Packing
from workbench.memory.blocks.planner import Action, Planner


def reused_buffers(packing: Packing, seconds: float) -> tuple[tuple[int, ...], tuple[Action, ...], bool]:
    labels, sizes, free = [0] * len(packing.blocks), list[int](), list[int]()

    def born(i: int) -> None:
        size = packing.blocks[i].bytes
        label = next((one for one in free if sizes[one] >= size), None)
        if label is None:
            label = len(sizes)
            sizes.append(size)
        else:
            free.remove(label)
        labels[i] = label

    in_sequence(packing, born, lambda i: free.append(labels[i]))
    offsets = offsets_of_buffers(packing, labels)
    return offsets, played(packing, offsets, labels), False


PLANNER = Planner(
    name="greedy_reuse",
    title="Greedy reuse",
    explanation=(
        "Before a block gets new bytes, the buffers of dead blocks are looked through, the longest dead first; the "
        "first that is large enough is reused as a whole. Simple and fast, but a small block may take a large "
        "buffer, and a buffer that is too small by a byte is of no use. Weights are not among the blocks: the next "
        "run needs them, so their bytes must not be reused."
    ),
    place=reused_buffers,
    in_sequence=True,
)
