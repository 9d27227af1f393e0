"""Layout-sensitive operators, and Resize, on permuted operands.

On channels-last images an operator becomes its channels-last form, a function in the domain "workbench". Spatial axes
may be permuted among themselves: kernels, strides, pads and a constant weight are permuted likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.ir import Constant, Graph, Node, constant
from workbench.ir.permutation import Permutation, channels_first, inverse, is_identity, permuted, permuted_constant
from workbench.ops.channels_last import FUSED_CONVOLUTIONS, IMAGES, OWN_SIGNATURES, WITH_SECOND, channels_last_op
from workbench.ops.permutation.kinds import (
    Layout,
    NotPermutable,
    PermutedCall,
    check_rank,
    constant_operand,
    has_operand,
    remapped,
    with_attributes,
)

# Operators whose spatial axes may be permuted, and the index of the operand that has the kernel's axes; None: there is
# no such operand.
_WEIGHT_INDEX: Mapping[str, int | None] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "ConvInteger"), 1),
    **{f"workbench.{name}": 1 for name in FUSED_CONVOLUTIONS},
    "QLinearConv": 3,
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), None),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LRN"), None),
}
_GIVES_VECTORS = ("BatchNormalization",)  # whose results after the first have one number per channel
_PER_AXIS = ("kernel_shape", "strides", "dilations", "output_padding", "output_shape")


def sensitive_layout(ranks: tuple[int, ...]) -> Layout:
    """The layout of an operator that has a channels-last form for each of these ranks."""

    def propagate_permutation(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
        if len(perm) not in ranks or graph.rank_of(node.inputs[0]) != len(perm):
            raise NotPermutable(f"{node} reads images, which have {_listed(ranks)} axes")
        return _propagate_image(graph, node, perm)

    return Layout("sensitive", propagate_permutation)


def channels_last_layout(
    plain: str, rank: int, images: Sequence[int], gives_image: bool, result: Permutation | None = None
) -> Layout:
    """The layout of the channels-last form of the operator `plain`, which can be converted back to channels first.

    images: indices of operands. result: for a result that is a weight, its permutation to ONNX's order.
    """
    domain, _, op_type = plain.rpartition(".")
    to_first = channels_first(rank)

    def propagate_permutation(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
        if perm != to_first:
            raise NotPermutable(f"{node} supports channels last and channels first, not axes {list(perm)}")
        inputs = tuple(index for index in images if has_operand(node, index))
        results = (perm if gives_image else result,) * len(node.outputs)
        return PermutedCall(inputs, results, op_type=op_type, domain=domain)

    return Layout("sensitive", propagate_permutation)


def _listed(numbers: tuple[int, ...]) -> str:
    return " or ".join(map(str, numbers))


def _propagate_image(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The operator or its channels-last form, with attributes and weight in the order of the spatial axes."""
    rank = len(perm)
    if perm[0] != 0 or 1 not in (perm[1], perm[-1]):
        raise NotPermutable(f"{node} supports channels first and channels last, not axes {list(perm)}")
    images = IMAGES.get(node.op_type, (0,))
    results = tuple(None if index and node.op in _GIVES_VECTORS else perm for index in range(len(node.outputs)))
    order = tuple(axis - 2 for axis in perm if axis >= 2)
    attributes, constants = (None, {}) if is_identity(order) else _with_spatial_axes(graph, node, order)
    if node.op == "MaxUnpool" and not has_operand(node, 2):
        raise NotPermutable(
            f"{node} has no output_shape, without which ONNX Runtime does not run its channels-last form"
        )
    if perm[1] == 1:
        return PermutedCall(images, results, attributes, constants)
    has_second = len([value for value in node.outputs if value]) > 1
    if has_second and node.op_type not in WITH_SECOND:
        raise NotPermutable(f"the channels-last form of {node} has one result, not {len(node.outputs)}")
    domain, op_type = channels_last_op(WITH_SECOND[node.op_type] if has_second else node.op_type, rank)
    return PermutedCall(images, results, attributes, constants, op_type, domain)


def _with_spatial_axes(
    graph: Graph, node: Node, order: Permutation
) -> tuple[dict[str, Any] | None, dict[int, Constant]]:
    """Attributes and constant operands for spatial axes in another order."""
    if node.op not in _WEIGHT_INDEX:
        raise NotPermutable(f"{node} depends on the order of its spatial axes")
    if len([v for v in node.outputs if v]) > 1:
        raise NotPermutable(f"{node} has results that are indices in the order of its axes")
    attributes = {name: permuted(node.attr(name), order) for name in _PER_AXIS if node.attr(name)}
    if node.attr("pads"):
        attributes["pads"] = _permuted_pads(node.attr("pads"), order)
    index = _WEIGHT_INDEX[node.op]
    if index is None:
        return with_attributes(node, **attributes), {}
    tensor = graph.constant(node.inputs[index])
    if tensor is None:
        raise NotPermutable(f"the weight '{node.inputs[index]}' of {node} is computed at runtime")
    return with_attributes(node, **attributes), {
        index: permuted_constant(tensor, (0, 1, *(2 + axis for axis in order)))
    }


def _permuted_pads(pads: Sequence[int], order: Permutation) -> tuple[int, ...]:
    half = len(pads) // 2
    return (*permuted(pads[:half], order), *permuted(pads[half:], order))


def _propagate_own_image(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """As `_propagate_image`, for an operator of the domain "workbench", whose result need not be an image."""
    check_rank(graph, node, perm)
    signature = OWN_SIGNATURES[node.op_type]
    if perm != (0, 2, 3, 1):
        raise NotPermutable(f"{node} supports NCHW and NHWC, not axes {list(perm)}")
    domain, op_type = channels_last_op(node.op_type, 4)
    results = (perm if signature.gives_image else None,)
    return PermutedCall(signature.images, results, op_type=op_type, domain=domain)


# ---- Resize -------------------------------------------------------------------------


def _propagate_resize(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """Numbers per axis are permuted; if the attribute `axes` is given, its axes are mapped instead."""
    _check_interpolated(graph, node, perm)
    axes, position = node.attr("axes"), inverse(perm)
    if axes is not None:
        mapped = tuple(position[axis % len(perm)] for axis in axes)
        return PermutedCall((0,), (perm,), with_attributes(node, axes=mapped))
    constants = {}
    for index in (1, 2, 3):
        numbers = constant_operand(graph, node, index)
        if numbers is None or not numbers.size:
            continue
        ends = numbers.reshape(-1, len(perm))  # roi has starts and ends
        constants[index] = constant(np.ascontiguousarray(ends[:, list(perm)].reshape(-1)))
    return PermutedCall((0,), (perm,), constants=constants)


def _check_interpolated(graph: Graph, node: Node, perm: Permutation) -> None:
    """Refuse axes over which ONNX Runtime cannot interpolate.

    It can over the last two, of images with linear interpolation also over axes 1 and 2.
    """
    mode = node.attr("mode")
    if mode == "nearest" or len(perm) < 3:
        return
    supported = [{len(perm) - 2, len(perm) - 1}]
    if mode == "linear" and len(perm) == 4:
        supported.append({1, 2})
    resized = _resized_axes(graph, node, len(perm))
    axes = {index for index, axis in enumerate(perm) if axis in resized}
    if not any(axes <= group for group in supported):
        raise NotPermutable(f"{node} would interpolate over axes {sorted(axes)}, which ONNX Runtime does not support")


def _resized_axes(graph: Graph, node: Node, rank: int) -> set[int]:
    """Axes whose length changes or may change."""
    axes = node.attr("axes")
    if axes is not None:
        return {axis % rank for axis in axes}
    scales, sizes = (graph.constant(node.inputs[i]) if has_operand(node, i) else None for i in (2, 3))
    if scales is not None and scales.size == rank:
        return {axis for axis, scale in enumerate(scales.numpy()) if scale != 1}
    shape = graph.shape(node.inputs[0])
    if sizes is None or shape is None:
        return set(range(rank))
    return {axis for axis, (old, new) in enumerate(zip(shape, sizes.numpy(), strict=True)) if old != new}


OWN_SENSITIVE = Layout("sensitive", _propagate_own_image)
RESIZE = remapped(_propagate_resize)
