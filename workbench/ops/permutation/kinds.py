"""The layout part of a contract: what an operator computes on permuted operands.

`propagate_permutation` returns the node that computes the same on operands permuted by `perm`, and how its results are
permuted. It combines the four methods of OneFlow's NCHWCompatible interface with the three classes of TVM's
ConvertLayout.

This file has the types, barriers and agnostic operators; permuted_attributes.py has operators whose attributes are
permuted, indexed.py those that select by index, products.py matrix products, reshaping.py Reshape and Flatten, and
../permuted_images.py layout-sensitive operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.ir import Constant, Graph, Node, constant, constant_shape
from workbench.ir.permutation import Permutation, drop_axes, is_identity, permuted
from workbench.ir.types import rearranged_constant

ALL_OPERANDS, FIRST_OPERAND, NO_OPERAND = "all", "first", "none"


class NotPermutable(ValueError):
    """The operator cannot run on permuted operands; the message says why."""


@dataclass(frozen=True)
class PermutedCall:
    """The equivalent node on permuted operands.

    inputs:     indices of the operands that must be permuted by the given permutation.
    aligned_inputs: indices of broadcast operands of lower rank, which must get all axes, permuted (`alignment_of`).
    outputs:    the permutation of each result; None if it is unchanged.
    constants:  constants that replace operands, or are added for omitted ones, by index.
    picks:      indices of the elements to gather from the node's result; None: it is right as it is.
    """

    inputs: tuple[int, ...]
    outputs: tuple[Permutation | None, ...]
    attributes: Mapping[str, Any] | None = None
    constants: Mapping[int, Constant] = field(default_factory=dict)
    op_type: str | None = None
    domain: str | None = None
    aligned_inputs: tuple[int, ...] = ()
    picks: tuple[int, ...] | None = None


Propagate = Callable[[Graph, Node, Permutation], PermutedCall]


@dataclass(frozen=True)
class Layout:
    """How an operator behaves on permuted operands.

    kind:   agnostic, remapped, sensitive, reshape-like or barrier (see docs/architecture.md).
    shares: which operands of the result's rank have the result's axes: ALL_OPERANDS, the FIRST_OPERAND or NO_OPERAND.
            Layouts are propagated between these and the result.
    """

    kind: str
    propagate_permutation: Propagate
    shares: str = FIRST_OPERAND


def remapped(propagate_permutation: Propagate, shares: str = FIRST_OPERAND) -> Layout:
    """The layout of an operator whose attributes and small operands are permuted with its first operand."""

    def propagate_if_rank_agrees(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
        check_rank(graph, node, perm)
        return propagate_permutation(graph, node, perm)

    return Layout("remapped", propagate_if_rank_agrees, shares)


# ---- helpers of propagate_permutation -----------------------------------------------


def check_rank(graph: Graph, node: Node, perm: Permutation) -> None:
    """Refuse a permutation that does not have the first operand's rank."""
    if graph.rank_of(node.inputs[0]) != len(perm):
        raise NotPermutable(f"operand '{node.inputs[0]}' of {node} has another rank than the permutation")


def with_attributes(node: Node, **attributes: Any) -> dict[str, Any]:
    return {**node.attributes, **attributes}


def has_operand(node: Node, index: int) -> bool:
    return index < len(node.inputs) and bool(node.inputs[index])


def constant_operand(graph: Graph, node: Node, index: int) -> np.ndarray | None:
    """A small constant operand as an array; None if it is omitted."""
    if not has_operand(node, index):
        return None
    tensor = graph.constant(node.inputs[index])
    if tensor is None:
        raise NotPermutable(f"operand '{node.inputs[index]}' of {node} is computed at runtime")
    return np.asarray(tensor.numpy())


def constant_numbers(graph: Graph, node: Node, index: int) -> list[int] | None:
    """A small constant operand as integers; None if it is omitted."""
    array = constant_operand(graph, node, index)
    return None if array is None else [int(v) for v in array.reshape(-1)]


def int64(values: Sequence[int]) -> Constant:
    return constant(np.array(values, dtype=np.int64))


def without_axes(perm: Permutation, removed: set[int]) -> Permutation | None:
    """`perm` without the axes `removed`, as numbered before it; None if the others are not permuted."""
    return or_none(drop_axes(perm, removed))


def or_none(perm: Permutation) -> Permutation | None:
    """The permutation, or None for the identity, as in `outputs`."""
    return None if is_identity(perm) else perm


def aligned(tensor: Constant, perm: Permutation) -> Constant | None:
    """A broadcast constant with all axes, permuted; None if it can stay as it is."""
    shape = constant_shape(tensor)
    if len(shape) > len(perm):
        raise NotPermutable(f"a constant of rank {len(shape)} raises the rank of the result")
    full = (1,) * (len(perm) - len(shape)) + shape
    if all(d == 1 for d in full):
        return None
    return rearranged_constant(tensor, lambda elements: elements.reshape(full).transpose(perm), permuted(full, perm))


def alignment_of(perm: Permutation, rank: int) -> tuple[Permutation, tuple[int, ...]]:
    """How to align a broadcast operand of `rank` axes with operands permuted by `perm`, which has more.

    Returns the permutation of the operand's axes, and the axes that an Unsqueeze then inserts.
    """
    missing = len(perm) - rank
    operand_perm = tuple(axis - missing for axis in perm if axis >= missing)
    return operand_perm, tuple(index for index, axis in enumerate(perm) if axis < missing)


# ---- barrier ------------------------------------------------------------------------


def _refuse(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    raise NotPermutable(f"{node} depends on the order of its axes")


LAYOUT_BARRIER = Layout("barrier", _refuse, NO_OPERAND)


# ---- agnostic -----------------------------------------------------------------------


def _propagate_elementwise(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """Any permutation is possible. Constants are aligned here, other operands of lower rank by the caller."""
    rank = len(perm)
    inputs, aligned_inputs, constants = [], [], {}
    for index, value in enumerate(node.inputs):
        if not value:
            continue
        tensor = graph.constant(value)
        if tensor is not None:
            aligned_tensor = aligned(tensor, perm)
            if aligned_tensor is not None:
                constants[index] = aligned_tensor
            continue
        operand_rank = graph.rank_of(value)
        if operand_rank is None:
            raise NotPermutable(f"the rank of '{value}', an operand of {node}, is not known")
        if operand_rank > rank:
            raise NotPermutable(
                f"operand '{value}' of {node} has rank {operand_rank}, and raises the rank of the result"
            )
        if operand_rank == rank:
            inputs.append(index)
        elif not _stays(graph, value, perm):
            aligned_inputs.append(index)
    if not inputs:
        raise NotPermutable(f"no operand of {node} has {rank} axes")
    return PermutedCall(
        tuple(inputs), (perm,) * len(node.outputs), constants=constants, aligned_inputs=tuple(aligned_inputs)
    )


def _stays(graph: Graph, value: str, perm: Permutation) -> bool:
    """Whether an operand of lower rank can stay as it is: only axes of size 1 would move."""
    shape = graph.shape(value) or ()
    missing = len(perm) - len(shape)
    return all(dim == 1 or perm[missing + axis] == missing + axis for axis, dim in enumerate(shape))


def _propagate_first(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """Only the first operand is permuted; the others are scalars (Clip's bounds) or give a type (CastLike)."""
    check_rank(graph, node, perm)
    return PermutedCall((0,), (perm,) * len(node.outputs))


def _propagate_dropout(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """Refused in training, where random numbers depend on the position."""
    if has_operand(node, 2) and constant_operand(graph, node, 2) != np.array(False):
        raise NotPermutable(f"{node} drops elements at random by position")
    return _propagate_first(graph, node, perm)


def _propagate_with_scalars(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The results after the first are computed from all elements together."""
    check_rank(graph, node, perm)
    return PermutedCall((0,), (perm, *(None for _ in node.outputs[1:])))


def _propagate_size(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    check_rank(graph, node, perm)
    return PermutedCall((0,), (None,))


AGNOSTIC = Layout("agnostic", _propagate_elementwise, ALL_OPERANDS)
AGNOSTIC_FIRST = Layout("agnostic", _propagate_first, ALL_OPERANDS)
DROPOUT = Layout("agnostic", _propagate_dropout, ALL_OPERANDS)
AGNOSTIC_WITH_SCALARS = Layout("agnostic", _propagate_with_scalars, ALL_OPERANDS)
SIZE = Layout("agnostic", _propagate_size, NO_OPERAND)
