"""The number of Casts of a file between types of floats, and the bytes that they read and write."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from onnx import NodeProto, TensorProto

from workbench.checker.computed import computed_nodes
from workbench.checker.inference import Inferred
from workbench.checker.operators import operator_name
from workbench.checker.tensors import ELEMENT_BITS
from workbench.checker.types import PlainType, sizes_of

IN_EACH_RUN = ("DequantizeLinear",)  # runtimes keep weights as integers
FLOATS = frozenset(
    number for name, number in TensorProto.DataType.items() if name.startswith(("FLOAT", "BFLOAT")) or name == "DOUBLE"
)


@dataclass(frozen=True)
class Converted:
    """casts: of computed values, bodies included. bytes: of those of known size. unknown: the number of the others.
    inside: of those in bodies. why: the reason if no size is known."""

    casts: int = 0
    bytes: int = 0
    unknown: int = 0
    inside: int = 0
    why: str = ""

    def __str__(self) -> str:
        many = "1 Cast, which reads and writes" if self.casts == 1 else f"{self.casts:,} Casts, which read and write"
        more = f", and {self.unknown:,} of them an unknown number" if self.unknown else ""
        return f"{many} {self.bytes:,} bytes{' if each body runs once' if self.inside else ''}{more}"


def converted_by_casts(inferred: Inferred, fixed: Collection[str], dims: Mapping[str, int]) -> Converted:
    """fixed: constants of the main graph that no caller can replace."""
    if inferred.why:
        return Converted(why=inferred.why)
    casts = size = unknown = inside = 0
    for found in computed_nodes(inferred, fixed, dims, IN_EACH_RUN):
        if is_float_cast(found.node, found.types):
            bytes_ = _bytes(found.node, found.types)
            casts, size, unknown = casts + 1, size + (bytes_ or 0), unknown + (bytes_ is None)
            inside += found.inside
    return Converted(casts, size, unknown, inside)


def is_float_cast(node: NodeProto, types: Mapping[str, PlainType]) -> bool:
    """Whether the node casts floats of one type, or something of unknown type, to floats of another."""
    if operator_name(node) not in ("Cast", "CastLike"):
        return False
    before, after = (types.get(value) for value in (node.input[0], node.output[0]))
    if after is None or after[0] not in FLOATS:
        return after is None
    return before is None or (before[0] in FLOATS and before[0] != after[0])


def _bytes(node: NodeProto, types: Mapping[str, PlainType]) -> int | None:
    """The bytes that a Cast reads and writes; None if its shape or types are not known."""
    before, after = (types.get(value) for value in (node.input[0], node.output[0]))
    shape = sizes_of(before)
    bits = [None if type_ is None else ELEMENT_BITS.get(type_[0]) for type_ in (before, after)]
    known = [number for number in bits if number is not None]
    return None if shape is None or len(known) < len(bits) else math.prod(shape) * sum(known) // 8
