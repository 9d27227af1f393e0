"""Labels that are recycled when the counter of a block's readers reaches 0."""

from __future__ import annotations

from workbench.memory.blocks.actions import in_sequence, played
from workbench.memory.blocks.buffers import offsets_of_buffers
from workbench.memory.blocks.packing import Packing
from workbench.memory.blocks.planner import Action, Planner


def recycled_labels(packing: Packing, seconds: float) -> tuple[tuple[int, ...], tuple[Action, ...], bool]:
    labels, sizes, box = [0] * len(packing.blocks), list[int](), list[int]()

    def born(i: int) -> None:
        size = packing.blocks[i].bytes
        enough = [label for label in box if sizes[label] >= size]
        if enough:
            label = min(enough, key=lambda one: sizes[one])
        elif box:
            label = max(box, key=lambda one: sizes[one])
        else:
            label = len(sizes)
            sizes.append(0)
        if label in box:
            box.remove(label)
        sizes[label] = max(sizes[label], size)
        labels[i] = label

    in_sequence(packing, born, lambda i: box.append(labels[i]))
    offsets = offsets_of_buffers(packing, labels)
    return offsets, played(packing, offsets, labels), False


PLANNER = Planner(
    name="counters",
    title="Counters and a recycle box",
    explanation=(
        "Each value counts the operators that have yet to read it. While an operator runs whose operand has a "
        "counter of 1, its result may replace the operand; such replacements are made before, and the values of one"
        " block have one label. At 0 the label goes into a recycle box, from which the next block takes the "
        "smallest label that is large enough, else the largest, which grows, else a new one. A label's buffer is as"
        " large as its largest block, so bytes are lost where small blocks lie in it. Source: Chen et al., Training"
        " Deep Nets with Sublinear Memory Cost, 2016, section 3."
    ),
    place=recycled_labels,
    in_sequence=True,
)
