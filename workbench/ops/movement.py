"""Operators that move elements without computing: reshape, transpose, slice, concatenate, pad, tile."""

from __future__ import annotations

import itertools
from functools import partial

from workbench.ir.permutation import moves_data
from workbench.ops.contract import Call, operator
from workbench.ops.dtypes import UnsupportedByTorch
from workbench.ops.fusion_kinds import BROADCAST, ELEMENTWISE, INJECTIVE
from workbench.ops.layout_sensitive import layout_sensitive_operator
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER
from workbench.ops.permutation.permuted_attributes import (
    CONCAT,
    CROP,
    EXPAND,
    PAD,
    SLICE,
    SPLIT,
    SQUEEZE,
    TILE,
    TRANSPOSE,
    TRIANGLE,
    UNSQUEEZE,
)
from workbench.ops.permutation.reshaping import FLATTEN, RESHAPE


@operator("Reshape", category="movement", layout=RESHAPE, fusion=INJECTIVE, host_inputs=(1,))
def reshape(call: Call, x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """x: [*D], shape: [K] -> [*E]"""
    target = shape.tolist()
    if not call.attr("allowzero") and 0 in target:
        target = [x.shape[i] if d == 0 else d for i, d in enumerate(target)]
    return x.reshape(target)


@operator("Flatten", category="movement", layout=FLATTEN, fusion=INJECTIVE)
def flatten(call: Call, x: torch.Tensor) -> torch.Tensor:
    """Merges the axes before `axis` into one, and the remaining axes into another.

    x: [*A, *B] -> [M, N]
    """
    axis = call.attr("axis")
    axis = axis + x.dim() if axis < 0 else axis
    return x.reshape(x.shape[:axis].numel(), x.shape[axis:].numel())


@operator("Transpose", category="movement", layout=TRANSPOSE, fusion=INJECTIVE)
def transpose(call: Call, x: torch.Tensor) -> torch.Tensor:
    """A contiguous result: a view if only axes of size 1 move, else a copy.

    x: [*D] -> [*E]
    """
    perm = call.attr("perm") or tuple(reversed(range(x.dim())))
    if not moves_data(perm, x.shape):
        return x.reshape([x.shape[axis] for axis in perm])
    return x.permute(perm).contiguous()


@operator("Squeeze", category="movement", layout=SQUEEZE, fusion=INJECTIVE, host_inputs=(1,))
def squeeze(call: Call, x: torch.Tensor, axes: torch.Tensor | None = None) -> torch.Tensor:
    """x: [*D], axes: [K] -> [*E]"""
    return x.squeeze() if axes is None else x.squeeze(tuple(axes.reshape(-1).tolist()))


@operator("Unsqueeze", category="movement", layout=UNSQUEEZE, fusion=INJECTIVE, host_inputs=(1,))
def unsqueeze(call: Call, x: torch.Tensor, axes: torch.Tensor) -> torch.Tensor:
    """x: [*D], axes: [K] or [] -> [*E]"""
    rank = x.dim() + axes.numel()
    for axis in sorted(a % rank for a in axes.reshape(-1).tolist()):
        x = x.unsqueeze(axis)
    return x


@operator("Concat", category="movement", layout=CONCAT, fusion=INJECTIVE)
def concat(call: Call, *operands: torch.Tensor) -> torch.Tensor:
    """[*A, M, *B], [*A, N, *B], ... -> [*A, M + N + ..., *B]"""
    return torch.cat(operands, call.attr("axis"))


@operator("Split", category="movement", layout=SPLIT, fusion=INJECTIVE, host_inputs=(1,))
def split(call: Call, x: torch.Tensor, sizes: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
    """Splits into the given sizes, or into equal parts, of which the last may be smaller.

    x: [*A, M + N + ..., *B], sizes: [K] -> [*A, M, *B], [*A, N, *B], ...
    """
    axis = call.attr("axis")
    if sizes is not None:
        return tuple(torch.split_with_sizes(x, sizes.tolist(), axis))
    count: int = call.attr("num_outputs") or len(call.node.outputs)
    length = x.shape[axis]
    size = -(-length // count)
    return tuple(torch.split_with_sizes(x, [*[size] * (count - 1), length - size * (count - 1)], axis))


_NO_END = (2**31 - 1, 2**63 - 1)  # the largest int32 and int64


@operator("Slice", category="movement", layout=SLICE, fusion=INJECTIVE, host_inputs=(1, 2, 3, 4))
def slice_(
    call: Call,
    x: torch.Tensor,
    starts: torch.Tensor,
    ends: torch.Tensor,
    axes: torch.Tensor | None = None,
    steps: torch.Tensor | None = None,
) -> torch.Tensor:
    """x: [*D], starts: [K], ends: [K], axes: [K], steps: [K] -> [*E]"""
    sliced = range(starts.numel()) if axes is None else axes.tolist()
    strides = itertools.repeat(1) if steps is None else steps.tolist()
    for axis, start, end, step in zip(sliced, starts.tolist(), ends.tolist(), strides, strict=False):
        length = x.shape[axis]
        if step < 0 and start < -length:
            start = 0  # ONNX clamps it to 0, Python to -1
        if step < 0 and end in _NO_END:
            end = -length - 1  # to the first element, as in ONNX Runtime
        first, stop, _ = slice(start, end, step).indices(length)
        count = len(range(first, stop, step))
        if step > 0:
            # indices() of an empty slice may be beyond the end
            x = x.narrow(axis, first if count else 0, max(stop - first, 0))
            x = x if step == 1 else x[(slice(None),) * (axis % x.dim()) + (slice(None, None, step),)]
            continue
        x = x.index_select(axis, torch.arange(first, first + count * step, step, device=x.device))
    return x


@operator("Pad", category="movement", layout=PAD, fusion=INJECTIVE, host_inputs=(1, 2, 3))
def pad(
    call: Call, x: torch.Tensor, pads: torch.Tensor, value: torch.Tensor | None = None, axes: torch.Tensor | None = None
) -> torch.Tensor:
    """Negative pads remove elements.

    x: [*D], pads: [2 * K], value: [], axes: [K] -> [*E]
    """
    padded = list(range(x.dim())) if axes is None else [a % x.dim() for a in axes.tolist()]
    counts = pads.tolist()
    begins, ends = [0] * x.dim(), [0] * x.dim()
    for i, axis in enumerate(padded):
        begins[axis], ends[axis] = counts[i], counts[len(padded) + i]
    mode = call.attr("mode")
    if mode == "constant":
        filling = 0 if value is None else value.item()
        if isinstance(filling, int) and int(float(filling)) != filling:
            raise UnsupportedByTorch("torch pads only with numbers that a double can hold")
        pairs = [p for b, e in zip(reversed(begins), reversed(ends), strict=True) for p in (b, e)]
        return F.pad(x, pairs, value=filling)
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if begin or end:
            key = begin, end, x.shape[axis]
            x = x.index_select(axis, call.cached_tensor(key, partial(_source_indices, mode, *key)))
    return x


def _source_indices(mode: str, begin: int, end: int, length: int) -> torch.Tensor:
    """[result length]: the index in x of each element of the padded axis; negative pads leave some of x out."""
    first = max(-begin, 0)
    left = length - first - max(-end, 0)
    indices = torch.arange(-max(begin, 0), left + max(end, 0))
    if mode == "edge":
        return first + indices.clamp(0, left - 1)
    if mode == "wrap":
        return first + indices % left
    period = max(2 * (left - 1), 1)
    indices = indices % period
    return first + (torch.minimum(indices, period - indices) if left > 1 else torch.zeros_like(indices))


@operator("Expand", category="movement", layout=EXPAND, fusion=BROADCAST, host_inputs=(1,))
def expand(call: Call, x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """x: [*D], shape: [K] -> [*E]"""
    # torch does not annotate this function.
    sizes: torch.Size = torch.broadcast_shapes(x.shape, tuple(shape.tolist()))  # type: ignore[no-untyped-call]
    return x.expand(sizes)


@operator("Tile", category="movement", layout=TILE, fusion=INJECTIVE, host_inputs=(1,))
def tile(call: Call, x: torch.Tensor, repeats: torch.Tensor) -> torch.Tensor:
    """x: [*D], repeats: [K] -> [*E]"""
    return x.repeat(repeats.tolist())


@layout_sensitive_operator("DepthToSpace", category="movement", fusion=INJECTIVE, ranks=(4,))
def depth_to_space(call: Call, x: torch.Tensor) -> torch.Tensor:
    """x: [N, C, H, W] -> [N, C / blocksize**2, H * blocksize, W * blocksize]"""
    batch, channels, height, width = x.shape
    size: int = call.attr("blocksize")
    rest = channels // (size * size)
    if call.attr("mode", "DCR") == "DCR":
        blocks = x.reshape(batch, size, size, rest, height, width).permute(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(batch, rest, size, size, height, width).permute(0, 1, 4, 2, 5, 3)
    return blocks.reshape(batch, rest, height * size, width * size)


@layout_sensitive_operator("SpaceToDepth", category="movement", fusion=INJECTIVE, ranks=(4,))
def space_to_depth(call: Call, x: torch.Tensor) -> torch.Tensor:
    """x: [N, C, H, W] -> [N, C * blocksize**2, H / blocksize, W / blocksize]"""
    batch, channels, height, width = x.shape
    size: int = call.attr("blocksize")
    blocks = x.reshape(batch, channels, height // size, size, width // size, size)
    blocks = blocks.permute(0, 3, 5, 1, 2, 4) if call.attr("mode", "DCR") == "DCR" else blocks.permute(0, 1, 3, 5, 2, 4)
    return blocks.reshape(batch, channels * size * size, height // size, width // size)


@operator("Trilu", category="movement", layout=TRIANGLE, fusion=ELEMENTWISE, host_inputs=(1,))
def trilu(call: Call, x: torch.Tensor, diagonal: torch.Tensor | None = None) -> torch.Tensor:
    """x: [*B, M, N] -> [*B, M, N]"""
    k = 0 if diagonal is None else int(diagonal)
    return x.triu(k) if call.attr("upper") else x.tril(k)


@operator("CenterCropPad", category="movement", layout=CROP, fusion=INJECTIVE, host_inputs=(1,))
def center_crop_pad(call: Call, x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """x: [*D], shape: [K] -> [*E]"""
    axes = call.attr("axes") or range(x.dim())
    for axis, size in zip(axes, shape.tolist(), strict=True):
        length = x.shape[axis]
        if size < length:
            x = x.narrow(axis, (length - size) // 2, size)
            continue
        pairs = [0, 0] * x.dim()
        begin = 2 * (x.dim() - 1 - axis % x.dim())  # F.pad counts axes from the last
        pairs[begin] = (size - length) // 2
        pairs[begin + 1] = size - length - pairs[begin]
        x = F.pad(x, pairs)
    return x


@operator("ReverseSequence", category="movement", layout=LAYOUT_BARRIER, fusion=INJECTIVE)
def reverse_sequence(call: Call, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Reverse the first `lengths[n]` elements of batch entry n along the time axis.

    x: [T, N, *D] or [N, T, *D], lengths: [N] -> [T, N, *D] or [N, T, *D]
    """
    time_axis, batch_axis = call.attr("time_axis"), call.attr("batch_axis")
    ordered = x.movedim((time_axis, batch_axis), (0, 1))
    steps = torch.arange(ordered.shape[0], device=x.device).unsqueeze(1)
    indices = torch.where(steps < lengths, lengths - 1 - steps, steps)
    indices = indices.reshape(*indices.shape, *(1,) * (ordered.dim() - 2)).expand(ordered.shape)
    return ordered.gather(0, indices).movedim((0, 1), (time_axis, batch_axis))
