"""Convolutions, also transposed ones and those on integers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.ir import Node
from workbench.ops.contract import Call, Types, known_elements, known_shape, operator
from workbench.ops.dtypes import UnsupportedByTorch
from workbench.ops.fusion_kinds import FUSABLE
from workbench.ops.layout_sensitive import CONV_WEIGHTS, layout_sensitive_operator
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER
from workbench.ops.windows import Window, torch_pads


def conv_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
    """Each output element sums over its kernel window and input channels, and adds the bias."""
    weight, elements = known_shape(inputs, 1), known_elements(outputs, 0)
    if weight is None or elements is None:
        return None
    bias = elements if len(inputs) > 2 and inputs[2] is not None else 0
    return 2 * elements * math.prod(weight[1:]) + bias


def _conv_transpose_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
    """Each input element is added, weighted, to its kernel window in every output channel."""
    weight, elements = known_shape(inputs, 1), known_elements(inputs, 0)
    if weight is None or elements is None:
        return None
    bias = known_elements(outputs, 0) if len(inputs) > 2 and inputs[2] is not None and outputs[0] is not None else 0
    return None if bias is None else 2 * elements * math.prod(weight[1:]) + bias


def convolved(call: Call, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The convolution that the node's attributes describe.

    x: [N, C, *D], weight: [M, C / group, *K], bias: [M] -> [N, M, *E]
    """
    spatial = x.shape[2:]
    if len(spatial) not in (1, 2, 3):
        raise UnsupportedByTorch(f"torch convolves over 1 to 3 axes, not {len(spatial)}")
    window = Window.of(call, weight.shape[2:], spatial)
    padding: Sequence[int] = window.begins
    if window.begins != window.ends:
        x = F.pad(x, torch_pads(window.begins, window.ends))
        padding = (0,) * len(spatial)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(spatial) - 1]  # autocast does not know torch.convolution
    return convolve(x, weight, bias, window.strides, padding, window.dilations, call.attr("group", 1))


@layout_sensitive_operator("Conv", category="convolution", fusion=FUSABLE, flops=conv_flops, weights=CONV_WEIGHTS)
def conv(call: Call, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x: [N, C, *D], weight: [M, C / group, *K], bias: [M] -> [N, M, *E]"""
    return convolved(call, x, weight, bias)


@layout_sensitive_operator("ConvTranspose", category="convolution", fusion=FUSABLE, flops=_conv_transpose_flops)
def conv_transpose(call: Call, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x: [N, C, *D], weight: [C, M / group, *K], bias: [M] -> [N, M, *E]"""
    spatial = x.shape[2:]
    rank = len(spatial)
    if rank not in (1, 2, 3):
        raise UnsupportedByTorch(f"torch convolves over 1 to 3 axes, not {rank}")
    window = Window.of(call, weight.shape[2:], spatial)
    extra = tuple(call.attr("output_padding", (0,) * rank))
    begins, ends = _transposed_pads(call, window, spatial, extra)
    group = call.attr("group", 1)
    zeros = (0,) * rank
    fits = all(e < max(s, d) for e, s, d in zip(extra, window.strides, window.dilations, strict=True))
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    if begins == ends and fits:
        return convolve(x, weight, bias, window.strides, begins, extra, group, window.dilations)
    full = convolve(x, weight, None, window.strides, zeros, zeros, group, window.dilations)
    cut = F.pad(full, torch_pads([-b for b in begins], [e - p for e, p in zip(extra, ends, strict=True)]))
    return cut if bias is None else cut + bias.reshape(-1, *(1,) * rank)


def _transposed_pads(
    call: Call, window: Window, spatial: Sequence[int], extra: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How much is cut from the full result, so that it has the size that `output_shape` or `auto_pad` asks for."""
    auto, output_shape = call.attr("auto_pad", "NOTSET"), call.attr("output_shape")
    if output_shape is None and not auto.startswith("SAME"):
        return window.begins, window.ends
    begins, ends = [], []
    for axis, length in enumerate(spatial):
        stride = window.strides[axis]
        out = length * stride if output_shape is None else output_shape[-len(spatial) :][axis]
        total = stride * (length - 1) + extra[axis] + window.extents[axis] - out
        small, large = (total // 2, total - total // 2) if total > 0 else (0, total)
        small_first = auto == "SAME_UPPER" or total < 0  # a result larger than the full one is padded at its end
        begins.append(small if small_first else large)
        ends.append(large if small_first else small)
    return tuple(begins), tuple(ends)


@layout_sensitive_operator("ConvInteger", category="convolution", fusion=FUSABLE, flops=conv_flops)
def conv_integer(
    call: Call,
    x: torch.Tensor,
    weight: torch.Tensor,
    x_zero: torch.Tensor | None = None,
    weight_zero: torch.Tensor | None = None,
) -> torch.Tensor:
    """x: [N, C, *D], weight: [M, C / group, *K], x_zero: [], weight_zero: [] or [M] -> [N, M, *E]"""
    return integer_convolution(call, x, weight, x_zero, weight_zero)


def integer_convolution(
    call: Call,
    x: torch.Tensor,
    weight: torch.Tensor,
    x_zero: torch.Tensor | None,
    weight_zero: torch.Tensor | None,
) -> torch.Tensor:
    """The convolution of x - x_zero with weight - weight_zero in int32, computed in floats that hold all sums exactly.

    x: [N, C, *D], weight: [M, C / group, *K], x_zero: [], weight_zero: [] or [M] -> [N, M, *E]
    """
    terms = math.prod(weight.shape[1:])
    exact = torch.float32 if terms * 255 * 255 < 1 << 24 else torch.float64
    x, weight = x.to(exact), weight.to(exact)
    if x_zero is not None:
        x = x - x_zero.to(exact)
    if weight_zero is not None:
        weight = weight - weight_zero.to(exact).reshape(-1, *(1,) * (weight.dim() - 1))
    return convolved(call, x, weight, None).to(torch.int64).to(torch.int32)  # overflow wraps around


def _col2im_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
    return known_elements(inputs, 0)


@operator("Col2Im", category="movement", layout=LAYOUT_BARRIER, fusion=FUSABLE, flops=_col2im_flops, host_inputs=(1, 2))
def col2im(call: Call, x: torch.Tensor, image: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    """Columns, each a flattened window of P elements, summed at their positions in images of the size `image`.

    x: [N, C * P, L], image: [K], block: [K] -> [N, C, *D]
    """
    window = Window.of(call, block.tolist(), image.tolist())
    size = image.tolist()
    padded = [n + b + e for n, b, e in zip(size, window.begins, window.ends, strict=True)]
    if len(size) == 2:
        folded = F.fold(x, tuple(padded), window.kernel, window.dilations, 0, window.strides)
    else:
        folded = _fold(x, padded, window)
    return F.pad(folded, torch_pads([-b for b in window.begins], [-e for e in window.ends]))


def _fold(x: torch.Tensor, padded: Sequence[int], window: Window) -> torch.Tensor:
    """The columns [N, C * P, L] summed at their positions in the padded images [N, C, *padded]."""
    indices = torch.arange(math.prod(padded), device=x.device).reshape(1, 1, *padded)
    counts = window.counts([n - b - e for n, b, e in zip(padded, window.begins, window.ends, strict=True)], False)
    indices = window.slide(indices, counts).flatten(2 + len(padded)).reshape(-1, math.prod(window.kernel)).t()
    columns = x.reshape(x.shape[0], x.shape[1] // math.prod(window.kernel), indices.numel())
    folded = torch.zeros(*columns.shape[:2], math.prod(padded), dtype=x.dtype, device=x.device)
    return folded.index_add(2, indices.reshape(-1), columns).reshape(*columns.shape[:2], *padded)
