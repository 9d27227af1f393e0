"""How many operators run in the layout that the target requires of them."""

from __future__ import annotations

from typing import NamedTuple

from workbench.ir import Graph
from workbench.ops.blocked import block_of, parse_blocked
from workbench.ops.channels_last import plain_op
from workbench.planning.layout.infer import TENSOR, infer_layouts, is_cnn
from workbench.planning.layout.problem.image_layouts import required_side, side_of
from workbench.planning.layout.profile import Profile


class RequiredLayouts(NamedTuple):
    """Operators on images for which the target requires a layout, and those of them that run in it."""

    met: int
    total: int

    def __str__(self) -> str:
        return f"{self.met:,} of {self.total:,}" if self.total else "none"


def required_layouts_met(graph: Graph, target: Profile) -> RequiredLayouts:
    """The required layouts of the main graph that are met.

    Blocks are compared by name, other layouts by whether channels are first or last.
    """
    layouts = infer_layouts(graph)
    met = total = 0
    for node in graph.nodes:
        blocked = parse_blocked(node.domain, node.op_type)
        op = plain_op(node) if blocked is None else blocked.op_type
        required = target.required_layouts.get(op)
        values = (*node.outputs, *node.inputs)  # the first convolution may read images and write blocks
        layout = next((layouts[value] for value in values if is_cnn(layouts.get(value, TENSOR))), None)
        if required is None or layout is None:
            continue
        total += 1
        has_blocks = block_of(required) is not None or block_of(layout) is not None
        met += layout == required if has_blocks else side_of(layout) == required_side(target, op)
    return RequiredLayouts(met, total)
