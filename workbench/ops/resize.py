"""Resize, and sampling of images at given coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.dtypes import UnsupportedByTorch
from workbench.ops.fusion_kinds import FUSABLE, if_nearest
from workbench.ops.layout_sensitive import layout_sensitive_operator
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER
from workbench.ops.permuted_images import RESIZE


@dataclass(frozen=True)
class _Axis:
    """How one axis is resized, from `length` to `result`; start and end bound the part that is read, in lengths."""

    axis: int
    length: int
    result: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@operator("Resize", category="movement", layout=RESIZE, fusion=if_nearest, flops=per_output(1), host_inputs=(1, 2, 3))
def resize(
    call: Call,
    x: torch.Tensor,
    roi: torch.Tensor | None = None,
    scales: torch.Tensor | None = None,
    sizes: torch.Tensor | None = None,
) -> torch.Tensor:
    """Resize axis by axis, since interpolation is separable.

    x: [*D], roi: [2 * K], scales: [K], sizes: [K] -> [*E]
    """
    axes = [a for a in _axes(call, x, roi, scales, sizes) if not _unchanged(call, a)]
    if not axes:
        return x
    fast = _interpolated(call, x, axes)
    if fast is not None:
        return fast
    dtype, outside = x.dtype, None
    if call.attr("mode") != "nearest":
        x = x.to(torch.promote_types(dtype, torch.float32))
    for axis in axes:
        x = _resampled(call, x, axis)
        if call.attr("coordinate_transformation_mode") == "tf_crop_and_resize":
            view = [1] * x.dim()
            view[axis.axis] = -1
            outside_axis = call.cached_tensor((axis, "outside"), partial(_outside, call, axis)).reshape(view)
            outside = outside_axis if outside is None else outside | outside_axis
    if outside is not None:
        value = call.attr("extrapolation_value")
        x = torch.where(outside, torch.full((), value, dtype=x.dtype, device=x.device), x)
    if not dtype.is_floating_point and x.dtype != dtype:
        limits = torch.iinfo(dtype)
        x = x.round().clamp(limits.min, limits.max)
    return x.to(dtype)


def _axes(
    call: Call,
    x: torch.Tensor,
    roi: torch.Tensor | None,
    scales: torch.Tensor | None,
    sizes: torch.Tensor | None,
) -> list[_Axis]:
    resized = [a % x.dim() for a in call.attr("axes") or range(x.dim())]
    lengths = [x.shape[a] for a in resized]
    if sizes is not None and sizes.numel():
        results = [int(n) for n in sizes.tolist()]
        ratios = [r / n if n else 1.0 for r, n in zip(results, lengths, strict=True)]
        policy = call.attr("keep_aspect_ratio_policy")
        if policy != "stretch":
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            ratios = [ratio] * len(ratios)
            results = [math.floor(ratio * n + 0.5) for n in lengths]
    elif scales is None:
        raise UnsupportedByTorch("it has neither scales nor sizes")
    else:
        ratios = [float(s) for s in scales.tolist()]
        products = scales.float() * torch.tensor(lengths, dtype=torch.float32)  # in float32 10 * 1.3 is 13
        results = [math.floor(product) for product in products.tolist()]
    if roi is None or not roi.numel():
        bounds = [(0.0, 1.0)] * len(resized)
    else:
        numbers = roi.tolist()
        bounds = list(zip(numbers[: len(resized)], numbers[len(resized) :], strict=True))
    return [_Axis(a, n, r, s, *b) for a, n, r, s, b in zip(resized, lengths, results, ratios, bounds, strict=True)]


def _unchanged(call: Call, axis: _Axis) -> bool:
    whole = call.attr("coordinate_transformation_mode") != "tf_crop_and_resize"
    return axis.scale == 1.0 and axis.result == axis.length and (whole or (axis.start, axis.end) == (0.0, 1.0))


def _interpolated(call: Call, x: torch.Tensor, axes: list[_Axis]) -> torch.Tensor | None:
    """The result of torch's function if it computes the same; else None."""
    spatial = x.dim() - 2
    if spatial not in (1, 2, 3) or not x.dtype.is_floating_point or any(a.axis < 2 for a in axes):
        return None
    if call.attr("antialias") or any(a.scale * a.length != a.result or a.result < 2 for a in axes):
        return None
    results = {a.axis: a.result for a in axes}
    size = [results.get(axis, x.shape[axis]) for axis in range(2, x.dim())]
    mode, coordinates = call.attr("mode"), call.attr("coordinate_transformation_mode")
    if mode == "nearest" and coordinates == "asymmetric" and call.attr("nearest_mode") == "floor":
        return F.interpolate(x, size)
    if mode == "linear" and coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        linear = ("linear", "bilinear", "trilinear")[spatial - 1]
        return F.interpolate(x, size, mode=linear, align_corners=coordinates == "align_corners")
    return None


def _coordinates(call: Call, axis: _Axis) -> torch.Tensor:
    """[result]: the coordinate in the operand of each element of the result.

    They are computed in float32, as in ONNX Runtime, since rounding matters for "nearest".
    """
    mode = call.attr("coordinate_transformation_mode")
    i = torch.arange(axis.result, dtype=torch.float32)
    scaled = axis.scale * axis.length
    scale = torch.tensor(axis.scale, dtype=torch.float32)
    if mode == "align_corners":
        return torch.zeros_like(i) if scaled == 1 else i * (axis.length - 1) / (scaled - 1)
    if mode == "asymmetric":
        return i / scale
    if mode == "tf_crop_and_resize":
        span = (axis.end - axis.start) * (axis.length - 1)
        steps = torch.full_like(i, span / 2) if scaled == 1 else i * span / (scaled - 1)
        return steps + axis.start * (axis.length - 1)
    if mode == "pytorch_half_pixel" and axis.result == 1:
        return torch.zeros_like(i)
    coordinates = (i + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        coordinates = coordinates + axis.length / 2 * (1 - axis.result / scaled)
    return coordinates


def _outside(call: Call, axis: _Axis) -> torch.Tensor:
    """[result]: whether the coordinate is outside the operand."""
    coordinates = _coordinates(call, axis)
    return (coordinates < 0) | (coordinates > axis.length - 1)


def _resampled(call: Call, x: torch.Tensor, axis: _Axis) -> torch.Tensor:
    """x resized along one axis: at each coordinate the nearest element, or the weighted sum of those around it."""
    if call.attr("mode") == "nearest":
        return x.index_select(axis.axis, call.cached_tensor((axis, "nearest"), partial(_nearest, call, axis)))
    index = call.cached_tensor((axis, "taps"), partial(_index, call, axis))
    weights = call.cached_tensor((axis, "weights", x.dtype), partial(_weights, call, axis, x.dtype))
    view = [1] * x.dim()
    view[axis.axis] = -1
    terms = (x.index_select(axis.axis, i) * w.reshape(view) for i, w in zip(index, weights, strict=True))
    result: torch.Tensor = reduce(torch.add, terms)
    return result


def _nearest(call: Call, axis: _Axis) -> torch.Tensor:
    """[result]: the index of the nearest element of the operand."""
    index = _ROUND[call.attr("nearest_mode")](_coordinates(call, axis))
    return index.long().clamp(0, axis.length - 1)


def _taps(call: Call, axis: _Axis) -> torch.Tensor:
    """[taps, result]: the indices of the operand's elements around each coordinate; some may be outside."""
    reach = math.ceil((1 if call.attr("mode") == "linear" else 2) / _shrink(call, axis))
    return _coordinates(call, axis).floor() + torch.arange(1 - reach, reach + 1).unsqueeze(1)


def _index(call: Call, axis: _Axis) -> torch.Tensor:
    """[taps, result]: the taps; those outside are moved to the edge."""
    return _taps(call, axis).long().clamp(0, axis.length - 1)


def _weights(call: Call, axis: _Axis, dtype: torch.dtype) -> torch.Tensor:
    """[taps, result]: the weight of each tap. The weights for one element of the result sum to 1."""
    taps = _taps(call, axis)
    distance = (taps - _coordinates(call, axis)).abs() * _shrink(call, axis)
    linear = call.attr("mode") == "linear"
    weights = (1 - distance).clamp(min=0) if linear else _cubic(distance, call.attr("cubic_coeff_a"))
    if call.attr("exclude_outside"):
        weights = torch.where((taps < 0) | (taps >= axis.length), torch.zeros(()), weights)
    return (weights / weights.sum(0)).to(dtype)


def _shrink(call: Call, axis: _Axis) -> float:
    """The factor by which antialiasing widens the kernel, inverted."""
    return min(axis.scale, 1.0) if call.attr("antialias") else 1.0


_HALF_WAY = 1e-5  # ONNX Runtime's tolerance for halves, since scales are rounded
# How coordinates are rounded; (x + 0.5).floor() would round twice.
_ROUND: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "round_prefer_floor": lambda x: x.floor() + (x - x.floor() > 0.5),
    "round_prefer_ceil": lambda x: x.floor() + (x - x.floor() >= 0.5 - _HALF_WAY),
    "floor": lambda x: x.floor(),
    "ceil": lambda x: x.ceil(),
}


def _cubic(distance: torch.Tensor, a: float) -> torch.Tensor:
    """Keys' cubic convolution kernel ("Cubic Convolution Interpolation", 1981)."""
    d = distance
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return torch.where(d <= 1, near, torch.where(d < 2, far, torch.zeros(())))


_TORCH_MODES = {"linear": "bilinear", "cubic": "bicubic"}  # GridSample's from opset 20 on; before they are torch's
_LARGEST_COORDINATE = 2.0**62  # ONNX Runtime takes larger ones, NaN and infinity for -1


@layout_sensitive_operator("GridSample", category="movement", fusion=FUSABLE, flops=per_output(8), ranks=(4, 5))
def grid_sample(call: Call, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    """Where an element of `grid` has R coordinates, each from -1 to 1.

    x: [N, C, *D], grid: [N, *E, R] -> [N, C, *E]
    """
    mode = call.attr("mode", "linear")
    padding = call.attr("padding_mode", "zeros")
    wide = torch.promote_types(x.dtype, grid.dtype)
    aligned = bool(call.attr("align_corners", 0))
    grid = torch.where(grid.abs() < _LARGEST_COORDINATE, grid, -1.0)
    return F.grid_sample(x.to(wide), grid.to(wide), _TORCH_MODES.get(mode, mode), padding, aligned).to(x.dtype)


@operator(
    "AffineGrid", category="movement", layout=LAYOUT_BARRIER, fusion=FUSABLE, flops=per_output(4), host_inputs=(1,)
)
def affine_grid(call: Call, theta: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    """theta: [N, R, R + 1], size: [R + 2] -> [N, *D, R]"""
    return F.affine_grid(theta, size.tolist(), bool(call.attr("align_corners")))
