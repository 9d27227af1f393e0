"""Checks ranks of constant operands and perm attributes, on which rules and runtimes rely.

Shape inference does not check them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.formats.io.errors import LoadError
from workbench.ir import Graph, Node, constant_shape

# Operands that ONNX defines as 1-D; ONNX Runtime rejects others.
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
_NUMBERS = {"Clip": (1, 2), "Range": (0, 1, 2)}  # operands that are numbers of one element
_SCALAR_ALLOWED = ("Unsqueeze",)  # they accept a scalar as a list of one element


def check_operands(graph: Graph) -> None:
    """Raise LoadError for a constant operand of a rank that its operator does not accept, or an invalid perm."""
    for scope in (graph, *(function.graph for function in graph.functions.values())):
        _check(scope, ())


def _check(graph: Graph, outside: Sequence[Graph]) -> None:
    scopes = (graph, *outside)
    for node in graph.nodes:
        for index in _LISTS.get(node.op, ()):
            shape = _constant_shape(scopes, node, index)
            is_list = shape is None or len(shape) == 1 or (shape == () and node.op in _SCALAR_ALLOWED)
            if not is_list:
                raise LoadError(f"{_operand_text(node, index, shape)}, and must be a list with one axis")
        for index in _NUMBERS.get(node.op, ()):
            shape = _constant_shape(scopes, node, index)
            if shape is not None and (math.prod(shape) != 1 or len(shape) > 1):
                raise LoadError(f"{_operand_text(node, index, shape)}, and must be one number")
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


def _constant_shape(scopes: Sequence[Graph], node: Node, index: int) -> tuple[int, ...] | None:
    value = node.inputs[index] if len(node.inputs) > index else ""
    scope = next((scope for scope in scopes if value and scope.has_value(value)), None)
    tensor = None if scope is None else scope.constant(value)
    return None if tensor is None else constant_shape(tensor)


def _operand_text(node: Node, index: int, shape: Sequence[int] | None) -> str:
    return f"the graph is ill-typed: operand '{node.inputs[index]}' of {node} has the shape {list(shape or ())}"
