"""Softmax over several axes at once, which it was before opset 13.

Since then it is over one axis, and loading writes Flatten, Softmax and a Reshape for such a call. Written for an older
opset these are one call again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.ir import Edit, Graph, Node
from workbench.ir.node import AttrRef
from workbench.ir.types import Dim, Shape
from workbench.ir.versioned import versioned_domain

OVER_ONE_AXIS = 13  # the opset since which these operators are over one axis
_OPERATORS = ("Softmax", "LogSoftmax", "Hardmax")


def with_flattening_calls(graph: Graph, opset: int) -> Graph:
    """The graph with such calls in the form of this older opset (`ir/versioned.py`), bodies excluded; itself if there
    are none."""
    result = graph
    for node in graph.nodes_of(_OPERATORS):
        edit = _as_one_call(result, node, opset)
        if edit is None:
            continue
        if result is graph:
            result = graph.copy()
            result.inputs += result.captured  # an edit would refuse them as undefined
        result.apply(edit)
    if result is not graph:
        result.inputs = graph.inputs
    return result


def _as_one_call(graph: Graph, node: Node, opset: int) -> Edit | None:
    flatten = graph.producer(node.inputs[0])
    readers = graph.users(node.outputs[0])
    if flatten is None or len(readers) != 1 or graph.is_output(node.outputs[0]) or node.attr("axis") not in (-1, 1):
        return None
    (restore,) = readers
    if restore.op != "Reshape" or restore.inputs[0] != node.outputs[0] or not _restores(graph, flatten, restore):
        return None
    axis = _first_axis(graph, flatten)
    if axis is None:
        return None
    call = node.replace(
        inputs=flatten.inputs[:1],
        outputs=restore.outputs,
        attributes={"axis": axis},
        domain=versioned_domain(opset),
    )
    others = [user.name for user in graph.users(flatten.outputs[0]) if user.name != node.name]
    is_read = others or graph.is_output(flatten.outputs[0])
    removed = [node.name, restore.name, *([] if is_read else [flatten.name])]
    shape = graph.producer(restore.inputs[1])
    if shape is not None and shape.op == "Shape" and graph.count_users(shape.outputs[0]) == 1:
        removed += [] if graph.is_output(shape.outputs[0]) else [shape.name]
    return Edit(remove=tuple(removed), insert=(call,))


def _restores(graph: Graph, flatten: Node, restore: Node) -> bool:
    """Whether the Reshape returns the shape of what was flattened."""
    source = flatten.inputs[0] if flatten.inputs else ""
    shape = graph.producer(restore.inputs[1])
    if shape is not None and shape.op == "Shape" and shape.inputs[0] == source:
        return shape.attr("start") == 0 and shape.attr("end") is None
    before, after = graph.shape(source), graph.shape(restore.outputs[0])
    return before is not None and None not in before and before == after


def _first_axis(graph: Graph, flatten: Node) -> int | AttrRef | None:
    """The first of the axes that are one in the second axis of the result; None if the node does not make two."""
    axis = flatten.attr("axis") if flatten.op == "Flatten" else None
    if isinstance(axis, int | AttrRef):
        return axis
    source, result = (graph.shape(value) for value in (flatten.inputs[0], flatten.outputs[0]))
    if flatten.op != "Reshape" or result is None or len(result) != 2 or source is None:
        return None
    return next((place for place in range(len(source)) if _is_split(source, place, result)), None)


def _is_split(source: Sequence[Dim], place: int, result: Shape) -> bool:
    if any(not isinstance(dim, int) for dim in source):
        return False
    sizes = [dim for dim in source if isinstance(dim, int)]
    return (math.prod(sizes[:place]), math.prod(sizes[place:])) == result
