"""Cleanup after a layout strategy: unneeded Transposes are removed, those that move no element become Reshapes.

Each item is (edit, sentence, names of the nodes); the edit is applied before the next item is requested.
"""

from __future__ import annotations

from collections.abc import Iterator

from workbench.ir import Edit, Graph, Node, constant
from workbench.ir.permutation import is_identity, moves_data, perm_of, permuted, then
from workbench.layout.conversion.convert import is_only_reader
from workbench.layout.conversion.reshape import reshape_to
from workbench.metrics.transpose_cost import no_longer_moved

Tidied = tuple[Edit, str, tuple[str, ...]]


def tidy_transposes(graph: Graph, *, reshape: bool = True) -> Iterator[Tidied]:
    """Remove or merge Transposes until nothing changes: unused, inverse, repeated; then reshape where none moves."""
    waiting = [node.name for node in graph.nodes if node.op == "Transpose"]
    while waiting:
        name = waiting.pop()
        node = graph.find(name)
        if node is None or node.op != "Transpose" or node.inputs[0] in graph.constants:
            continue
        result = _unread(graph, node) or _undone(graph, node) or _repeated(graph, node)
        if result is None:
            continue
        around = _around(graph, node)
        yield result
        waiting.extend(around)
    for node in graph.nodes if reshape else ():
        if node.op == "Transpose" and node.inputs[0] not in graph.constants:
            result = _as_reshape(graph, node)
            if result is not None:
                yield result


def _around(graph: Graph, node: Node) -> list[str]:
    """The Transposes affected when this one changes, including itself."""
    producer = graph.producer(node.inputs[0])
    beside = graph.users(producer.inputs[0]) if producer is not None and producer.op == "Transpose" else ()
    near = (
        node,
        *graph.users(node.outputs[0]),
        *graph.users(node.inputs[0]),
        *beside,
        *([producer] if producer else []),
    )
    return [n.name for n in near if n.op == "Transpose"]


def _unread(graph: Graph, node: Node) -> Tidied | None:
    value = node.outputs[0]
    if graph.users(value) or graph.is_output(value):
        return None
    return Edit(remove=(node.name,)), f"{node} is unused; {no_longer_moved(graph, node)}", (node.name,)


def _undone(graph: Graph, node: Node) -> Tidied | None:
    """A Transpose of a Transpose: both cancel, or are merged if the value between has no other user."""
    producer = graph.producer(node.inputs[0])
    own = perm_of(graph, node)
    before = perm_of(graph, producer) if producer is not None and producer.op == "Transpose" else None
    if producer is None or own is None or before is None:
        return None
    both = then(before, own)
    alone = is_only_reader(graph, node, producer.outputs[0])
    names = (producer.name, node.name)
    words = f"perm {list(before)} then {list(own)}"
    if is_identity(both):
        removed = (producer, node) if alone else (node,)
        edit = Edit(remove=tuple(n.name for n in removed), replace={node.outputs[0]: producer.inputs[0]})
        return edit, f"{words} is the identity; {no_longer_moved(graph, *removed)}", names
    if not alone:
        return None
    merged = node.replace(inputs=producer.inputs, attributes={**node.attributes, "perm": both})
    return Edit(remove=names, insert=(merged,)), f"{words} is {list(both)}; {no_longer_moved(graph, producer)}", names


def _repeated(graph: Graph, node: Node) -> Tidied | None:
    """Two equal Transposes of one value: one is enough."""
    own = perm_of(graph, node)
    same = [n for n in graph.users(node.inputs[0]) if n.op == "Transpose" and perm_of(graph, n) == own]
    kept = next((n for n in same if graph.is_output(n.outputs[0])), same[0])
    removed = next((n for n in same if n != kept and not graph.is_output(n.outputs[0])), None)
    if removed is None:
        return None
    edit = Edit(remove=(removed.name,), replace={removed.outputs[0]: kept.outputs[0]})
    return edit, f"{removed} computes the same as {kept}; {no_longer_moved(graph, removed)}", (removed.name, kept.name)


def _as_reshape(graph: Graph, node: Node) -> Tidied | None:
    """A Transpose that moves only axes of size 1 becomes a Reshape, if that is so for all sizes of symbolic dims."""
    perm, type_ = perm_of(graph, node), graph.tensor_type(node.inputs[0])
    if perm is None or type_ is None or type_.shape is None or moves_data(perm, type_.shape):
        return None
    target = reshape_to(permuted(type_.shape, perm))
    if target is None:
        return None
    name = graph.fresh(f"{node.outputs[0]}_shape")
    reshape = Node("Reshape", (node.inputs[0], name), node.outputs, name=node.name)
    sentence = f"perm {list(perm)} of {node} moves only axes of size 1; reshaped, no element moved"
    return Edit(remove=(node.name,), insert=(reshape,), constants={name: constant(target)}), sentence, (node.name,)
