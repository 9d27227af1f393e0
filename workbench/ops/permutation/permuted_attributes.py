"""Operators that accept permuted operands if their attributes and small operands are permuted likewise."""

from __future__ import annotations

import numpy as np

from workbench.ir import Constant, Graph, Node, constant
from workbench.ir.permutation import (
    Permutation,
    channels_first,
    channels_last,
    drop_axes,
    identity,
    inverse,
    perm_of,
    permuted,
)
from workbench.ops.permutation.kinds import (
    ALL_OPERANDS,
    FIRST_OPERAND,
    NO_OPERAND,
    Layout,
    NotPermutable,
    PermutedCall,
    aligned,
    constant_numbers,
    constant_operand,
    has_operand,
    int64,
    remapped,
    with_attributes,
    without_axes,
)


def _propagate_axis(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The attribute `axis` is mapped (Softmax, Split, TopK, ...)."""
    axis = node.attr("axis") % len(perm)
    return PermutedCall((0,), (perm,) * len(node.outputs), with_attributes(node, axis=inverse(perm)[axis]))


def _propagate_axis_of_all(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The attribute `axis` is mapped; all operands have the same axes (Concat, GatherElements, ...)."""
    axis = node.attr("axis") % len(perm)
    inputs = tuple(index for index, value in enumerate(node.inputs) if value)
    return PermutedCall(inputs, (perm,), with_attributes(node, axis=inverse(perm)[axis]))


def _propagate_axes(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The attribute `axes` is mapped; if it is omitted and has no default, these are all axes."""
    axes = node.attr("axes") or identity(len(perm))
    position = inverse(perm)
    return PermutedCall((0,), (perm,), with_attributes(node, axes=tuple(position[axis % len(perm)] for axis in axes)))


def _propagate_axis_operand(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The axis is the second operand (CumSum)."""
    axis = constant_operand(graph, node, 1)
    if axis is None:
        raise NotPermutable(f"{node} names no axis")
    mapped = np.full(axis.shape, inverse(perm)[int(axis.item()) % len(perm)], axis.dtype)
    return PermutedCall((0,), (perm,), constants={1: constant(mapped)})


def _propagate_quantize(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The attribute `axis` is mapped if there is a scale for each index; scales of blocks are permuted too."""
    scale_rank = graph.rank_of(node.inputs[1])
    if scale_rank is None:
        raise NotPermutable(f"the rank of '{node.inputs[1]}', the scale of {node}, is not known")
    if scale_rank == 0:
        return PermutedCall((0,), (perm,))
    attributes = with_attributes(node, axis=inverse(perm)[node.attr("axis") % len(perm)])
    if not node.attr("block_size"):
        return PermutedCall((0,), (perm,), attributes)
    return PermutedCall(tuple(i for i, v in enumerate(node.inputs) if v), (perm,), attributes)  # one scale per block


def _axes_operand(graph: Graph, node: Node) -> list[int] | None:
    return constant_numbers(graph, node, 1)


def _propagate_reduce(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The operand `axes` is mapped; if it is empty or omitted, the node reduces all axes or none."""
    axes = _axes_operand(graph, node)
    rank, position = len(perm), inverse(perm)
    if not axes and node.attr("noop_with_empty_axes"):
        return PermutedCall((0,), (perm,))
    reduced = {a % rank for a in axes} if axes else set(range(rank))
    constants = {1: int64(sorted(position[a] for a in reduced))} if axes else {}
    if node.attr("keepdims") == 1:
        return PermutedCall((0,), (perm,), constants=constants)
    return PermutedCall((0,), (without_axes(perm, reduced),), constants=constants)


def _propagate_squeeze(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The operand `axes` is mapped; if it is omitted, these are the axes of size 1."""
    axes = _axes_operand(graph, node)
    if axes is None:
        return PermutedCall((0,), (without_axes(perm, _axes_of_size_1(graph, node)),))
    removed = {a % len(perm) for a in axes}
    position = inverse(perm)
    axes_left = without_axes(perm, removed)
    return PermutedCall((0,), (axes_left,), constants={1: int64(sorted(position[a] for a in removed))})


def _axes_of_size_1(graph: Graph, node: Node) -> set[int]:
    shape = graph.shape(node.inputs[0]) or ()
    if not all(isinstance(dim, int) for dim in shape):
        raise NotPermutable(f"{node} names no axes, and its operand has a dim that is not fixed")
    return {axis for axis, dim in enumerate(shape) if dim == 1}


def _propagate_unsqueeze(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The operand `axes` is mapped to where the new axes are in the permuted result."""
    axes = _axes_operand(graph, node)
    if axes is None:
        raise NotPermutable(f"{node} names no axes")
    rank = len(perm) + len(axes)
    out = _with_new_axes(perm, {axis % rank for axis in axes})
    position = inverse(out)
    return PermutedCall((0,), (out,), constants={1: int64(sorted(position[axis % rank] for axis in axes))})


def _with_new_axes(perm: Permutation, new: set[int]) -> Permutation:
    """The permutation of a result that has the axes `new` besides the operand's, which are permuted by `perm`.

    New axes are inserted so that the result is channels last, or channels first, if possible; else they are not moved.
    """
    rank = len(perm) + len(new)
    for order in (channels_last(rank), channels_first(rank)):
        if drop_axes(order, new) == perm:
            return order
    old = [axis for axis in range(rank) if axis not in new]
    permuted_axes = iter(old[axis] for axis in perm)
    return tuple(axis if axis in new else next(permuted_axes) for axis in range(rank))


def _propagate_one_hot(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The classes are a new axis."""
    axis = node.attr("axis") % (len(perm) + 1)
    out = _with_new_axes(perm, {axis})
    return PermutedCall((0,), (out,), with_attributes(node, axis=inverse(out)[axis]))


def _propagate_arg(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The attribute `axis` is mapped; the result may lack it (ArgMax, ArgMin)."""
    axis = node.attr("axis") % len(perm)
    out = perm if node.attr("keepdims") == 1 else without_axes(perm, {axis})
    return PermutedCall((0,), (out,), with_attributes(node, axis=inverse(perm)[axis]))


def _propagate_pad(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The operand `axes` is mapped; if it is omitted, the pads, which are then of all axes, are permuted."""
    axes = constant_numbers(graph, node, 3)
    if axes is not None:
        return PermutedCall((0,), (perm,), constants={3: int64([inverse(perm)[a % len(perm)] for a in axes])})
    pads = constant_numbers(graph, node, 1)
    if pads is None:
        raise NotPermutable(f"{node} has no pads")
    rank = len(perm)
    begins, ends = permuted(pads[:rank], perm), permuted(pads[rank:], perm)
    return PermutedCall((0,), (perm,), constants={1: int64([*begins, *ends])})


def _propagate_slice(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The operand `axes` is mapped; if it is omitted, it is added, with as many of the first axes as have starts."""
    axes = constant_operand(graph, node, 3)
    if axes is None:
        starts = graph.tensor_type(node.inputs[1])
        if starts is None or starts.static_shape is None:
            raise NotPermutable(f"{node} names no axes, and the number of its starts is not known")
        axes = np.arange(starts.static_shape[0], dtype=starts.dtype.numpy())
    position = inverse(perm)
    mapped = np.array([position[int(a) % len(perm)] for a in axes], axes.dtype)  # with the type of starts and ends
    return PermutedCall((0,), (perm,), constants={3: constant(mapped)})


def _propagate_transpose(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """A Transpose undoes the permutation too; its result is unchanged."""
    node_perm = perm_of(graph, node)
    assert node_perm is not None  # the rank is that of `perm`
    position = inverse(perm)
    return PermutedCall((0,), (None,), with_attributes(node, perm=tuple(position[axis] for axis in node_perm)))


def _propagate_expand(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """Axes that the shape adds come first, and are not moved."""
    shape = constant_numbers(graph, node, 1)
    if shape is None:
        raise NotPermutable(f"{node} has no shape")
    shape = [1] * (len(perm) - len(shape)) + shape
    added = len(shape) - len(perm)
    out = (*range(added), *(added + axis for axis in perm))
    return PermutedCall((0,), (out,), constants={1: int64(permuted(shape, out))})


def _propagate_tile(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The repeats, one for each axis, are permuted."""
    repeats = constant_numbers(graph, node, 1)
    if repeats is None:
        raise NotPermutable(f"{node} has no repeats")
    return PermutedCall((0,), (perm,), constants={1: int64(permuted(repeats, perm))})


def trailing_norm(images: tuple[int, ...], parameters: tuple[int, ...]) -> Layout:
    """The layout of a normalization of the last axes, which must stay last.

    images: indices of operands that have the axes of the results. parameters: of those that have the normalized axes.
    """

    def propagate_permutation(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
        first = node.attr("axis", -1) % len(perm)
        if min(perm[first:]) < first:
            raise NotPermutable(f"{node} normalizes the axes from {first} on, which would not be the last")
        order = tuple(axis - first for axis in perm[first:])
        constants = {}
        for index in parameters:
            if has_operand(node, index):
                parameter = _parameter(graph, node, index, order)
                if parameter is not None:
                    constants[index] = parameter
        results = (perm,) * len(node.outputs)
        return PermutedCall(images, results, with_attributes(node, axis=first), constants)

    return remapped(propagate_permutation, FIRST_OPERAND if images == (0,) else ALL_OPERANDS)


def _parameter(graph: Graph, node: Node, index: int, order: Permutation) -> Constant | None:
    """The scale or the bias with its axes in `order`; None if it can stay as it is."""
    value = node.inputs[index]
    rank = graph.rank_of(value)
    if rank is None or rank > len(order):
        raise NotPermutable(f"operand '{value}' of {node} has more axes than are normalized")
    if order == identity(len(order)):
        return None
    tensor = graph.constant(value)
    if tensor is None:
        raise NotPermutable(f"operand '{value}' of {node} is computed at runtime")
    return aligned(tensor, order)


def _propagate_shape(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The sizes of axes that are still adjacent and in order are a slice; others are gathered from all sizes."""
    axes = range(len(perm))[slice(node.attr("start"), node.attr("end"))]
    positions = tuple(inverse(perm)[axis] for axis in axes)
    first = positions[0] if positions else 0
    if positions == tuple(range(first, first + len(positions))):
        return PermutedCall((0,), (None,), with_attributes(node, start=first, end=first + len(positions)))
    attributes = {name: value for name, value in node.attributes.items() if name not in ("start", "end")}
    return PermutedCall((0,), (None,), attributes, picks=positions)


def _propagate_triangle(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """Trilu keeps a triangle of the last two axes; if they are swapped, the other triangle."""
    rank = len(perm)
    if rank >= 2 and perm[-2:] == (rank - 2, rank - 1):
        return PermutedCall((0,), (perm,))
    if rank < 2 or perm[-2:] != (rank - 1, rank - 2):
        raise NotPermutable(f"{node} keeps a triangle of the last two axes, which would not be the last")
    diagonal = constant_operand(graph, node, 1)
    constants = {} if diagonal is None else {1: constant(-diagonal)}
    return PermutedCall((0,), (perm,), with_attributes(node, upper=1 - node.attr("upper")), constants)


def _propagate_eye(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """Ones on a diagonal of a matrix; the transposed matrix has them on the mirrored diagonal."""
    diagonal = node.attr("k")
    return PermutedCall((0,), (perm,), with_attributes(node, k=diagonal if perm == (0, 1) else -diagonal))


def _propagate_compress(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The attribute `axis` is mapped; without it, elements are selected by their order in memory."""
    axis = node.attr("axis")
    if axis is None:
        raise NotPermutable(f"{node} selects elements by their order in memory")
    return PermutedCall((0,), (perm,), with_attributes(node, axis=inverse(perm)[axis % len(perm)]))


CONCAT = remapped(_propagate_axis_of_all, ALL_OPERANDS)
ALONG_ELEMENTS = remapped(_propagate_axis_of_all, ALL_OPERANDS)
SOFTMAX = remapped(_propagate_axis)
LP_NORM = remapped(_propagate_axis)
TOP_K = remapped(_propagate_axis)
SPLIT = remapped(_propagate_axis)
MEAN_VARIANCE = remapped(_propagate_axes)
CROP = remapped(_propagate_axes)
CUMULATIVE = remapped(_propagate_axis_operand)
QUANTIZE = remapped(_propagate_quantize)
REDUCE = remapped(_propagate_reduce)
SQUEEZE = remapped(_propagate_squeeze)
UNSQUEEZE = remapped(_propagate_unsqueeze)
ONE_HOT = remapped(_propagate_one_hot)
ARG = remapped(_propagate_arg)
PAD = remapped(_propagate_pad)
SLICE = remapped(_propagate_slice)
TRANSPOSE = remapped(_propagate_transpose)
EXPAND = remapped(_propagate_expand)
TILE = remapped(_propagate_tile)
TRAILING_NORM = trailing_norm((0,), (1, 2))
SHAPE = remapped(_propagate_shape, NO_OPERAND)
TRIANGLE = remapped(_propagate_triangle)
EYE = remapped(_propagate_eye)
COMPRESS = remapped(_propagate_compress)
