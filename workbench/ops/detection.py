"""Operators of object detection: suppression of overlapping boxes, and crops of images."""

from __future__ import annotations

import math

from workbench.ops.contract import operator, per_output
from workbench.ops.fusion_kinds import FUSABLE, OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import BARRIER


@operator("NonMaxSuppression", category="other", layout=BARRIER, fusion=OPAQUE, host_inputs=(0, 1, 2, 3, 4))
def non_max_suppression(call, boxes, scores, limit=None, overlap=None, least=None):
    """[batch, class, box] of each box that is kept, the best first; computed on the CPU, box by box."""
    corners = _corners(boxes, bool(call.attr("center_point_box")))
    most = 0 if limit is None else int(limit)
    share = 0.0 if overlap is None else float(overlap)
    threshold = -math.inf if least is None else float(least)
    rows = [
        (batch, kind, box)
        for batch in range(scores.shape[0])
        for kind in range(scores.shape[1])
        for box in _remaining(corners[batch], scores[batch, kind], most, share, threshold)
    ]
    return torch.tensor(rows, dtype=torch.int64, device=call.device).reshape(-1, 3)


def _corners(boxes: torch.Tensor, centred: bool) -> torch.Tensor:
    """The lower and the upper corner of each box, [..., 2, 2], from two opposite corners or from centre and size."""
    first, second = boxes.unflatten(-1, (2, 2)).unbind(-2)
    if centred:
        first, second = first - second / 2, first + second / 2
    return torch.stack([torch.minimum(first, second), torch.maximum(first, second)], -2)


def _remaining(corners: torch.Tensor, scores: torch.Tensor, most: int, share: float, least: float) -> list[int]:
    """Boxes by descending score, without those whose intersection over union with an earlier one exceeds `share`."""
    areas = (corners[:, 1] - corners[:, 0]).prod(-1)
    removed = scores <= least
    kept: list[int] = []
    for box in scores.argsort(descending=True, stable=True).tolist():
        if len(kept) >= most:
            break
        if removed[box]:
            continue
        kept.append(box)
        low = torch.maximum(corners[:, 0], corners[box, 0])
        high = torch.minimum(corners[:, 1], corners[box, 1])
        common = (high - low).clamp(min=0).prod(-1)
        removed |= common / (areas + areas[box] - common) > share
    return kept


@operator("RoiAlign", category="pooling", layout=BARRIER, fusion=FUSABLE, flops=per_output(8), host_inputs=(1, 2))
def roi_align(call, x, boxes, images):
    """A grid of cells for each box [x, y, x, y], sampled from its image by linear interpolation."""
    scale, ratio = call.attr("spatial_scale"), call.attr("sampling_ratio")
    centred = call.attr("coordinate_transformation_mode", "half_pixel" if call.opset >= 16 else "") == "half_pixel"
    cells = call.attr("output_height"), call.attr("output_width")
    largest = call.attr("mode") == "max"
    results = []
    for box, image in zip(boxes.tolist(), images.tolist(), strict=True):
        left, top, right, bottom = (edge * scale - 0.5 * centred for edge in box)
        sizes = [bottom - top, right - left]
        if not centred:
            sizes = [max(size, 1.0) for size in sizes]
        grid = [ratio or max(math.ceil(size / count), 0) for size, count in zip(sizes, cells, strict=True)]
        if 0 in grid:
            results.append(x.new_zeros(x.shape[1], *cells))
            continue
        parts = [x[image]]
        for axis, start in ((1, top), (2, left)):
            places = _places(start, sizes[axis - 1] / cells[axis - 1], cells[axis - 1], grid[axis - 1])
            parts = [corner for part in parts for corner in _neighbours(part, axis, places)]
        samples = torch.stack(parts)
        value = samples.amax(0) if largest else samples.sum(0)
        value = value.reshape(-1, cells[0], grid[0], cells[1], grid[1])
        results.append(value.amax((2, 4)) if largest else value.sum((2, 4)) / (grid[0] * grid[1]))
    return torch.stack(results) if results else x.new_zeros(0, x.shape[1], *cells)


def _places(start: float, cell: float, cells: int, samples: int) -> torch.Tensor:
    """The sample places on one axis: the middles of equal parts of each cell."""
    return start + (torch.arange(cells * samples) + 0.5) * (cell / samples)


def _neighbours(x: torch.Tensor, axis: int, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The elements before and after each place with their weights; places more than 1 outside have none."""
    length = x.shape[axis]
    inside = (places >= -1) & (places <= length)
    place = places.clamp(0, length - 1)
    low = place.long()
    share = place - low
    view = [1] * x.dim()
    view[axis] = -1
    weights = (((1 - share) * inside, low), (share * inside, (low + 1).clamp(max=length - 1)))
    first, second = (
        x.index_select(axis, index.to(x.device)) * w.to(x.device, x.dtype).reshape(view) for w, index in weights
    )
    return first, second
