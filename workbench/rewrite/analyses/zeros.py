"""Values without -0.0, to which adding 0.0 changes nothing, and values that are 0.0 everywhere."""

from __future__ import annotations

import numpy as np

from workbench.ir import Constant, Graph, Node
from workbench.rewrite.patterns.standard import has_negative_zero

_MAX_DEPTH = 8  # longest chain of nodes that is followed
_POSITIVE = ("Abs", "Exp", "Softmax")
_ADDING_BIAS = (
    *("Conv", "ConvTranspose", "Gemm"),
    *("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization"),
)
MOVING = ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Gather", "Expand", "Tile")


def holds_no_negative_zero(graph: Graph, value: str, depth: int = _MAX_DEPTH) -> bool:
    """Whether it is known that no element is -0.0.

    A sum is -0.0 only if both summands are, a difference only for -0.0 - 0.0. In ONNX Runtime, Relu of -0.0 is
    -0.0, and of negative numbers 0.0.
    """
    tensor = graph.constant(value)
    if tensor is not None:
        return tensor.dtype.is_integer() or not has_negative_zero(tensor.numpy())
    node = graph.producer(value)
    return node is not None and depth > 0 and _makes_none(graph, node, depth - 1)


def _makes_none(graph: Graph, node: Node, depth: int) -> bool:
    if node.op in _POSITIVE:
        return True
    if node.op == "Cast":
        source = graph.tensor_type(node.inputs[0])
        return source is not None and source.dtype.is_integer()
    if node.op == "Add":
        return any(holds_no_negative_zero(graph, operand, depth) for operand in node.inputs)
    if node.op == "Sub":
        return holds_no_negative_zero(graph, node.inputs[0], depth) or _has_no_zero(graph.constant(node.inputs[1]))
    if node.op in _ADDING_BIAS:
        bias = node.inputs[2] if len(node.inputs) > 2 else ""
        adds_it = node.op != "Gemm" or node.attr("beta") == 1
        return adds_it and graph.constant(bias) is not None and holds_no_negative_zero(graph, bias)
    if node.op == "Concat":
        return all(holds_no_negative_zero(graph, operand, depth) for operand in node.inputs)
    return node.op in ("Relu", *MOVING) and holds_no_negative_zero(graph, node.inputs[0], depth)


def _has_no_zero(tensor: Constant | None) -> bool:
    return tensor is not None and bool(np.asarray(tensor.numpy()).all())


def is_zero(graph: Graph, value: str, depth: int = _MAX_DEPTH) -> bool:
    """Whether every element is known to be 0, and none -0.0."""
    tensor = graph.constant(value)
    if tensor is not None:
        array = tensor.numpy()
        return array.dtype.kind in "fiu" and not array.any() and not has_negative_zero(array)
    node = graph.producer(value)
    if node is None or depth == 0:
        return False
    if node.op == "ConstantOfShape":
        filled = node.attr("value")
        return filled is None or not (filled.numpy().any() or has_negative_zero(filled.numpy()))
    if node.op == "Concat":
        return all(is_zero(graph, operand, depth - 1) for operand in node.inputs)
    return node.op in (*MOVING, "Cast", "Split") and is_zero(graph, node.inputs[0], depth - 1)
