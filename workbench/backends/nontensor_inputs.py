"""Inputs that are sequences or optional values, as tensors: `s[0]`, `s[1]` of a sequence, `o` of an optional one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import onnx_ir

from workbench.ir import Graph, OpaqueType, TensorType
from workbench.ir.types import Dim, Shape

OF_SEQUENCE, OF_OPTIONAL = "sequence", "optional"
SEEDED_LENGTH = 2  # the number of elements of a generated sequence


def container_type(graph: Graph, value: str) -> tuple[str, TensorType] | None:
    """OF_SEQUENCE or OF_OPTIONAL, and the type of the contained tensors; None for any other input."""
    type_ = graph.type(value)
    if not isinstance(type_, OpaqueType):
        return None
    kinds = {onnx_ir.SequenceType: OF_SEQUENCE, onnx_ir.OptionalType: OF_OPTIONAL}
    kind = next((name for class_, name in kinds.items() if isinstance(type_.type, class_)), None)
    inner = getattr(type_.type, "elem_type", None)
    if kind is None or not isinstance(inner, onnx_ir.TensorType):
        return None
    return kind, TensorType(inner.dtype, _shape(type_.shape))


def _shape(shape: onnx_ir.Shape | None) -> Shape:
    def dim(size: int | onnx_ir.SymbolicDim) -> Dim:
        return size if isinstance(size, int) else size.value

    return None if shape is None else tuple(map(dim, shape))


def tensors_of_inputs(graph: Graph) -> Iterator[tuple[str, str]]:
    """For each tensor to generate: its name, and the name of the input to which it belongs."""
    for value in graph.inputs:
        container = container_type(graph, value)
        if container is None or container[0] == OF_OPTIONAL:
            yield value, value
        else:
            yield from ((f"{value}[{index}]", value) for index in range(SEEDED_LENGTH))


def type_of_input(graph: Graph, value: str) -> TensorType | None:
    """The type of a tensor input, or of the tensors in a sequence or optional input; None for others."""
    container = container_type(graph, value)
    return graph.tensor_type(value) if container is None else container[1]


def sequence_items(value: str, tensors: Mapping[str, Any]) -> list[Any]:
    """The tensors of a sequence, in order."""
    results: list[Any] = []
    while f"{value}[{len(results)}]" in tensors:
        results.append(tensors[f"{value}[{len(results)}]"])
    return results


def with_containers(graph: Graph, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The values by input: a sequence as a list, an omitted optional input as None."""
    result = dict(tensors)
    for value in graph.inputs:
        container = container_type(graph, value)
        if container is None or value in tensors:
            continue
        result[value] = sequence_items(value, tensors) if container[0] == OF_SEQUENCE else None
    return result
