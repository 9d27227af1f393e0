"""What LayoutPresetToNPU's two strategies share: the layout that a node should have, and the sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from workbench.analysis.metrics.transpose_cost import elements, moved_by_node
from workbench.ir import Edit, Graph, Node
from workbench.ir.permutation import Permutation
from workbench.ops import layout_of
from workbench.ops.channels_last import plain_op
from workbench.planning.layout.conversion.convert import Conversion, is_removable, mark_kept
from workbench.planning.layout.infer import is_cnn, perm_between
from workbench.planning.layout.profile import Profile


def preferred_layout(layout: str, target: Profile, op: str | None = None) -> tuple[str, Permutation] | None:
    """The layout that the target wants for a CNN value, or for an operand of `op`, and the permutation to it.

    None if the value has that layout already, or is a Tensor.
    """
    if not is_cnn(layout):
        return None
    target_layout = target.layout_for(len(layout), op)
    if target_layout is None or target_layout == layout or sorted(target_layout) != sorted(layout):
        return None
    return target_layout, perm_between(layout, target_layout)


def preferred_operand_layout(node: Node, layouts: Mapping[str, str], target: Profile) -> tuple[str, Permutation] | None:
    """The layout preferred for the node's image operands, and the permutation to it; None if they have it already."""
    preferred = (preferred_layout(layouts.get(value, ""), target, plain_op(node)) for value in node.inputs if value)
    return next((operand_layout for operand_layout in preferred if operand_layout is not None), None)


def reshapes(node: Node) -> bool:
    """Whether LayoutPresetToNPU treats the node as CNN to Tensor, whatever its shapes."""
    return layout_of(node).kind == "reshape-like"


def restored_operands(
    graph: Graph, node: Node, layouts: Mapping[str, str], why: str
) -> Iterator[tuple[Edit, str, tuple[str, ...]]]:
    """Mark the restoring Transposes that this node needs with the reason, each once: (edit, sentence, nodes)."""
    for value in node.operands:
        producer = _restoring(graph, value)
        if producer is None:
            continue
        reason = why.replace("{layout}", layouts[value])
        sentence = f"{reason}; transposed back, {elements(moved_by_node(graph, producer))}"
        yield mark_kept(graph, producer, sentence), sentence, (node.name, producer.name)


def restored_outputs(graph: Graph, layouts: Mapping[str, str]) -> Iterator[tuple[Edit, str, tuple[str, ...]]]:
    """Mark the restoring Transposes before the graph's outputs, which keep their layout: (edit, sentence, nodes)."""
    for value in graph.outputs:
        producer = _restoring(graph, value)
        if producer is None:
            continue
        moved = elements(moved_by_node(graph, producer))
        sentence = f"output '{value}' is {layouts[value]} by its declaration; transposed back, {moved}"
        yield mark_kept(graph, producer, sentence), sentence, (producer.name,)


def why_kept(node: Node, case: str, target: Profile) -> str:
    """Why a node keeps its layout although it could follow its operands, as a text with the field {layout}."""
    return f"{case}: {node} {'demands' if plain_op(node) in target.required_layouts else 'is wanted in'} {{layout}}"


def _restoring(graph: Graph, value: str) -> Node | None:
    producer = graph.producer(value)
    return producer if producer is not None and is_removable(producer) else None


def conversion_sentence(
    node: Node, conversion: Conversion, layout: str, layouts: Mapping[str, str], demanded: bool
) -> str:
    """The sentence of a conversion, without the case."""
    moved = ", ".join(
        f"'{value}' arrives as {layouts.get(value, 'Tensor')}; transposed, {elements(number)}"
        for value, number in conversion.moved.items()
    )
    reused = " and ".join(f"'{value}'" for value in conversion.reused)
    other_operands = conversion.other_operands_text()
    if not moved and demanded:
        return f"{node} demands {layout}, in which {reused} exists already; nothing moved{other_operands}"
    if not moved:
        return f"{node} takes {layout} from its operands; nothing moved{other_operands}"
    if demanded:
        return f"{node} demands {layout}, {moved}{other_operands}"
    return f"{node} has inputs in two layouts, brought to {layout}: {moved}{other_operands}"
