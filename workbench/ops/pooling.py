"""Pools: maximum, average and p-norm of windows or whole images, and unpooling."""

from __future__ import annotations

import math

from workbench.ops.contract import Call, per_input
from workbench.ops.fusion_kinds import FUSABLE, OPAQUE
from workbench.ops.lazy import F, torch
from workbench.ops.sensitive import sensitive
from workbench.ops.windows import Window, torch_pads


def pool_flops(node, inputs, outputs):
    elements = outputs[0].elements if outputs[0] is not None else None
    return None if elements is None else elements * math.prod(node.attr("kernel_shape"))


def _lowest(dtype: torch.dtype) -> float:
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


@sensitive("MaxPool", category="pooling", fusion=FUSABLE, flops=pool_flops)
def max_pool(call, x):
    spatial = x.shape[2:]
    window = Window.of(call, call.attr("kernel_shape"), spatial)
    counts = window.counts(spatial, bool(call.attr("ceil_mode", 0)))
    with_indices = len(call.node.outputs) > 1
    if not x.dtype.is_floating_point and not with_indices:
        return max_pool_floats(window, counts, x.float(), torch.float32).to(x.dtype)
    if not with_indices:
        return max_pool_floats(window, counts, x, x.dtype)
    return _max_pool_indices(call, window, counts, x)


def max_pool_floats(window: Window, counts: tuple[int, ...], x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    spatial = x.shape[2:]
    overhang = window.overhang(spatial, counts)
    padding = window.begins
    small = all(2 * b <= k for b, k in zip(window.begins, window.kernel, strict=True))
    if window.begins != window.ends or any(overhang) or not small:
        ends = [e + o for e, o in zip(window.ends, overhang, strict=True)]
        x = F.pad(x, torch_pads(window.begins, ends), value=_lowest(dtype))
        padding = (0,) * len(spatial)
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(spatial) - 1]
    return pool(x, window.kernel, window.strides, padding, window.dilations)


def _max_pool_indices(
    call: Call, window: Window, counts: tuple[int, ...], x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest elements and their indices in the flattened input; the first of equal elements."""
    spatial, rank = x.shape[2:], x.dim() - 2
    ends = [e + o for e, o in zip(window.ends, window.overhang(spatial, counts), strict=True)]
    pads = torch_pads(window.begins, ends)
    floats = x if x.dtype.is_floating_point else x.to(torch.float64)
    values = window.slide(F.pad(floats, pads, value=-math.inf), counts).flatten(2 + rank)
    places = torch.arange(math.prod(spatial), device=x.device)
    if call.attr("storage_order", 0) == 1:
        places = places.reshape(tuple(reversed(spatial))).permute(*reversed(range(rank)))
    slid = window.slide(F.pad(places.reshape(1, 1, *spatial), pads, value=-1), counts).flatten(2 + rank)
    largest = values.amax(-1, keepdim=True)
    result = ((values == largest) | values.isnan()) & (slid >= 0)  # -inf is found in the image, not in the padding
    index = slid.expand(values.shape).gather(-1, result.byte().argmax(-1, keepdim=True)).squeeze(-1)
    planes = torch.arange(x.shape[0] * x.shape[1], device=x.device).reshape(*x.shape[:2], *(1,) * rank)
    return largest.squeeze(-1).to(x.dtype), index + planes * math.prod(spatial)


@sensitive("AveragePool", category="pooling", fusion=FUSABLE, flops=pool_flops)
def average_pool(call, x):
    spatial = x.shape[2:]
    window = Window.of(call, call.attr("kernel_shape"), spatial)
    counts = window.counts(spatial, bool(call.attr("ceil_mode", 0)))
    overhang = window.overhang(spatial, counts)
    include = bool(call.attr("count_include_pad", 0))
    plain = window.begins == window.ends and not any(overhang) and set(window.dilations) == {1}
    small = all(2 * b <= k for b, k in zip(window.begins, window.kernel, strict=True))
    if plain and small and len(spatial) <= 3:
        pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(spatial) - 1]
        return pool(x, window.kernel, window.strides, window.begins, False, include)
    kernel_axes = tuple(range(-len(spatial), 0))
    pads = torch_pads(window.begins, window.ends)
    beyond = torch_pads((0,) * len(spatial), overhang)
    ones = F.pad(torch.ones((1, 1, *spatial), dtype=x.dtype, device=x.device), pads, value=float(include))
    share = window.slide(F.pad(ones, beyond), counts).sum(kernel_axes)
    return window.slide(F.pad(F.pad(x, pads), beyond), counts).sum(kernel_axes) / share


@sensitive("LpPool", category="pooling", fusion=FUSABLE, flops=pool_flops)
def lp_pool(call, x):
    spatial, p = x.shape[2:], call.attr("p", 2)
    window = Window.of(call, call.attr("kernel_shape"), spatial)
    counts = window.counts(spatial, bool(call.attr("ceil_mode", 0)))
    ends = [e + o for e, o in zip(window.ends, window.overhang(spatial, counts), strict=True)]
    powers = F.pad(x.abs() ** p, torch_pads(window.begins, ends))
    return window.slide(powers, counts).sum(tuple(range(-len(spatial), 0))) ** (1.0 / p)


def _spatial_axes(x: torch.Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.dim()))


@sensitive("GlobalAveragePool", category="pooling", fusion=FUSABLE, flops=per_input(1))
def global_average_pool(call, x):
    return x.mean(_spatial_axes(x), keepdim=True)


@sensitive("GlobalMaxPool", category="pooling", fusion=FUSABLE, flops=per_input(1))
def global_max_pool(call, x):
    return x.amax(_spatial_axes(x), keepdim=True)


@sensitive("GlobalLpPool", category="pooling", fusion=FUSABLE, flops=per_input(2))
def global_lp_pool(call, x):
    return torch.linalg.vector_norm(x, call.attr("p", 2), _spatial_axes(x), keepdim=True)


@sensitive("MaxUnpool", category="pooling", fusion=OPAQUE, host_inputs=(2,))
def max_unpool(call, x, indices, output_shape=None):
    """Indices refer to the flattened result of the shape that the attributes imply, then put into `output_shape`."""
    rank = x.dim() - 2
    kernel = call.attr("kernel_shape")
    strides = call.attr("strides", (1,) * rank)
    pads = call.attr("pads", (0,) * 2 * rank)
    implied = [
        (n - 1) * s - pads[i] - pads[rank + i] + k
        for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
    ]
    shape = [*x.shape[:2], *implied] if output_shape is None else output_shape.tolist()
    flat = torch.zeros(math.prod(shape), dtype=x.dtype, device=x.device)
    return flat.scatter(0, indices.flatten(), x.flatten()).reshape(shape)
