"""What LayoutPresetToNPU's two strategies share: which layout a node is to have, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from workbench.ir import Edit, Graph, Node
from workbench.ir.permutation import Permutation
from workbench.layout.conversion.convert import Conversion, is_ours, mark_restored
from workbench.layout.cost import elements, moved_by_node
from workbench.layout.infer import is_cnn, perm_between
from workbench.layout.profile import Profile
from workbench.ops import layout_of
from workbench.ops.channels_last import plain_op


def way_to_target(own: str, target: Profile, op: str | None = None) -> tuple[str, Permutation] | None:
    """The order of axes that the target wants of a CNN value, or `op` of its operand, and the permutation there.

    None where it has it, or is Tensor.
    """
    if not is_cnn(own):
        return None
    layout = target.layout_for(len(own), op)
    if layout is None or layout == own or sorted(layout) != sorted(own):
        return None
    return layout, perm_between(own, layout)


def wanted(node: Node, layouts: Mapping[str, str], target: Profile) -> tuple[str, Permutation] | None:
    """The way to the layout wanted of the node's CNN operands; None where they have it already."""
    ways = (way_to_target(layouts.get(value, ""), target, plain_op(node)) for value in node.inputs if value)
    return next((way for way in ways if way is not None), None)


def reshapes(node: Node) -> bool:
    """Is it one that LayoutPresetToNPU takes for CNN to Tensor, whatever its shapes?"""
    return layout_of(node).kind == "reshape-like"


def restored_operands(
    graph: Graph, node: Node, layouts: Mapping[str, str], why: str
) -> Iterator[tuple[Edit, str, tuple[str, ...]]]:
    """The restoring transposes that this node needs, each marked once with the reason: (edit, sentence, nodes)."""
    for value in node.operands:
        maker = _restoring(graph, value)
        if maker is None:
            continue
        said_why = why.replace("{layout}", layouts[value])
        sentence = f"{said_why}; transposed back, {elements(moved_by_node(graph, maker))}"
        yield mark_restored(graph, maker, sentence), sentence, (node.name, maker.name)


def restored_outputs(graph: Graph, layouts: Mapping[str, str]) -> Iterator[tuple[Edit, str, tuple[str, ...]]]:
    """The restoring transposes in front of the graph's outputs, which keep their layout."""
    for value in graph.outputs:
        maker = _restoring(graph, value)
        if maker is None:
            continue
        moved = elements(moved_by_node(graph, maker))
        sentence = f"output '{value}' is {layouts[value]} by its declaration; transposed back, {moved}"
        yield mark_restored(graph, maker, sentence), sentence, (maker.name,)


def why_kept(node: Node, case: str, target: Profile) -> str:
    """Why a node that could go with its operands keeps the layout that they had: the target says so."""
    return f"{case}: {node} {'demands' if plain_op(node) in target.required_layouts else 'is wanted in'} {{layout}}"


def _restoring(graph: Graph, value: str) -> Node | None:
    maker = graph.producer(value)
    return maker if maker is not None and is_ours(maker) else None


def said(node: Node, conversion: Conversion, layout: str, layouts: Mapping[str, str], demanded: bool) -> str:
    """The sentence of a conversion, without its case."""
    moved = ", ".join(
        f"'{value}' arrives as {layouts.get(value, 'Tensor')}; transposed, {elements(number)}"
        for value, number in conversion.moved.items()
    )
    here = " and ".join(f"'{value}'" for value in conversion.at_hand)
    others = conversion.others_said()
    if not moved and demanded:
        return f"{node} demands {layout}, {here} is at hand as {layout}; nothing moved{others}"
    if not moved:
        return f"{node} takes {layout} as it comes; nothing moved{others}"
    if demanded:
        return f"{node} demands {layout}, {moved}{others}"
    return f"{node} has inputs in two layouts, brought to {layout}: {moved}{others}"
