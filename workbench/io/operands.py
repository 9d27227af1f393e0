"""Operands that must be lists or scalars, and permutations that must be ones: rules and runtimes rely on it, and
shape inference does not check it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.io.errors import LoadError
from workbench.ir import Graph, Node, constant_shape

# operands that ONNX defines as 1-D, and ONNX Runtime rejects otherwise
_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
_LISTS = {
    "Reshape": (1,),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Pad": (1, 3),
    "Tile": (1,),
    **{f"Reduce{kind}": (1,) for kind in _REDUCTIONS},
}
_NUMBERS = {"Clip": (1, 2), "Range": (0, 1, 2)}  # of one element
_ONE_NUMBER_TOO = ("Unsqueeze",)  # these accept a scalar as a list of one


def check_operands(graph: Graph) -> None:
    """Raise LoadError for a constant operand of a rank that its operator does not accept, or a perm that is none."""
    for scope in (graph, *(function.graph for function in graph.functions.values())):
        _check(scope, ())


def _check(graph: Graph, outside: Sequence[Graph]) -> None:
    scopes = (graph, *outside)
    for node in graph.nodes:
        for place in _LISTS.get(node.op, ()):
            shape = _constant_shape(scopes, node, place)
            is_list = shape is None or len(shape) == 1 or (shape == () and node.op in _ONE_NUMBER_TOO)
            if not is_list:
                raise LoadError(f"{_told(node, place, shape)}, and should be a list: one axis")
        for place in _NUMBERS.get(node.op, ()):
            shape = _constant_shape(scopes, node, place)
            if shape is not None and (math.prod(shape) != 1 or len(shape) > 1):
                raise LoadError(f"{_told(node, place, shape)}, and should be one number")
        if node.op == "Transpose":
            _check_perm(graph, node)
        for body in node.bodies.values():
            _check(body, scopes)


def _check_perm(graph: Graph, node: Node) -> None:
    perm = node.attr("perm")
    if perm is None:
        return
    rank = graph.rank_of(node.inputs[0])
    if sorted(perm) != list(range(len(perm) if rank is None else rank)):
        axes = "" if rank is None else f" of the {rank} of '{node.inputs[0]}'"
        raise LoadError(f"the graph is ill-typed: perm={list(perm)} of {node} does not name each axis{axes} once")


def _constant_shape(scopes: Sequence[Graph], node: Node, place: int) -> tuple[int, ...] | None:
    value = node.inputs[place] if len(node.inputs) > place else ""
    scope = next((scope for scope in scopes if value and scope.has_value(value)), None)
    tensor = None if scope is None else scope.constant(value)
    return None if tensor is None else constant_shape(tensor)


def _told(node: Node, place: int, shape: Sequence[int] | None) -> str:
    return f"the graph is ill-typed: operand '{node.inputs[place]}' of {node} has the shape {list(shape or ())}"
