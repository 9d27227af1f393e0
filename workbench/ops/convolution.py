"""Convolutions, also transposed ones and those on integers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.ops.contract import Call, operator
from workbench.ops.dtypes import CannotRun
from workbench.ops.fusion_kinds import FUSABLE
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import BARRIER
from workbench.ops.sensitive import CONV_WEIGHTS, sensitive
from workbench.ops.windows import Window, torch_pads


def conv_flops(node, inputs, outputs):
    """Each output element sums over its kernel window and input channels, and adds the bias."""
    weight = inputs[1].static_shape if inputs[1] is not None else None
    elements = outputs[0].elements if outputs[0] is not None else None
    if weight is None or elements is None:
        return None
    bias = elements if len(inputs) > 2 and inputs[2] is not None else 0
    return 2 * elements * math.prod(weight[1:]) + bias


def _conv_transpose_flops(node, inputs, outputs):
    """Each input element is added, weighted, to its kernel window in every output channel."""
    weight = inputs[1].static_shape if inputs[1] is not None else None
    elements = inputs[0].elements if inputs[0] is not None else None
    if weight is None or elements is None:
        return None
    bias = outputs[0].elements if len(inputs) > 2 and inputs[2] is not None and outputs[0] is not None else 0
    return None if bias is None else 2 * elements * math.prod(weight[1:]) + bias


def convolved(call: Call, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The convolution that the node's attributes describe."""
    spatial = x.shape[2:]
    if len(spatial) not in (1, 2, 3):
        raise CannotRun(f"torch convolves over 1 to 3 axes, not {len(spatial)}")
    window = Window.of(call, weight.shape[2:], spatial)
    padding: Sequence[int] = window.begins
    if window.begins != window.ends:
        x = F.pad(x, torch_pads(window.begins, window.ends))
        padding = (0,) * len(spatial)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(spatial) - 1]  # autocast does not know torch.convolution
    return convolve(x, weight, bias, window.strides, padding, window.dilations, call.attr("group", 1))


@sensitive("Conv", category="convolution", fusion=FUSABLE, flops=conv_flops, weights=CONV_WEIGHTS)
def conv(call, x, weight, bias=None):
    return convolved(call, x, weight, bias)


@sensitive("ConvTranspose", category="convolution", fusion=FUSABLE, flops=_conv_transpose_flops)
def conv_transpose(call, x, weight, bias=None):
    spatial = x.shape[2:]
    rank = len(spatial)
    if rank not in (1, 2, 3):
        raise CannotRun(f"torch convolves over 1 to 3 axes, not {rank}")
    window = Window.of(call, weight.shape[2:], spatial)
    extra = tuple(call.attr("output_padding", (0,) * rank))
    begins, ends = _transposed_pads(call, window, spatial, extra)
    group = call.attr("group", 1)
    none = (0,) * rank
    fits = all(e < max(s, d) for e, s, d in zip(extra, window.strides, window.dilations, strict=True))
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    if begins == ends and fits:
        return convolve(x, weight, bias, window.strides, begins, extra, group, window.dilations)
    full = convolve(x, weight, None, window.strides, none, none, group, window.dilations)
    cut = F.pad(full, torch_pads([-b for b in begins], [e - p for e, p in zip(extra, ends, strict=True)]))
    return cut if bias is None else cut + bias.reshape(-1, *(1,) * rank)


def _transposed_pads(
    call: Call, window: Window, spatial: Sequence[int], extra: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How much is cut from the full result, so that it has the size that `output_shape` or `auto_pad` asks for."""
    auto, wanted = call.attr("auto_pad", "NOTSET"), call.attr("output_shape")
    if wanted is None and not auto.startswith("SAME"):
        return window.begins, window.ends
    begins, ends = [], []
    for axis, length in enumerate(spatial):
        stride = window.strides[axis]
        out = length * stride if wanted is None else wanted[-len(spatial) :][axis]
        total = stride * (length - 1) + extra[axis] + window.extents[axis] - out
        small, large = (total // 2, total - total // 2) if total > 0 else (0, total)
        small_first = auto == "SAME_UPPER" or total < 0  # a result larger than the full one is padded at its end
        begins.append(small if small_first else large)
        ends.append(large if small_first else small)
    return tuple(begins), tuple(ends)


@sensitive("ConvInteger", category="convolution", fusion=FUSABLE, flops=conv_flops)
def conv_integer(call, x, weight, x_zero=None, weight_zero=None):
    return integer_convolution(call, x, weight, x_zero, weight_zero)


def integer_convolution(
    call: Call,
    x: torch.Tensor,
    weight: torch.Tensor,
    x_zero: torch.Tensor | None,
    weight_zero: torch.Tensor | None,
) -> torch.Tensor:
    """The exact int32 result, computed in floats that hold every partial sum exactly."""
    terms = math.prod(weight.shape[1:])
    exact = torch.float32 if terms * 255 * 255 < 1 << 24 else torch.float64
    x, weight = x.to(exact), weight.to(exact)
    if x_zero is not None:
        x = x - x_zero.to(exact)
    if weight_zero is not None:
        weight = weight - weight_zero.to(exact).reshape(-1, *(1,) * (weight.dim() - 1))
    return convolved(call, x, weight, None).to(torch.int64).to(torch.int32)  # overflow wraps around


def _col2im_flops(node, inputs, outputs):
    return None if inputs[0] is None else inputs[0].elements


@operator("Col2Im", category="movement", layout=BARRIER, fusion=FUSABLE, flops=_col2im_flops, host_inputs=(1, 2))
def col2im(call, x, image, block):
    window = Window.of(call, block.tolist(), image.tolist())
    size = image.tolist()
    padded = [n + b + e for n, b, e in zip(size, window.begins, window.ends, strict=True)]
    if len(size) == 2:
        folded = F.fold(x, tuple(padded), window.kernel, window.dilations, 0, window.strides)
    else:
        folded = _fold(x, padded, window)
    return F.pad(folded, torch_pads([-b for b in window.begins], [-e for e in window.ends]))


def _fold(x: torch.Tensor, padded: Sequence[int], window: Window) -> torch.Tensor:
    """The elements of all windows, [N, C * kernel, windows], summed at their positions in [N, C, padded...]."""
    places = torch.arange(math.prod(padded), device=x.device).reshape(1, 1, *padded)
    counts = window.counts([n - b - e for n, b, e in zip(padded, window.begins, window.ends, strict=True)], False)
    slid = window.slide(places, counts).flatten(2 + len(padded)).reshape(-1, math.prod(window.kernel)).t()
    columns = x.reshape(x.shape[0], x.shape[1] // math.prod(window.kernel), slid.numel())
    folded = torch.zeros(*columns.shape[:2], math.prod(padded), dtype=x.dtype, device=x.device)
    return folded.index_add(2, slid.reshape(-1), columns).reshape(*columns.shape[:2], *padded)
