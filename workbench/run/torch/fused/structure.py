"""What two groups must share to be computed by one kernel."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import onnx_ir

from workbench.ir import Graph
from workbench.ir.function_calls import function_key


def structure_of(body: Graph, operands: Sequence[Any], constants: frozenset[int]) -> Hashable:
    """The operators of a group, without names, and the shapes, strides and types of its operands.

    constants: the places of operands that are constants.
    """
    numbers = {value: number for number, value in enumerate((*body.inputs, *body.constants))}
    rows: list[Hashable] = [_content(held) for held in body.constants.values()]
    for node in body.nodes:
        operator = function_key(node)
        attributes = tuple(sorted((name, _content(value)) for name, value in node.attributes.items()))
        rows.append((operator, attributes, tuple(numbers.get(value, "absent") for value in node.inputs)))
        first = len(numbers)
        numbers |= {value: first + place for place, value in enumerate(node.outputs)}
    results = tuple(numbers[value] for value in body.outputs)
    return tuple(rows), results, tuple(map(_form, operands)), constants


def _content(value: Any) -> str:
    if isinstance(value, onnx_ir.TensorProtocol):
        return f"{value.dtype} {value.shape} {value.numpy().tobytes().hex()}"
    return repr(value)


def _form(operand: Any) -> Hashable:
    if hasattr(operand, "stride"):
        return tuple(operand.shape), operand.stride(), str(operand.dtype), str(operand.device)
    return repr(operand)
