"""Resize, and sampling at given places."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.fusion_kinds import FUSABLE, if_nearest
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import BARRIER
from workbench.ops.permuted_images import RESIZE
from workbench.ops.sensitive import sensitive


@dataclass(frozen=True)
class _Axis:
    """How one axis is resized; `start` and `end` bound the part that is resized, 0 to 1 for the whole axis."""

    axis: int
    length: int
    result: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@operator("Resize", category="movement", layout=RESIZE, fusion=if_nearest, flops=per_output(1), host_inputs=(1, 2, 3))
def resize(call, x, roi=None, scales=None, sizes=None):
    """Resize axis by axis, since interpolation is separable."""
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
            mark = call.held((axis, "outside"), partial(_outside, call, axis)).reshape(view)
            outside = mark if outside is None else outside | mark
    if outside is not None:
        value = call.attr("extrapolation_value")
        x = torch.where(outside, torch.full((), value, dtype=x.dtype, device=x.device), x)
    if not dtype.is_floating_point and x.dtype != dtype:
        limits = torch.iinfo(dtype)
        x = x.round().clamp(limits.min, limits.max)
    return x.to(dtype)


def _axes(call: Call, x: torch.Tensor, roi, scales, sizes) -> list[_Axis]:
    chosen = [a % x.dim() for a in call.attr("axes") or range(x.dim())]
    lengths = [x.shape[a] for a in chosen]
    if sizes is not None and sizes.numel():
        results = [int(n) for n in sizes.tolist()]
        ratios = [r / n if n else 1.0 for r, n in zip(results, lengths, strict=True)]
        policy = call.attr("keep_aspect_ratio_policy")
        if policy != "stretch":
            one = min(ratios) if policy == "not_larger" else max(ratios)
            ratios = [one] * len(ratios)
            results = [math.floor(one * n + 0.5) for n in lengths]
    else:
        ratios = [float(s) for s in scales.tolist()]
        products = scales.float() * torch.tensor(lengths, dtype=torch.float32)  # in float32 10 * 1.3 is 13
        results = [math.floor(product) for product in products.tolist()]
    if roi is None or not roi.numel():
        bounds = [(0.0, 1.0)] * len(chosen)
    else:
        numbers = roi.tolist()
        bounds = list(zip(numbers[: len(chosen)], numbers[len(chosen) :], strict=True))
    return [_Axis(a, n, r, s, *b) for a, n, r, s, b in zip(chosen, lengths, results, ratios, bounds, strict=True)]


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
    by = {a.axis: a.result for a in axes}
    result = [by.get(axis, x.shape[axis]) for axis in range(2, x.dim())]
    mode = call.attr("mode")
    places = call.attr("coordinate_transformation_mode")
    if mode == "nearest" and places == "asymmetric" and call.attr("nearest_mode") == "floor":
        return F.interpolate(x, result)
    if mode == "linear" and places in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        return F.interpolate(
            x, result, mode=("linear", "bilinear", "trilinear")[spatial - 1], align_corners=places == "align_corners"
        )
    return None


def _coordinates(call: Call, axis: _Axis) -> torch.Tensor:
    """The operand's coordinate of each result element.

    In float32, as ONNX Runtime computes them, since rounding matters for "nearest".
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
    places = (i + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        places = places + axis.length / 2 * (1 - axis.result / scaled)
    return places


def _outside(call: Call, axis: _Axis) -> torch.Tensor:
    """Which elements of the result lie outside of the operand."""
    places = _coordinates(call, axis)
    return (places < 0) | (places > axis.length - 1)


def _resampled(call: Call, x: torch.Tensor, axis: _Axis) -> torch.Tensor:
    """The weighted sum over the taps around each place."""
    if call.attr("mode") == "nearest":
        return x.index_select(axis.axis, call.held((axis, "nearest"), partial(_nearest, call, axis)))
    index = call.held((axis, "taps"), partial(_index, call, axis))
    weights = call.held((axis, "weights", x.dtype), partial(_weights, call, axis, x.dtype))
    view = [1] * x.dim()
    view[axis.axis] = -1
    return sum(x.index_select(axis.axis, i) * w.reshape(view) for i, w in zip(index, weights, strict=True))


def _nearest(call: Call, axis: _Axis) -> torch.Tensor:
    index = _ROUND[call.attr("nearest_mode")](_coordinates(call, axis))
    return index.long().clamp(0, axis.length - 1)


def _taps(call: Call, axis: _Axis) -> torch.Tensor:
    """[taps, result]: the operand's elements around each place; some may be outside."""
    reach = math.ceil((1 if call.attr("mode") == "linear" else 2) / _shrink(call, axis))
    return _coordinates(call, axis).floor() + torch.arange(1 - reach, reach + 1).unsqueeze(1)


def _index(call: Call, axis: _Axis) -> torch.Tensor:
    """The taps, those outside moved to the edge."""
    return _taps(call, axis).long().clamp(0, axis.length - 1)


def _weights(call: Call, axis: _Axis, dtype: torch.dtype) -> torch.Tensor:
    """Of the taps; over each place they sum to 1."""
    taps = _taps(call, axis)
    distance = (taps - _coordinates(call, axis)).abs() * _shrink(call, axis)
    linear = call.attr("mode") == "linear"
    weights = (1 - distance).clamp(min=0) if linear else _cubic(distance, call.attr("cubic_coeff_a"))
    if call.attr("exclude_outside"):
        weights = torch.where((taps < 0) | (taps >= axis.length), torch.zeros(()), weights)
    return (weights / weights.sum(0)).to(dtype)


def _shrink(call: Call, axis: _Axis) -> float:
    return min(axis.scale, 1.0) if call.attr("antialias") else 1.0


_HALF_WAY = 1e-5  # ONNX Runtime's tolerance for halves, since scales are rounded
_ROUND = {  # places below 0 are clamped to 0 anyway; x + 0.5 would itself be rounded
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


_SINCE_20 = {"linear": "bilinear", "cubic": "bicubic"}  # GridSample's modes; before that opset as torch has them
_MOST_PIXELS = 2.0**62  # beyond it a coordinate is none, and counts as -1


@sensitive("GridSample", category="movement", fusion=FUSABLE, flops=per_output(8), ranks=(4, 5))
def grid_sample(call, x, grid):
    mode = call.attr("mode", "linear")
    padding = call.attr("padding_mode", "zeros")
    wide = torch.promote_types(x.dtype, grid.dtype)
    aligned = bool(call.attr("align_corners", 0))
    grid = torch.where(grid.abs() < _MOST_PIXELS, grid, -1.0)  # of ONNX Runtime, NaN and infinity too
    return F.grid_sample(x.to(wide), grid.to(wide), _SINCE_20.get(mode, mode), padding, aligned).to(x.dtype)


@operator("AffineGrid", category="movement", layout=BARRIER, fusion=FUSABLE, flops=per_output(4), host_inputs=(1,))
def affine_grid(call, theta, size):
    return F.affine_grid(theta, size.tolist(), bool(call.attr("align_corners")))
