"""Channels first and channels last: which of the two an operator runs in, and which a target demands."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.analysis.metrics.transpose_cost import computed_from_constants
from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation
from workbench.planning.layout.infer import PAIRS, infer_layouts, perm_between
from workbench.planning.layout.profile import Profile
from workbench.planning.solvers.minimum_cut import FIRST_SIDE, LAST_SIDE


def side_of(layout: str | None) -> int | None:
    """FIRST_SIDE or LAST_SIDE for channels first or last; None for any other layout."""
    for first, last in PAIRS:
        if layout in (first, last):
            return FIRST_SIDE if layout == first else LAST_SIDE
    return None


def other_layout(layout: str) -> tuple[str, Permutation]:
    """For a layout with channels first or last, the other of the two and the permutation to it."""
    first, last = next(pair for pair in PAIRS if layout in pair)
    result = last if layout == first else first
    return result, perm_between(layout, result)


def layout_of_images(node: Node, layouts: Mapping[str, str]) -> str | None:
    """The layout of the first operand or result with channels first or last; None if there is none."""
    known = (layouts.get(value, "") for value in (*node.inputs, *node.outputs))
    return next((layout for layout in known if side_of(layout) is not None), None)


def required_side(target: Profile, op: str) -> int | None:
    """The side that the target demands of an operator, if any; blocked channels count as channels first."""
    layout = target.required_layouts.get(op)
    return None if layout is None else LAST_SIDE if layout.endswith("C") else FIRST_SIDE


def converts_layout(graph: Graph, node: Node, layouts: dict[str, str]) -> bool:
    """Whether the node is a Transpose from channels first to channels last, or back."""
    if node.op != "Transpose" or node.inputs[0] in graph.constants:
        return False
    sides = side_of(layouts.get(node.inputs[0])), side_of(layouts.get(node.outputs[0]))
    return None not in sides and sides[0] != sides[1]


def orders_beyond(graph: Graph) -> str:
    """The orders of axes besides channels first and last that the graph's Transposes make, as a subject for
    `LayoutFacts.beyond`; "" if there are none."""
    layouts = infer_layouts(graph, through_reshapes=True)
    fixed = computed_from_constants(graph)
    others = (node for node in graph.nodes_of(("Transpose",)) if node.inputs[0] not in fixed)
    if all(converts_layout(graph, node, layouts) for node in others):
        return ""
    return "other orders of axes, which optimal searches,"
