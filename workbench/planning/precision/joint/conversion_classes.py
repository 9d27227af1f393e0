"""Classes of values that differ only by Transposes, and by Casts between float32 and a narrower type."""

from __future__ import annotations

from collections.abc import Collection

from workbench.ir import DataType, Graph, Node
from workbench.ir.permutation import compose, perm_of
from workbench.planning.layout.problem.transpose_classes import TransposeClass, as_root, is_relation
from workbench.planning.precision.element_types import WIDE, dtype_of


def conversion_classes(graph: Graph, narrow: DataType, restoring: Collection[str] = ()) -> dict[str, TransposeClass]:
    """The class of every value that is not a constant: its root, and the order of the root's axes.

    The type of a value is not part of its class. A Cast to float32 of what was cast to the narrower type starts a new
    class, since it gives the rounded numbers.

    restoring: names of Casts that may give the root's numbers in place of the rounded ones.
    """
    results = {value: as_root(graph, value) for value in graph.inputs}
    for node in graph.nodes:
        source = results.get(node.inputs[0]) if node.inputs else None
        if source is not None and is_relation(graph, node):
            perm = perm_of(graph, node)
            assert perm is not None
            results[node.outputs[0]] = TransposeClass(source.root, compose(source.order, perm))
        elif source is not None and _is_cast_of(graph, node, source.root, narrow, node.name in restoring):
            results[node.outputs[0]] = source
        else:
            results.update({value: as_root(graph, value) for value in node.outputs if value})
    return results


def _is_cast_of(graph: Graph, node: Node, root: str, narrow: DataType, restores: bool) -> bool:
    """Whether the node is a Cast between the two types that gives the numbers of the root, in its own type."""
    if node.op != "Cast":
        return False
    root_type, before, after = (dtype_of(graph, value) for value in (root, node.inputs[0], node.outputs[0]))
    return {before, after} == {WIDE, narrow} and (after == narrow or root_type == narrow or restores)
