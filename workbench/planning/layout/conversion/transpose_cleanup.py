"""Cleanup after a layout strategy: removes unneeded Transposes; those that move no element become Reshapes.

Each item is (edit, sentence, names of the nodes); the edit is applied before the next item is requested.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from workbench.analysis.metrics.transpose_cost import elements_saved
from workbench.ir import Edit, Graph, Node, constant
from workbench.ir.permutation import compose, is_identity, moves_data, perm_of, permuted
from workbench.planning.layout.conversion.convert import is_only_reader
from workbench.planning.layout.conversion.reshape import reshape_to
from workbench.rewrite.analyses.across_views import merged_across, merged_with_view, transposed_between_views
from workbench.rewrite.analyses.reshapes import VIEWS
from workbench.rewrite.core.guards import is_same_shape
from workbench.rewrite.core.rule import NoMatch

EditWithSentence = tuple[Edit, str, tuple[str, ...]]


def tidy_transposes(graph: Graph, *, reshape: bool = True) -> Iterator[EditWithSentence]:
    """Remove or merge unused, inverse and repeated Transposes until nothing changes.

    reshape: Transposes that move no element then become Reshapes. Views that meet, because a Transpose between them is
        gone, become one Reshape or none, with elementwise operators between them too.
    """
    waiting = [node.name for node in graph.nodes if node.op == "Transpose"]
    while waiting:
        name = waiting.pop()
        node = graph.find(name)
        if node is None or node.op != "Transpose" or node.inputs[0] in graph.constants:
            continue
        cleanup = _unused(graph, node) or _merged(graph, node) or _repeated(graph, node)
        if cleanup is None:
            continue
        neighbours = _neighbours(graph, node)
        yield cleanup
        waiting.extend(neighbours)
    while reshape:
        reshape = False
        for joined in itertools.chain(_merged_with_views(graph), _as_reshapes(graph), _joined_views(graph)):
            yield joined
            reshape = True


def _neighbours(graph: Graph, node: Node) -> list[str]:
    """The Transposes affected when this one changes, including itself."""
    producer = graph.producer(node.inputs[0])
    siblings = graph.users(producer.inputs[0]) if producer is not None and producer.op == "Transpose" else ()
    nodes = (
        node,
        *graph.users(node.outputs[0]),
        *graph.users(node.inputs[0]),
        *siblings,
        *([producer] if producer else []),
    )
    return [n.name for n in nodes if n.op == "Transpose"]


def _unused(graph: Graph, node: Node) -> EditWithSentence | None:
    value = node.outputs[0]
    if graph.users(value) or graph.is_output(value):
        return None
    return Edit(remove=(node.name,)), f"{node} is unused; {elements_saved(graph, node)}", (node.name,)


def _merged(graph: Graph, node: Node) -> EditWithSentence | None:
    """A Transpose of a Transpose: both cancel, or are merged if the value between has no other user."""
    producer = graph.producer(node.inputs[0])
    perm = perm_of(graph, node)
    first = perm_of(graph, producer) if producer is not None and producer.op == "Transpose" else None
    if producer is None or perm is None or first is None:
        return None
    composed = compose(first, perm)
    is_only_user = is_only_reader(graph, node, producer.outputs[0])
    names = (producer.name, node.name)
    text = f"perm {list(first)} then {list(perm)}"
    if is_identity(composed):
        removed = (producer, node) if is_only_user else (node,)
        edit = Edit(remove=tuple(n.name for n in removed), replace={node.outputs[0]: producer.inputs[0]})
        return edit, f"{text} is the identity; {elements_saved(graph, *removed)}", names
    if not is_only_user:
        return None
    merged = node.replace(inputs=producer.inputs, attributes={**node.attributes, "perm": composed})
    return (
        Edit(remove=names, insert=(merged,)),
        f"{text} is {list(composed)}; {elements_saved(graph, producer)}",
        names,
    )


def _repeated(graph: Graph, node: Node) -> EditWithSentence | None:
    """Two equal Transposes of one value: one is enough."""
    perm = perm_of(graph, node)
    equal = [n for n in graph.users(node.inputs[0]) if n.op == "Transpose" and perm_of(graph, n) == perm]
    kept = next((n for n in equal if graph.is_output(n.outputs[0])), equal[0])
    removed = next((n for n in equal if n != kept and not graph.is_output(n.outputs[0])), None)
    if removed is None:
        return None
    edit = Edit(remove=(removed.name,), replace={removed.outputs[0]: kept.outputs[0]})
    return edit, f"{removed} computes the same as {kept}; {elements_saved(graph, removed)}", (removed.name, kept.name)


def _merged_with_views(graph: Graph) -> Iterator[EditWithSentence]:
    """A view and a Transpose that moves only axes of size 1 become one Reshape; a Transpose between views that only add
    and remove such axes is one of their operand."""
    for merge, operators in ((merged_with_view, (*VIEWS, "Transpose")), (transposed_between_views, ("Transpose",))):
        for name in [node.name for node in graph.nodes_of(operators)]:
            node = graph.find(name)
            if node is None:
                continue
            try:
                rewrite = merge(graph, node)
            except NoMatch:
                continue
            yield rewrite.edit, rewrite.sentence, rewrite.nodes


def _as_reshapes(graph: Graph) -> Iterator[EditWithSentence]:
    """A Transpose that moves only axes of size 1 becomes a Reshape, if it does for every size of symbolic dims."""
    for node in graph.nodes_of(("Transpose",)):
        if node.inputs[0] in graph.constants:
            continue
        perm, shape = perm_of(graph, node), graph.shape(node.inputs[0])
        if perm is None or shape is None or moves_data(perm, shape):
            continue
        target = reshape_to(permuted(shape, perm))
        if target is None:
            continue
        operand = graph.fresh(f"{node.outputs[0]}_shape")
        reshaped = Node("Reshape", (node.inputs[0], operand), node.outputs, name=node.name)
        sentence = f"perm {list(perm)} of {node} moves only axes of size 1; reshaped, no element moved"
        edit = Edit(remove=(node.name,), insert=(reshaped,), constants={operand: constant(target)})
        yield edit, sentence, (node.name,)


def _joined_views(graph: Graph) -> Iterator[EditWithSentence]:
    """A Reshape and a view that meet, or a view and elementwise operators before a Reshape: one Reshape, or none."""
    for name in [node.name for node in graph.nodes_of(VIEWS)]:
        node = graph.find(name)
        if node is None:
            continue
        joined = _joined(graph, node) or _joined_across(graph, node)
        if joined is not None:
            yield joined


def _joined(graph: Graph, node: Node) -> EditWithSentence | None:
    before, shape = graph.producer(node.inputs[0]), graph.shape(node.outputs[0])
    if before is None or before.op not in VIEWS or shape is None or "Reshape" not in (before.op, node.op):
        return None
    source, names = before.inputs[0], (before.name, node.name)
    removed = names if is_only_reader(graph, node, before.outputs[0]) else (node.name,)
    if is_same_shape(graph.shape(source), shape) and not graph.is_output(node.outputs[0]):
        edit = Edit(remove=removed, replace={node.outputs[0]: source})
        return edit, f"{node} gives the shape of '{source}' again, of which {before} is a view; removed", names
    target = reshape_to(shape)
    if target is None or removed != names:
        return None
    operand = graph.fresh(f"{node.outputs[0]}_shape")
    merged = Node("Reshape", (source, operand), node.outputs, name=node.name)
    edit = Edit(remove=names, insert=(merged,), constants={operand: constant(target)})
    return edit, f"{node} overrides the shape that {before} gives; one Reshape", names


def _joined_across(graph: Graph, node: Node) -> EditWithSentence | None:
    if node.op != "Reshape":
        return None
    try:
        rewrite = merged_across(graph, node)
    except NoMatch:
        return None
    return rewrite.edit, rewrite.sentence, rewrite.nodes
