"""Reshape and Flatten on permuted operands, which are possible if the dims factor.

The axes of operand and result form groups of equal product: an axis is kept, or split into several, or several are
merged. If a permutation leaves the axes of each group adjacent and in order, it permutes the groups of the result
likewise. So a channel shuffle (C split into groups) and a view as tokens (H and W merged) stay channels-last. Axes of
size 1 may be in any group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from workbench.ir import Constant, Graph, Node, constant
from workbench.ir.permutation import Permutation, moves_data, permuted
from workbench.ops.permutation.kinds import NO_OPERAND, Layout, NotPermutable, PermutedCall, check_rank, or_none

Dims = Sequence[int | str]


@dataclass
class AxisGroup:
    """Axes of the operand and axes of the result that hold the same elements in the same order."""

    operand: list[int]
    result: list[int]


def axis_groups(operand: Dims, result: Dims) -> list[AxisGroup] | None:
    """The smallest groups, in order; None if the shapes do not determine them."""
    groups: list[AxisGroup] = []
    i = k = 0  # the next axes of operand and result
    while i < len(operand) and k < len(result):
        group, left, right = AxisGroup([i], [k]), _Product(operand[i]), _Product(result[k])
        i, k = i + 1, k + 1
        while left != right:
            if i < len(operand) and left.lacks(right):
                left = left.times(operand[i])
                group.operand.append(i)
                i += 1
            elif k < len(result) and right.lacks(left):
                right = right.times(result[k])
                group.result.append(k)
                k += 1
            else:
                return None
        groups.append(group)
    if not groups or any(dim != 1 for dim in (*operand[i:], *result[k:])):
        return None
    groups[-1].operand += range(i, len(operand))
    groups[-1].result += range(k, len(result))
    return groups


class _Product:
    """A product of dims, which are numbers or symbols."""

    def __init__(self, *dims: int | str) -> None:
        self.dims = dims
        self.number = math.prod(dim for dim in dims if isinstance(dim, int))
        self.symbols = sorted(dim for dim in dims if isinstance(dim, str))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Product) and (self.number, self.symbols) == (other.number, other.symbols)

    def times(self, dim: int | str) -> _Product:
        return _Product(*self.dims, dim)

    def lacks(self, other: _Product) -> bool:
        """Whether this product needs a further dim to become equal to the other."""
        return self.number < other.number or len(self.symbols) < len(other.symbols)


def _propagate_reshape(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    check_rank(graph, node, perm)
    operand = _known_dims(graph, node, node.inputs[0])
    result = _known_dims(graph, node, node.outputs[0], operand)
    groups = axis_groups(operand, result)
    if groups is None or 0 in (*operand, *result):
        raise NotPermutable(f"{node} depends on the order of its axes")
    position = {axis: index for index, axis in enumerate(axis for axis in perm if operand[axis] != 1)}
    for group in groups:
        positions = [position[axis] for axis in group.operand if axis in position]
        if positions and positions != list(range(positions[0], positions[0] + len(positions))):
            raise NotPermutable(f"{node} joins axes that are not adjacent in the other order")
    order = sorted(groups, key=lambda group: _group_position(group, position, perm))
    out = tuple(axis for group in order for axis in group.result)
    shape = _shape(node, permuted(operand, perm), permuted(result, out))
    attributes = {key: value for key, value in node.attributes.items() if key != "allowzero"}
    return PermutedCall((0,), (or_none(out),), attributes, {1: shape})


def _group_position(group: AxisGroup, position: dict[int, int], perm: Permutation) -> tuple[int, int]:
    """The position of the group in the other order; for a group of size 1, that of its axis."""
    positions = [position[axis] for axis in group.operand if axis in position]
    before = [axis for axis in perm[: perm.index(group.operand[0])] if axis in position]
    return positions[0] if positions else len(before), group.result[0]


def groups_of(graph: Graph, node: Node) -> list[AxisGroup] | None:
    """The groups of a Reshape; None if its shapes do not determine them."""
    try:
        operand = _known_dims(graph, node, node.inputs[0])
        return axis_groups(operand, _known_dims(graph, node, node.outputs[0], operand))
    except NotPermutable:
        return None


def _known_dims(graph: Graph, node: Node, value: str, operand: Dims = ()) -> tuple[int | str, ...]:
    """The dims of `value`, an operand or the result of a Reshape.

    operand: for the result, the dims of the operand; if the products of the other dims are equal, their only symbol
             stands for the result's only dim that is not fixed.
    """
    type_ = graph.tensor_type(value)
    dims = () if type_ is None or type_.shape is None else type_.shape
    symbols = [dim for dim in operand if isinstance(dim, str)]
    not_fixed = [dim for dim in dims if not isinstance(dim, int)]
    if len(symbols) == len(not_fixed) == 1 and _static_product(operand) == _static_product(dims):
        return tuple(dim if isinstance(dim, int) else symbols[0] for dim in dims)
    if not dims or None in dims:
        raise NotPermutable(f"the shape of '{value}', which {node} reshapes, is not known")
    return tuple(dim for dim in dims if dim is not None)


def _static_product(dims: Sequence[int | str | None]) -> int:
    return math.prod(dim for dim in dims if isinstance(dim, int))


def _shape(node: Node, operand: Dims, result: Dims) -> Constant:
    """The shape operand: 0 for a symbolic dim that the operand has at the same axis, -1 for one other."""
    numbers = []
    for index, dim in enumerate(result):
        if isinstance(dim, int):
            numbers.append(dim)
        else:
            numbers.append(0 if index < len(operand) and operand[index] == dim else -1)
    if numbers.count(-1) > 1:
        raise NotPermutable(f"{node} has more than one dim that is not fixed")
    return constant(np.array(numbers, np.int64))


def _propagate_flatten(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """A Flatten stays if it flattens the same axes in the same order; otherwise it becomes a Reshape."""
    check_rank(graph, node, perm)
    shape = graph.shape(node.inputs[0]) or ()
    axis = node.attr("axis")
    split = axis + len(shape) if axis < 0 else axis
    crosses = any(shape[old] != 1 and (old < split) != (new < split) for new, old in enumerate(perm))
    if not crosses and not moves_data(perm, shape):
        return PermutedCall((0,), (None,), {**node.attributes, "axis": split})
    reshaped = _propagate_reshape(graph, node, perm)
    return replace(reshaped, attributes={}, op_type="Reshape")


RESHAPE = Layout("reshape-like", _propagate_reshape, NO_OPERAND)
FLATTEN = Layout("reshape-like", _propagate_flatten, NO_OPERAND)
