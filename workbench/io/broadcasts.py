"""PRelu as ONNX Runtime runs it: the slope may be larger than the operand, which ONNX does not allow.

For such a node ONNX infers the operand's shape, and so wrong shapes for all that depends on it. An Expand of
the operand makes the node valid ONNX with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.inference.shapes import infer_types
from workbench.ir import Edit, Graph, Node, constant


def spell_out_broadcasts(graph: Graph) -> tuple[str, ...]:
    """Insert an Expand before every such PRelu and infer types again; returns a warning for each."""
    warnings = []
    for node in [node for node in graph.nodes if node.op == "PRelu"]:
        shape = _expanded(graph.shape(node.inputs[0]), graph.shape(node.inputs[1]))
        if shape is None:
            continue
        whole = graph.fresh(f"{node.inputs[0]}_expanded")
        target = graph.fresh(f"{whole}_shape")
        expand = Node("Expand", (node.inputs[0], target), (whole,), name=graph.fresh(f"Expand_{whole}"))
        changed = node.replace(inputs=(whole, node.inputs[1]))
        numbers = constant(np.array(shape, np.int64))
        graph.apply(Edit(remove=(node.name,), insert=(expand, changed), constants={target: numbers}))
        warnings.append(
            f"{node} has a slope larger than its operand '{node.inputs[0]}', which ONNX does not allow and "
            "ONNX Runtime runs; the operand is expanded in front of it"
        )
    if warnings:
        result = infer_types(graph, {}, again=True)
        graph.apply(Edit(types={value: type_ for value, type_ in result.items() if value not in graph.constants}))
    return tuple(warnings)


def _expanded(operand: Sequence[Any] | None, slope: Sequence[Any] | None) -> tuple[int, ...] | None:
    """The shape to expand the operand to, 1 for unchanged axes; None if the slope fits or sizes are unknown."""
    if operand is None or slope is None:
        return None
    ahead = len(slope) - len(operand)
    own = (*[1] * ahead, *operand)
    slopes = (*[1] * -ahead, *slope)
    wide = tuple(their if dim == 1 else 1 for dim, their in zip(own, slopes, strict=True))
    if (ahead <= 0 and set(wide) <= {1}) or not all(isinstance(dim, int) for dim in wide):
        return None
    return wide
