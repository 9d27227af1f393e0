"""Operators of object detection: suppression of overlapping boxes, and crops of images."""

from __future__ import annotations

import math

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.fusion_kinds import FUSABLE, OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER


@operator("NonMaxSuppression", category="other", layout=LAYOUT_BARRIER, fusion=OPAQUE, host_inputs=(0, 1, 2, 3, 4))
def non_max_suppression(
    call: Call,
    boxes: torch.Tensor,
    scores: torch.Tensor,
    max_boxes: torch.Tensor | None = None,
    iou_threshold: torch.Tensor | None = None,
    score_threshold: torch.Tensor | None = None,
) -> torch.Tensor:
    """Batch entry, class and box of each box that is kept, the best first; computed on the CPU, box by box.

    max_boxes: the maximum number of boxes for each batch entry and class.
    iou_threshold: a box is removed if its intersection over union with a kept box of its class is greater.
    score_threshold: a box with this score or a lower one is removed.

    boxes: [N, B, 4], scores: [N, C, B], max_boxes: [] or [1], iou_threshold: [] or [1], score_threshold: [] or [1] ->
        [K, 3]
    """
    corners = _corners(boxes, bool(call.attr("center_point_box")))
    limit = 0 if max_boxes is None else int(max_boxes)
    largest_iou = 0.0 if iou_threshold is None else float(iou_threshold)
    least_score = -math.inf if score_threshold is None else float(score_threshold)
    rows = [
        (n, c, box)
        for n in range(scores.shape[0])
        for c in range(scores.shape[1])
        for box in _kept(corners[n], scores[n, c], limit, largest_iou, least_score)
    ]
    return torch.tensor(rows, dtype=torch.int64, device=call.device).reshape(-1, 3)


def _corners(boxes: torch.Tensor, centred: bool) -> torch.Tensor:
    """The lower and the upper corner of each box, from two opposite corners or, if `centred`, from centre and size.

    boxes: [N, B, 4] -> [N, B, 2, 2]
    """
    first, second = torch.unflatten(boxes, -1, (2, 2)).unbind(-2)
    if centred:
        first, second = first - second / 2, first + second / 2
    return torch.stack([torch.minimum(first, second), torch.maximum(first, second)], -2)


def _kept(corners: torch.Tensor, scores: torch.Tensor, limit: int, largest_iou: float, least_score: float) -> list[int]:
    """At most `limit` boxes, by descending score, no two of which have a larger intersection over union.

    corners: [B, 2, 2], scores: [B]
    """
    areas = (corners[:, 1] - corners[:, 0]).prod(-1)
    removed = scores <= least_score
    kept: list[int] = []
    for box in scores.argsort(descending=True, stable=True).tolist():
        if len(kept) >= limit:
            break
        if removed[box]:
            continue
        kept.append(box)
        low = torch.maximum(corners[:, 0], corners[box, 0])
        high = torch.minimum(corners[:, 1], corners[box, 1])
        common = (high - low).clamp(min=0).prod(-1)
        removed |= common / (areas + areas[box] - common) > largest_iou
    return kept


@operator(
    "RoiAlign", category="pooling", layout=LAYOUT_BARRIER, fusion=FUSABLE, flops=per_output(8), host_inputs=(1, 2)
)
def roi_align(call: Call, x: torch.Tensor, boxes: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """A grid of cells for each box [x, y, x, y], sampled from its image by linear interpolation.

    x: [N, C, H, W], boxes: [B, 4], images: [B] -> [B, C, output_height, output_width]
    """
    scale, ratio = call.attr("spatial_scale"), call.attr("sampling_ratio")
    centred = call.attr("coordinate_transformation_mode") == "half_pixel"
    cells = call.attr("output_height"), call.attr("output_width")
    is_max = call.attr("mode") == "max"
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
            coordinates = _sampled(start, sizes[axis - 1] / cells[axis - 1], cells[axis - 1], grid[axis - 1])
            parts = [corner for part in parts for corner in _neighbours(part, axis, coordinates)]
        samples = torch.stack(parts)
        value = samples.amax(0) if is_max else samples.sum(0)
        value = value.reshape(-1, cells[0], grid[0], cells[1], grid[1])
        results.append(value.amax((2, 4)) if is_max else value.sum((2, 4)) / (grid[0] * grid[1]))
    return torch.stack(results) if results else x.new_zeros(0, x.shape[1], *cells)


def _sampled(start: float, cell: float, cells: int, samples: int) -> torch.Tensor:
    """The coordinates of samples on one axis, [cells * samples]: the middles of equal parts of each cell."""
    return start + (torch.arange(cells * samples) + 0.5) * (cell / samples)


def _neighbours(x: torch.Tensor, axis: int, coordinates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The elements before and after each coordinate times their interpolation weights.

    The weights are 0 for a coordinate more than 1 element outside of the image.
    """
    length = x.shape[axis]
    inside = (coordinates >= -1) & (coordinates <= length)
    coordinates = coordinates.clamp(0, length - 1)
    low = coordinates.long()
    fraction = coordinates - low
    view = [1] * x.dim()
    view[axis] = -1
    weights = (((1 - fraction) * inside, low), (fraction * inside, (low + 1).clamp(max=length - 1)))
    first, second = (
        x.index_select(axis, index.to(x.device)) * w.to(x.device, x.dtype).reshape(view) for w, index in weights
    )
    return first, second
