"""Signs of values, as far as they follow from the graph."""

from __future__ import annotations

from workbench.ir import Graph, Node

_NEVER_NEGATIVE = (
    *("Abs", "Exp", "Relu", "Sigmoid", "Softmax", "Softplus", "Sqrt"),
    *("ReduceL1", "ReduceL2", "ReduceSumSquare"),
)
_NEVER_NEGATIVE_LIKE_OPERANDS = ("Add", "Div", "Max", "Mul", "ReduceMax", "ReduceMean", "ReduceSum")
_MAX_DEPTH = 4  # the most operators between the value and those that decide


def is_never_negative(graph: Graph, value: str, depth: int = _MAX_DEPTH) -> bool:
    """Whether it is known that no element is below 0, from the constant or the operators that compute it."""
    tensor, node = graph.constant(value), graph.producer(value)
    if tensor is not None:
        return bool((tensor.numpy() >= 0).all())
    if node is None or depth == 0:
        return False
    if _is_even_power(graph, node):
        return True
    operands = node.inputs if len(node.inputs) == 2 and not node.op.startswith("Reduce") else node.inputs[:1]
    if node.op in _NEVER_NEGATIVE_LIKE_OPERANDS:
        return all(is_never_negative(graph, operand, depth - 1) for operand in operands)
    return node.op in _NEVER_NEGATIVE


def _is_even_power(graph: Graph, node: Node) -> bool:
    """Whether it computes a square, as Mul or as Pow, or another even power."""
    if node.op != "Pow":
        return node.op == "Mul" and node.inputs[0] == node.inputs[1]
    exponent = graph.constant(node.inputs[1])
    return exponent is not None and bool((exponent.numpy() % 2 == 0).all())
