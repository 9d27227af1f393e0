"""The deformable convolution, whose taps are moved by an operand, to coordinates between the elements of the image."""

from __future__ import annotations

import math

from workbench.ir import Node
from workbench.ops.contract import Call, Types, operator
from workbench.ops.convolution import conv_flops
from workbench.ops.dtypes import UnsupportedByTorch
from workbench.ops.fusion_kinds import FUSABLE
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER
from workbench.ops.windows import Window


def _deform_conv_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
    return conv_flops(node, [*inputs[:2], inputs[3] if len(inputs) > 3 else None], outputs)


@operator("DeformConv", category="convolution", layout=LAYOUT_BARRIER, fusion=FUSABLE, flops=_deform_conv_flops)
def deform_conv(
    call: Call,
    x: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    bias: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """A convolution whose taps are moved by offsets (Dai et al. 2017) and weighted by a mask (Zhu et al. 2018).

    x: [N, C, H, W], weight: [M, C / group, R, S], offset: [N, offset_group * R * S * 2, Y, X], bias: [M],
        mask: [N, offset_group * R * S, Y, X] -> [N, M, Y, X]
    """
    if x.dim() != 4:
        raise UnsupportedByTorch("torch samples images of two axes")
    window = Window.of(call, weight.shape[2:], x.shape[2:])
    group, offset_group, counts = call.attr("group"), call.attr("offset_group"), offset.shape[2:]
    batch, images = x.shape[0], x.shape[0] * offset_group
    rows, columns = _moved_taps(window, offset.reshape(images, *window.kernel, 2, *counts))
    sampled = _sampled(x.reshape(images, x.shape[1] // offset_group, *x.shape[2:]), rows, columns)
    if mask is not None:
        sampled = sampled * mask.reshape(images, 1, sampled.shape[2])
    operand = sampled.reshape(batch, group, weight[0].numel(), math.prod(counts))
    y = (weight.reshape(group, weight.shape[0] // group, -1) @ operand).reshape(batch, weight.shape[0], *counts)
    return y if bias is None else y + bias.reshape(-1, 1, 1)


def _moved_taps(window: Window, offset: torch.Tensor) -> list[torch.Tensor]:
    """The row and the column of each tap of each window, in float32 or wider.

    offset: [N, R, S, 2, Y, X] -> rows: [N, R * S * Y * X], columns: [N, R * S * Y * X]
    """
    offset = offset.to(torch.promote_types(offset.dtype, torch.float32))
    coordinates = []
    for axis in (0, 1):
        starts = torch.arange(offset.shape[4 + axis], device=offset.device) * window.strides[axis]
        taps = torch.arange(window.kernel[axis], device=offset.device) * window.dilations[axis]
        view = [1] * 4
        view[axis], view[2 + axis] = taps.numel(), starts.numel()
        unmoved = (taps.unsqueeze(1) + starts - window.begins[axis]).reshape(view)
        coordinates.append((offset[:, :, :, axis] + unmoved).flatten(1))
    return coordinates


def _sampled(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Samples by bilinear interpolation, where the image is 0 outside.

    F.grid_sample scales coordinates to -1 to 1, and so misses integers by a rounding error.

    x: [N, C, H, W], rows: [N, P], columns: [N, P] -> [N, C, P]
    """
    flat, width = x.flatten(2), x.shape[3]
    total = torch.zeros(*flat.shape[:2], rows.shape[1], dtype=rows.dtype, device=x.device)
    for row, row_weight in _sides(rows, x.shape[2]):
        for column, column_weight in _sides(columns, width):
            index = (row * width + column).unsqueeze(1).expand(total.shape)
            total = total + flat.gather(2, index) * (row_weight * column_weight).unsqueeze(1)
    return total.to(x.dtype)


def _sides(coordinates: torch.Tensor, length: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The indices of the elements before and after each coordinate, and their weights."""
    low = coordinates.floor()
    sides = ((low, 1 - (coordinates - low)), (low + 1, coordinates - low))
    return [(i.clamp(0, length - 1).long(), weight * ((i >= 0) & (i < length))) for i, weight in sides]
