"""Pools: maximum, average and p-norm of windows or whole images, and unpooling."""

from __future__ import annotations

import math

from workbench.ir import Node
from workbench.ops.contract import Call, Types, known_elements, per_input
from workbench.ops.fusion_kinds import FUSABLE, OPAQUE
from workbench.ops.layout_sensitive import layout_sensitive_operator
from workbench.ops.lazy import F, torch
from workbench.ops.windows import Window, torch_pads


def pool_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
    """One operation for each output element and tap of the kernel."""
    elements = known_elements(outputs, 0)
    return None if elements is None else elements * math.prod(node.attr("kernel_shape"))


def _lowest(dtype: torch.dtype) -> float:
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


@layout_sensitive_operator("MaxPool", category="pooling", fusion=FUSABLE, flops=pool_flops)
def max_pool(call: Call, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """x: [N, C, *D] -> y: [N, C, *E], indices: [N, C, *E]"""
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
    """x: [N, C, *D] -> [N, C, *counts]. dtype: whose lowest number is the padding."""
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
    """The largest elements and their indices in the flattened x, of equal elements the first.

    x: [N, C, *D] -> y: [N, C, *counts], indices: [N, C, *counts]
    """
    spatial, rank = x.shape[2:], x.dim() - 2
    ends = [e + o for e, o in zip(window.ends, window.overhang(spatial, counts), strict=True)]
    pads = torch_pads(window.begins, ends)
    floats = x if x.dtype.is_floating_point else x.to(torch.float64)
    values = window.slide(F.pad(floats, pads, value=-math.inf), counts).flatten(2 + rank)
    positions = torch.arange(math.prod(spatial), device=x.device)
    if call.attr("storage_order", 0) == 1:
        positions = positions.reshape(tuple(reversed(spatial))).permute(*reversed(range(rank)))
    positions = window.slide(F.pad(positions.reshape(1, 1, *spatial), pads, value=-1), counts).flatten(2 + rank)
    largest = values.amax(-1, keepdim=True)
    is_largest = ((values == largest) | values.isnan()) & (positions >= 0)  # not in the padding, even if all are -inf
    index = positions.expand(values.shape).gather(-1, is_largest.byte().argmax(-1, keepdim=True)).squeeze(-1)
    planes = torch.arange(x.shape[0] * x.shape[1], device=x.device).reshape(*x.shape[:2], *(1,) * rank)
    return largest.squeeze(-1).to(x.dtype), index + planes * math.prod(spatial)


@layout_sensitive_operator("AveragePool", category="pooling", fusion=FUSABLE, flops=pool_flops)
def average_pool(call: Call, x: torch.Tensor) -> torch.Tensor:
    """x: [N, C, *D] -> [N, C, *E]"""
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
    overhang_pads = torch_pads((0,) * len(spatial), overhang)
    ones = F.pad(torch.ones((1, 1, *spatial), dtype=x.dtype, device=x.device), pads, value=float(include))
    divisor = window.slide(F.pad(ones, overhang_pads), counts).sum(kernel_axes)
    return window.slide(F.pad(F.pad(x, pads), overhang_pads), counts).sum(kernel_axes) / divisor


@layout_sensitive_operator("LpPool", category="pooling", fusion=FUSABLE, flops=pool_flops)
def lp_pool(call: Call, x: torch.Tensor) -> torch.Tensor:
    """x: [N, C, *D] -> [N, C, *E]"""
    spatial = x.shape[2:]
    p: int = call.attr("p", 2)
    window = Window.of(call, call.attr("kernel_shape"), spatial)
    counts = window.counts(spatial, bool(call.attr("ceil_mode", 0)))
    ends = [e + o for e, o in zip(window.ends, window.overhang(spatial, counts), strict=True)]
    powers = F.pad(x.abs() ** p, torch_pads(window.begins, ends))
    return window.slide(powers, counts).sum(tuple(range(-len(spatial), 0))) ** (1.0 / p)


def _spatial_axes(x: torch.Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.dim()))


@layout_sensitive_operator("GlobalAveragePool", category="pooling", fusion=FUSABLE, flops=per_input(1))
def global_average_pool(call: Call, x: torch.Tensor) -> torch.Tensor:
    """Each spatial axis becomes 1.

    x: [N, C, *D] -> [N, C, *E]
    """
    return x.mean(_spatial_axes(x), keepdim=True)


@layout_sensitive_operator("GlobalMaxPool", category="pooling", fusion=FUSABLE, flops=per_input(1))
def global_max_pool(call: Call, x: torch.Tensor) -> torch.Tensor:
    """Each spatial axis becomes 1.

    x: [N, C, *D] -> [N, C, *E]
    """
    return x.amax(_spatial_axes(x), keepdim=True)


@layout_sensitive_operator("GlobalLpPool", category="pooling", fusion=FUSABLE, flops=per_input(2))
def global_lp_pool(call: Call, x: torch.Tensor) -> torch.Tensor:
    """Each spatial axis becomes 1.

    x: [N, C, *D] -> [N, C, *E]
    """
    norm: torch.Tensor = torch.linalg.vector_norm(x, call.attr("p", 2), _spatial_axes(x), keepdim=True)
    return norm


@layout_sensitive_operator("MaxUnpool", category="pooling", fusion=OPAQUE, host_inputs=(2,))
def max_unpool(
    call: Call, x: torch.Tensor, indices: torch.Tensor, output_shape: torch.Tensor | None = None
) -> torch.Tensor:
    """Each element at its index in the flattened result, zeros elsewhere.

    x: [N, C, *D], indices: [N, C, *D], output_shape: [K] -> [N, C, *E]
    """
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
