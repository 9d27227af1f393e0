"""The number of Casts of a file between float32 and a narrower type, and the bytes that they read and write."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from onnx import NodeProto, TensorProto

from workbench.checker.inference import Inferred
from workbench.checker.tensors import ELEMENT_BITS
from workbench.checker.transpose_traffic import computed_nodes
from workbench.checker.types import PlainType, sizes_of

_IN_EACH_RUN = ("DequantizeLinear",)  # runtimes keep weights as integers
CAST_TYPES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}


@dataclass(frozen=True)
class Converted:
    """casts: of computed values, bodies included. bytes: of those of known size. unknown: the number of the others.
    why: the reason if no size is known."""

    casts: int = 0
    bytes: int = 0
    unknown: int = 0
    why: str = ""


def converted_by_casts(inferred: Inferred, constants: set[str], dims: Mapping[str, int], narrow: int) -> Converted:
    """narrow: the element type besides float32. constants: names of the main graph's."""
    if inferred.why:
        return Converted(why=inferred.why)
    casts = size = unknown = 0
    for node, types in computed_nodes(inferred.proto.graph, constants, dims, _IN_EACH_RUN):
        if node.op_type != "Cast" or node.domain not in ("", "ai.onnx"):
            continue
        elements = [None if type_ is None else type_[0] for type_ in map(types.get, (node.input[0], node.output[0]))]
        if {*elements} != {TensorProto.FLOAT, narrow}:
            continue
        bytes_ = _bytes(node, types, narrow)
        casts, size, unknown = casts + 1, size + (bytes_ or 0), unknown + (bytes_ is None)
    return Converted(casts, size, unknown)


def _bytes(node: NodeProto, types: Mapping[str, PlainType], narrow: int) -> int | None:
    """The bytes that a Cast reads and writes; None if its shape is not known."""
    shape = sizes_of(types.get(node.input[0]))
    bits = ELEMENT_BITS[TensorProto.FLOAT] + ELEMENT_BITS[narrow]
    return None if shape is None else math.prod(shape) * bits // 8
