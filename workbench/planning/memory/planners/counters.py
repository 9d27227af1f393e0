"""Labels that are recycled when the counter of a block's readers reaches 0."""

from __future__ import annotations

from workbench.planning.memory.blocks.actions import actions_of, follow_lifetimes
from workbench.planning.memory.blocks.buffers import offsets_of_buffers
from workbench.planning.memory.blocks.packing import Packing
from workbench.planning.memory.blocks.planner import PlannedOffsets, Planner


def recycled_labels(packing: Packing, seconds: float) -> PlannedOffsets:
    labels, sizes, recycled = [0] * len(packing.blocks), list[int](), list[int]()

    def born(i: int) -> None:
        size = packing.blocks[i].bytes
        enough = [label for label in recycled if sizes[label] >= size]
        if enough:
            label = min(enough, key=lambda label: sizes[label])
        elif recycled:
            label = max(recycled, key=lambda label: sizes[label])
        else:
            label = len(sizes)
            sizes.append(0)
        if label in recycled:
            recycled.remove(label)
        sizes[label] = max(sizes[label], size)
        labels[i] = label

    follow_lifetimes(packing, born, lambda i: recycled.append(labels[i]))
    offsets = offsets_of_buffers(packing, labels)
    return PlannedOffsets(offsets, actions_of(packing, offsets, labels))


PLANNER = Planner(
    name="counters",
    title="Counters and a recycle box",
    explanation=(
        "Each value counts the operators that have yet to read it. While an operator runs whose operand has a "
        "counter of 1, its result may replace the operand; these replacements are made before planning, and all values"
        " of a block have one label. At 0 the label goes into a recycle box, from which the next block takes the "
        "smallest label that is large enough, else the largest, which grows, else a new one. A label's buffer is as"
        " large as its largest block, so bytes are lost while small blocks use it. Source: Chen et al., Training"
        " Deep Nets with Sublinear Memory Cost, 2016, section 3."
    ),
    place=recycled_labels,
    needs_total_order=True,
)
