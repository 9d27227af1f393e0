"""The number of Transposes of a file and the bytes that they move."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from onnx import NodeProto

from workbench.checker.computed import computed_nodes
from workbench.checker.inference import Inferred
from workbench.checker.operators import operator_name
from workbench.checker.tensors import ELEMENT_BITS
from workbench.checker.types import PlainType, sizes_of


@dataclass(frozen=True)
class Moved:
    """transposes: the number of Transposes of computed values, bodies included. bytes: of those in which an element
    changes its place. unknown: the number of unknown size. inside: of those in bodies. einsums: the number of Einsums
    of one operand that only permute its axes. why: the reason if no size is known."""

    transposes: int = 0
    bytes: int = 0
    unknown: int = 0
    inside: int = 0
    einsums: int = 0
    why: str = ""

    def __str__(self) -> str:
        many = "1 Transpose, which moves" if self.transposes == 1 else f"{self.transposes:,} Transposes, which move"
        more = f", and {self.unknown:,} of them an unknown number" if self.unknown else ""
        return f"{many} {self.bytes:,} bytes{' if each body runs once' if self.inside else ''}{more}"


def moved_by_transposes(inferred: Inferred, fixed: Collection[str], dims: Mapping[str, int]) -> Moved:
    """fixed: constants of the main graph that no caller can replace."""
    if inferred.why:
        return Moved(why=inferred.why)
    transposes = size = unknown = inside = einsums = 0
    for found in computed_nodes(inferred, fixed, dims):
        if operator_name(found.node) == "Transpose":
            bytes_ = transposed_bytes(found.node, found.types)
            transposes, size, unknown = transposes + 1, size + (bytes_ or 0), unknown + (bytes_ is None)
            inside += found.inside
        einsums += operator_name(found.node) == "Einsum" and permutes_axes(found.node)
    return Moved(transposes, size, unknown, inside, einsums)


def permutes_axes(einsum: NodeProto) -> bool:
    """Whether an Einsum of one operand has each of its axes once in the result, in another order."""
    equation = next((a.s.decode(errors="replace") for a in einsum.attribute if a.name == "equation"), "")
    operand, arrow, result = equation.replace(" ", "").partition("->")
    result = result if arrow else "".join(sorted(letter for letter in operand if operand.count(letter) == 1))
    return len(einsum.input) == 1 and operand != result and sorted(operand) == sorted(result)


def transposed_bytes(node: NodeProto, types: Mapping[str, PlainType]) -> int | None:
    """The bytes that a Transpose moves; None if its shape is not known."""
    type_ = types.get(node.input[0])
    shape, size = sizes_of(type_), stored_bytes(type_)
    perm = None if shape is None else transpose_perm(node, len(shape))
    if shape is None or perm is None or size is None:
        return None
    return size if moves(perm, shape) else 0


def stored_bytes(type_: PlainType) -> int | None:
    """The bytes of a tensor, whose elements take a byte at least; None if they are not known."""
    shape = sizes_of(type_)
    bits = None if type_ is None else ELEMENT_BITS.get(type_[0])
    return None if shape is None or bits is None else math.prod(shape) * max(bits // 8, 1)


def transpose_perm(node: NodeProto, rank: int) -> list[int] | None:
    """The permutation of a Transpose; None if it does not fit the rank."""
    return axis_order(next((list(a.ints) for a in node.attribute if a.name == "perm"), None), rank)


def axis_order(entries: list[int] | None, rank: int) -> list[int] | None:
    """The permutation of a Transpose with the attribute `perm`; None if it does not fit the rank."""
    perm = list(reversed(range(rank))) if entries is None else entries
    return perm if sorted(perm) == list(range(rank)) else None


def moves(perm: list[int], shape: tuple[int, ...]) -> bool:
    """Whether any element changes its place; none does if only axes of size 1 move."""
    long_axes = [axis for axis in perm if shape[axis] != 1]
    return long_axes != sorted(long_axes)
