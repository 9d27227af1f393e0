"""The structure of a group; groups of equal structure share a kernel."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import onnx_ir

from workbench.ir import Graph
from workbench.ir.function_calls import function_key


def structure_of(body: Graph, operands: Sequence[Any], constants: frozenset[int]) -> Hashable:
    """A key of the operators of a group, without names, and of the shapes, strides and types of its operands.

    constants: the positions of constant operands.
    """
    ids = {value: number for number, value in enumerate((*body.inputs, *body.constants))}
    parts: list[Hashable] = [_content(tensor) for tensor in body.constants.values()]
    for node in body.nodes:
        operator = function_key(node)
        attributes = tuple(sorted((name, _content(value)) for name, value in node.attributes.items()))
        parts.append((operator, attributes, tuple(ids.get(value, "absent") for value in node.inputs)))
        first = len(ids)
        ids |= {value: first + index for index, value in enumerate(node.outputs)}
    results = tuple(ids[value] for value in body.outputs)
    return tuple(parts), results, tuple(map(_form, operands)), constants


def _content(value: Any) -> str:
    if isinstance(value, onnx_ir.TensorProtocol):
        return f"{value.dtype} {value.shape} {value.numpy().tobytes().hex()}"
    return repr(value)


def _form(operand: Any) -> Hashable:
    if hasattr(operand, "stride"):
        return tuple(operand.shape), operand.stride(), str(operand.dtype), str(operand.device)
    return repr(operand)
