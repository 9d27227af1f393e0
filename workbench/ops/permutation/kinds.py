"""The layout part of a contract: what becomes of an operator when its input arrives permuted.

`propagate_permutation` answers: if the operands in `inputs` come permuted by `perm`, which
node computes the same, and how are its results permuted? This is the four
methods of OneFlow's NCHWCompatible interface, and the three classes of TVM's
ConvertLayout, in one function.

Here are the types, barriers and agnostic operators. remapped.py has those
whose attributes follow, indexed.py those that pick by index, products.py
matrix products, images.py the layout-sensitive ones, reshaping.py Reshape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.ir import Constant, Graph, Node, constant, constant_shape, lazy_constant
from workbench.ir.permutation import Permutation, is_identity, permuted

ALL, FIRST, NONE = "all", "first", "none"


class NotPermutable(ValueError):
    """The operator keeps its layout here; the message says why."""


@dataclass(frozen=True)
class PermutedCall:
    """The node that works on permuted operands.

    inputs:     operands that must arrive permuted by the permutation asked for.
    lined_up:   operands of lower rank, broadcast by position: they must arrive with all axes, permuted (`lines_up`).
    outputs:    permutation of each result (None: as it was).
    constants:  operands to be replaced by these constants, or added where the node leaves them out.
    """

    inputs: tuple[int, ...]
    outputs: tuple[Permutation | None, ...]
    attributes: Mapping[str, Any] | None = None
    constants: Mapping[int, Constant] = field(default_factory=dict)
    op_type: str | None = None
    domain: str | None = None
    lined_up: tuple[int, ...] = ()


Propagate = Callable[[Graph, Node, Permutation], PermutedCall]


@dataclass(frozen=True)
class Layout:
    """How an operator takes permuted operands.

    kind:   agnostic, remapped, sensitive, reshape-like or barrier (see docs/architecture.md).
    shares: the operands whose axes are the result's own, of those of its rank: ALL, the FIRST or NONE;
            so far a value's layout is passed on.
    """

    kind: str
    propagate_permutation: Propagate
    shares: str = FIRST


def remapped(propagate_permutation: Propagate, shares: str = FIRST) -> Layout:
    """One whose attributes and small operands follow the axes of its first operand."""

    def propagate_that_rank(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
        check_rank(graph, node, perm)
        return propagate_permutation(graph, node, perm)

    return Layout("remapped", propagate_that_rank, shares)


# ---- what the carrying functions share ----------------------------------------------


def check_rank(graph: Graph, node: Node, perm: Permutation) -> None:
    """Refuse a permutation that is not of the first operand's axes."""
    if graph.rank_of(node.inputs[0]) != len(perm):
        raise NotPermutable(f"operand '{node.inputs[0]}' of {node} has other axes")


def with_attributes(node: Node, **attributes: Any) -> dict[str, Any]:
    return {**node.attributes, **attributes}


def has_operand(node: Node, index: int) -> bool:
    return index < len(node.inputs) and bool(node.inputs[index])


def constant_operand(graph: Graph, node: Node, index: int) -> np.ndarray | None:
    """A small operand as an array; None where it is left out."""
    if not has_operand(node, index):
        return None
    tensor = graph.constant(node.inputs[index])
    if tensor is None:
        raise NotPermutable(f"operand '{node.inputs[index]}' of {node} is computed while the model runs")
    return np.asarray(tensor.numpy())


def constant_numbers(graph: Graph, node: Node, index: int) -> list[int] | None:
    """A small integer operand as numbers; None where it is left out."""
    array = constant_operand(graph, node, index)
    return None if array is None else [int(v) for v in array.reshape(-1)]


def int64(values: Sequence[int]) -> Constant:
    return constant(np.array(values, dtype=np.int64))


def without_axes(perm: Permutation, gone: set[int]) -> Permutation | None:
    """What remains of `perm` when the original axes `gone` disappear; None where nothing is permuted."""
    kept = [axis for axis in perm if axis not in gone]
    order = sorted(kept)
    return or_none(tuple(order.index(axis) for axis in kept))


def or_none(perm: Permutation) -> Permutation | None:
    """As `outputs` says it: None for a result that is as it was."""
    return None if is_identity(perm) else perm


def aligned(tensor: Constant, perm: Permutation) -> Constant | None:
    """A broadcast constant for permuted neighbours; None where it serves as it is."""
    shape = constant_shape(tensor)
    if len(shape) > len(perm):
        raise NotPermutable(f"a constant of rank {len(shape)} raises the rank of the result")
    full = (1,) * (len(perm) - len(shape)) + shape
    if all(d == 1 for d in full):
        return None
    return lazy_constant(
        lambda: np.ascontiguousarray(tensor.numpy().reshape(full).transpose(perm)), tensor.dtype, permuted(full, perm)
    )


def lines_up(perm: Permutation, rank: int) -> tuple[Permutation, tuple[int, ...]]:
    """How a broadcast operand of `rank` axes joins neighbours permuted by `perm`, which has more.

    The permutation of its own axes, and the places of the axes of size 1 that an Unsqueeze puts in behind it.
    """
    ahead = len(perm) - rank
    own = tuple(axis - ahead for axis in perm if axis >= ahead)
    return own, tuple(place for place, axis in enumerate(perm) if axis < ahead)


# ---- barrier ------------------------------------------------------------------------


def _refuse(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    raise NotPermutable(f"{node} was written for one order of its axes")


BARRIER = Layout("barrier", _refuse, NONE)


# ---- agnostic -----------------------------------------------------------------------


def _propagate_elementwise(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """Any permutation passes; operands of lower rank are lined up, constants here."""
    rank = len(perm)
    inputs, lined_up, constants = [], [], {}
    for index, value in enumerate(node.inputs):
        if not value:
            continue
        tensor = graph.constant(value)
        if tensor is not None:
            moved = aligned(tensor, perm)
            if moved is not None:
                constants[index] = moved
            continue
        own = graph.rank_of(value)
        if own is None:
            raise NotPermutable(f"the rank of '{value}', an operand of {node}, is not known")
        if own > rank:
            raise NotPermutable(f"operand '{value}' of {node} has rank {own}, and raises the rank of the result")
        if own == rank:
            inputs.append(index)
        elif not _stays(graph, value, perm):
            lined_up.append(index)
    if not inputs:
        raise NotPermutable(f"no operand of {node} has {rank} axes")
    return PermutedCall(tuple(inputs), (perm,) * len(node.outputs), constants=constants, lined_up=tuple(lined_up))


def _stays(graph: Graph, value: str, perm: Permutation) -> bool:
    """Do the axes that an operand of lower rank lines up with keep their places? Where it has size 1 they need not."""
    shape = graph.shape(value) or ()
    ahead = len(perm) - len(shape)
    return all(dim == 1 or perm[ahead + axis] == ahead + axis for axis, dim in enumerate(shape))


def _propagate_first(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """Only the first operand has axes; the others are scalars (Clip's bounds, CastLike's type)."""
    check_rank(graph, node, perm)
    return PermutedCall((0,), (perm,) * len(node.outputs))


def _propagate_dropout(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """In training, each place has its own random number."""
    if has_operand(node, 2) and constant_operand(graph, node, 2) != np.array(False):
        raise NotPermutable(f"{node} drops at random, by the place of an element")
    return _propagate_first(graph, node, perm)


def _propagate_with_scalars(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The results behind the first say something of all elements."""
    check_rank(graph, node, perm)
    return PermutedCall((0,), (perm, *(None for _ in node.outputs[1:])))


def _propagate_count(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    check_rank(graph, node, perm)
    return PermutedCall((0,), (None,))


AGNOSTIC = Layout("agnostic", _propagate_elementwise, ALL)
AGNOSTIC_FIRST = Layout("agnostic", _propagate_first, ALL)
DROPOUT = Layout("agnostic", _propagate_dropout, ALL)
AGNOSTIC_WITH_SCALARS = Layout("agnostic", _propagate_with_scalars, ALL)
SIZE = Layout("agnostic", _propagate_count, NONE)
