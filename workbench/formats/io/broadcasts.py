"""PRelu with a slope larger than its operand, which ONNX Runtime runs and ONNX does not allow.

For such a node ONNX infers the operand's shape, and so wrong shapes for all that depends on it. An Expand of
the operand makes the node valid ONNX with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.analysis.inference.shapes import infer_types
from workbench.ir import Edit, Graph, Node, constant


def expand_prelu_operands(graph: Graph) -> tuple[str, ...]:
    """Insert an Expand before every such PRelu and infer types again; returns a warning for each."""
    warnings = []
    for node in [node for node in graph.nodes if node.op == "PRelu"]:
        shape = _expanded(graph.shape(node.inputs[0]), graph.shape(node.inputs[1]))
        if shape is None:
            continue
        expanded = graph.fresh(f"{node.inputs[0]}_expanded")
        target = graph.fresh(f"{expanded}_shape")
        expand = Node("Expand", (node.inputs[0], target), (expanded,), name=graph.fresh(f"Expand_{expanded}"))
        valid_node = node.replace(inputs=(expanded, node.inputs[1]))
        shape_constant = constant(np.array(shape, np.int64))
        graph.apply(Edit(remove=(node.name,), insert=(expand, valid_node), constants={target: shape_constant}))
        warnings.append(
            f"{node} has a slope larger than its operand '{node.inputs[0]}', which ONNX does not allow and "
            "ONNX Runtime runs; an Expand is inserted before it"
        )
    if warnings:
        types = infer_types(graph, {}, again=True)
        graph.apply(Edit(types={value: type_ for value, type_ in types.items() if value not in graph.constants}))
    return tuple(warnings)


def _expanded(operand: Sequence[Any] | None, slope: Sequence[Any] | None) -> tuple[int, ...] | None:
    """The shape to expand the operand to, 1 for unchanged axes; None if the slope fits or sizes are unknown."""
    if operand is None or slope is None:
        return None
    missing_axes = len(slope) - len(operand)
    padded_operand = (*[1] * missing_axes, *operand)
    padded_slope = (*[1] * -missing_axes, *slope)
    target = tuple(slope_dim if dim == 1 else 1 for dim, slope_dim in zip(padded_operand, padded_slope, strict=True))
    if (missing_axes <= 0 and set(target) <= {1}) or not all(isinstance(dim, int) for dim in target):
        return None
    return target
