"""Permutations of axes, as Transpose writes them: output axis i is input axis perm[i]."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias, TypeVar

from workbench.ir.graph import Graph
from workbench.ir.node import Node
from workbench.ir.types import Constant, constant_shape, rearranged_constant

Permutation: TypeAlias = tuple[int, ...]
_T = TypeVar("_T")


def identity(rank: int) -> Permutation:
    return tuple(range(rank))


def is_identity(perm: Sequence[int]) -> bool:
    return all(axis == i for i, axis in enumerate(perm))


def inverse(perm: Sequence[int]) -> Permutation:
    """The permutation that undoes `perm`."""
    result = [0] * len(perm)
    for i, axis in enumerate(perm):
        result[axis] = i
    return tuple(result)


def compose(first: Sequence[int], second: Sequence[int]) -> Permutation:
    """The permutation of one Transpose equal to `first` followed by `second`."""
    return tuple(first[axis] for axis in second)


def permuted(items: Sequence[_T], perm: Sequence[int]) -> tuple[_T, ...]:
    """`items`, one per axis, in their order after the Transpose."""
    return tuple(items[axis] for axis in perm)


def drop_axes(perm: Sequence[int], removed: Collection[int]) -> Permutation:
    """`perm` without the axes `removed`, as numbered before it."""
    others = [axis for axis in perm if axis not in removed]
    order = sorted(others)
    return tuple(order.index(axis) for axis in others)


def moves_data(perm: Sequence[int], shape: Sequence[object]) -> bool:
    """Whether a Transpose of `shape` changes the order in memory; not if only axes of size 1 move."""
    long_axes = [axis for axis in perm if shape[axis] != 1]
    return long_axes != sorted(long_axes)


def channels_last(rank: int) -> Permutation:
    """N C spatial... to N spatial... C."""
    return (0, *range(2, rank), 1)


def channels_first(rank: int) -> Permutation:
    """N spatial... C to N C spatial..."""
    return inverse(channels_last(rank))


def permuted_constant(tensor: Constant, perm: Permutation) -> Constant:
    """The constant, transposed at each access, so that the weight in its file stays the only copy."""
    shape = permuted(constant_shape(tensor), perm)
    return rearranged_constant(tensor, lambda elements: elements.transpose(perm), shape)


def perm_of(graph: Graph, node: Node) -> Permutation | None:
    """The permutation of a Transpose; without the attribute it reverses the axes."""
    perm = node.attr("perm")
    if perm is not None:
        return tuple(perm)
    rank = graph.rank_of(node.inputs[0])
    return None if rank is None else tuple(reversed(range(rank)))
