"""The number of Transposes of a file and the bytes that they move."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from onnx import GraphProto, NodeProto

from workbench.checker.folding import FOLDED
from workbench.checker.inference import Inferred, bodies_of, types_in
from workbench.checker.tensors import ELEMENT_BITS
from workbench.checker.types import PlainType, sizes_of


@dataclass(frozen=True)
class Moved:
    """transposes: the number of Transposes of computed values, bodies included. bytes: of those in which an element
    changes its place. unknown: the number of unknown size. why: the reason if no size is known."""

    transposes: int = 0
    bytes: int = 0
    unknown: int = 0
    why: str = ""

    def __str__(self) -> str:
        many = "1 Transpose, which moves" if self.transposes == 1 else f"{self.transposes:,} Transposes, which move"
        more = f", and {self.unknown:,} of them an unknown number" if self.unknown else ""
        return f"{many} {self.bytes:,} bytes{more}"


def moved_by_transposes(inferred: Inferred, constants: set[str], dims: Mapping[str, int]) -> Moved:
    """constants: names of the main graph's. Transposes of values that depend on constants alone are left out."""
    if inferred.why:
        return Moved(why=inferred.why)
    transposes = size = unknown = 0
    for node, types in computed_nodes(inferred.proto.graph, constants, dims):
        if node.op_type == "Transpose" and node.domain in ("", "ai.onnx"):
            bytes_ = _bytes(node, types)
            transposes, size, unknown = transposes + 1, size + (bytes_ or 0), unknown + (bytes_ is None)
    return Moved(transposes, size, unknown)


def computed_nodes(
    main: GraphProto, constants: set[str], dims: Mapping[str, int], in_each_run: Collection[str] = ()
) -> Iterator[tuple[NodeProto, Mapping[str, PlainType]]]:
    """The nodes of a graph and its bodies that do not depend on constants alone, each with the types of its graph.

    An input with a default is no constant, since the caller may give another value.
    in_each_run: operators that compute in each run, of constants too.
    """
    waiting: list[tuple[GraphProto, set[str]]] = [(main, constants)]
    while waiting:
        graph, fixed = waiting.pop()
        types = types_in(graph, dims)
        given = {value.name for value in graph.input}
        fixed = fixed | {tensor.name for tensor in graph.initializer if tensor.name not in given}
        for node in graph.node:
            reads = [value for value in node.input if value]
            is_fixed = reads and fixed.issuperset(reads) and not any(bodies_of(node))
            if (is_fixed and node.op_type not in in_each_run) or (node.op_type == "Constant" and node.name != FOLDED):
                fixed.update(node.output)
                continue
            waiting += [(body, set()) for _, body in bodies_of(node)]
            yield node, types


def _bytes(node: NodeProto, types: Mapping[str, PlainType]) -> int | None:
    """The bytes that a Transpose moves; None if its shape is not known."""
    type_ = types.get(node.input[0])
    shape = sizes_of(type_)
    bits = None if type_ is None else ELEMENT_BITS.get(type_[0])
    if shape is None or bits is None:
        return None
    perm = axis_order(next((list(a.ints) for a in node.attribute if a.name == "perm"), None), len(shape))
    if perm is None:
        return None
    return math.prod(shape) * max(bits // 8, 1) if moves(perm, shape) else 0


def axis_order(entries: list[int] | None, rank: int) -> list[int] | None:
    """The permutation of a Transpose with the attribute `perm`; None if it does not fit the rank."""
    perm = list(reversed(range(rank))) if entries is None else entries
    return perm if sorted(perm) == list(range(rank)) else None


def moves(perm: list[int], shape: tuple[int, ...]) -> bool:
    """Whether any element changes its place; none does if only axes of size 1 move."""
    long_axes = [axis for axis in perm if shape[axis] != 1]
    return long_axes != sorted(long_axes)
