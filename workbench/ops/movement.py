"""Operators that move elements without computing: reshape, transpose, slice, concatenate, pad, tile."""

from __future__ import annotations

import itertools
from functools import partial

from workbench.ir.permutation import moves_data
from workbench.ops.contract import operator
from workbench.ops.dtypes import CannotRun
from workbench.ops.fusion_kinds import BROADCAST, ELEMENTWISE, INJECTIVE
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import BARRIER
from workbench.ops.permutation.remapped import (
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
from workbench.ops.sensitive import sensitive


@operator("Reshape", category="movement", layout=RESHAPE, fusion=INJECTIVE, host_inputs=(1,))
def reshape(call, x, shape):
    target = shape.tolist()
    if not call.attr("allowzero") and 0 in target:
        target = [x.shape[i] if d == 0 else d for i, d in enumerate(target)]
    return x.reshape(target)


@operator("Flatten", category="movement", layout=FLATTEN, fusion=INJECTIVE)
def flatten(call, x):
    axis = call.attr("axis")
    axis = axis + x.dim() if axis < 0 else axis
    return x.reshape(x.shape[:axis].numel(), x.shape[axis:].numel())


@operator("Transpose", category="movement", layout=TRANSPOSE, fusion=INJECTIVE)
def transpose(call, x):
    """A contiguous result: a view if only axes of size 1 change places, else a copy."""
    perm = call.attr("perm") or tuple(reversed(range(x.dim())))
    if not moves_data(perm, x.shape):
        return x.reshape([x.shape[axis] for axis in perm])
    return x.permute(perm).contiguous()


@operator("Squeeze", category="movement", layout=SQUEEZE, fusion=INJECTIVE, host_inputs=(1,))
def squeeze(call, x, axes=None):
    return x.squeeze() if axes is None else x.squeeze(tuple(axes.reshape(-1).tolist()))


@operator("Unsqueeze", category="movement", layout=UNSQUEEZE, fusion=INJECTIVE, host_inputs=(1,))
def unsqueeze(call, x, axes):
    rank = x.dim() + axes.numel()
    for axis in sorted(a % rank for a in axes.reshape(-1).tolist()):
        x = x.unsqueeze(axis)
    return x


@operator("Concat", category="movement", layout=CONCAT, fusion=INJECTIVE)
def concat(call, *operands):
    return torch.cat(operands, call.attr("axis"))


@operator("Split", category="movement", layout=SPLIT, fusion=INJECTIVE, host_inputs=(1,))
def split(call, x, sizes=None):
    axis = call.attr("axis")
    if sizes is not None:
        return tuple(x.split(sizes.tolist(), axis))
    count = call.attr("num_outputs") or len(call.node.outputs)
    length = x.shape[axis]
    each = -(-length // count)
    return tuple(x.split([*[each] * (count - 1), length - each * (count - 1)], axis))


_NO_END = (2**31 - 1, 2**63 - 1)


@operator("Slice", category="movement", layout=SLICE, fusion=INJECTIVE, host_inputs=(1, 2, 3, 4))
def slice_(call, x, starts, ends, axes=None, steps=None):
    places = range(starts.numel()) if axes is None else axes.tolist()
    strides = itertools.repeat(1) if steps is None else steps.tolist()
    for axis, start, end, step in zip(places, starts.tolist(), ends.tolist(), strides, strict=False):
        length = x.shape[axis]
        if step < 0 and start < -length:
            start = 0  # ONNX clamps it to the first element, Python to before it
        if step < 0 and end in _NO_END:
            end = -length - 1  # as ONNX Runtime reads it: to the first element
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
def pad(call, x, pads, value=None, axes=None):
    """Negative pads remove elements."""
    chosen = list(range(x.dim())) if axes is None else [a % x.dim() for a in axes.tolist()]
    amounts = pads.tolist()
    begins, ends = [0] * x.dim(), [0] * x.dim()
    for i, axis in enumerate(chosen):
        begins[axis], ends[axis] = amounts[i], amounts[len(chosen) + i]
    mode = call.attr("mode")
    if mode == "constant":
        filling = 0 if value is None else value.item()
        if isinstance(filling, int) and int(float(filling)) != filling:
            raise CannotRun("torch pads only with numbers that a double can hold")
        pairs = [p for b, e in zip(reversed(begins), reversed(ends), strict=True) for p in (b, e)]
        return F.pad(x, pairs, value=filling)
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if begin or end:
            key = begin, end, x.shape[axis]
            x = x.index_select(axis, call.held(key, partial(_source_places, mode, *key)))
    return x


def _source_places(mode: str, begin: int, end: int, length: int) -> torch.Tensor:
    """The source index of each element of the padded axis, among those that negative pads leave."""
    first = max(-begin, 0)
    left = length - first - max(-end, 0)
    places = torch.arange(-max(begin, 0), left + max(end, 0))
    if mode == "edge":
        return first + places.clamp(0, left - 1)
    if mode == "wrap":
        return first + places % left
    period = max(2 * (left - 1), 1)
    places = places % period
    return first + (torch.minimum(places, period - places) if left > 1 else torch.zeros_like(places))


@operator("Expand", category="movement", layout=EXPAND, fusion=BROADCAST, host_inputs=(1,))
def expand(call, x, shape):
    return x.expand(torch.broadcast_shapes(x.shape, tuple(shape.tolist())))


@operator("Tile", category="movement", layout=TILE, fusion=INJECTIVE, host_inputs=(1,))
def tile(call, x, repeats):
    return x.repeat(repeats.tolist())


@sensitive("DepthToSpace", category="movement", fusion=INJECTIVE, ranks=(4,))
def depth_to_space(call, x):
    batch, channels, height, width = x.shape
    size = call.attr("blocksize")
    rest = channels // (size * size)
    if call.attr("mode", "DCR") == "DCR":
        blocks = x.reshape(batch, size, size, rest, height, width).permute(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(batch, rest, size, size, height, width).permute(0, 1, 4, 2, 5, 3)
    return blocks.reshape(batch, rest, height * size, width * size)


@sensitive("SpaceToDepth", category="movement", fusion=INJECTIVE, ranks=(4,))
def space_to_depth(call, x):
    batch, channels, height, width = x.shape
    size = call.attr("blocksize")
    blocks = x.reshape(batch, channels, height // size, size, width // size, size)
    blocks = blocks.permute(0, 3, 5, 1, 2, 4) if call.attr("mode", "DCR") == "DCR" else blocks.permute(0, 1, 3, 5, 2, 4)
    return blocks.reshape(batch, channels * size * size, height // size, width // size)


@operator("Trilu", category="movement", layout=TRIANGLE, fusion=ELEMENTWISE, host_inputs=(1,))
def trilu(call, x, diagonal=None):
    k = 0 if diagonal is None else int(diagonal)
    return x.triu(k) if call.attr("upper") else x.tril(k)


@operator("CenterCropPad", category="movement", layout=CROP, fusion=INJECTIVE, host_inputs=(1,))
def center_crop_pad(call, x, shape):
    axes = call.attr("axes") or range(x.dim())
    for axis, wanted in zip(axes, shape.tolist(), strict=True):
        length = x.shape[axis]
        if wanted < length:
            x = x.narrow(axis, (length - wanted) // 2, wanted)
            continue
        pairs = [0, 0] * x.dim()
        after = 2 * (x.dim() - 1 - axis % x.dim())
        pairs[after] = (wanted - length) // 2
        pairs[after + 1] = wanted - length - pairs[after]
        x = F.pad(x, pairs)
    return x


@operator("ReverseSequence", category="movement", layout=BARRIER, fusion=INJECTIVE)
def reverse_sequence(call, x, lengths):
    """Reverse the first `length` elements of each batch entry along the time axis."""
    time_axis, batch_axis = call.attr("time_axis"), call.attr("batch_axis")
    ordered = x.movedim((time_axis, batch_axis), (0, 1))
    steps = torch.arange(ordered.shape[0], device=x.device).unsqueeze(1)
    places = torch.where(steps < lengths, lengths - 1 - steps, steps)
    places = places.reshape(*places.shape, *(1,) * (ordered.dim() - 2)).expand(ordered.shape)
    return ordered.gather(0, places).movedim((0, 1), (time_axis, batch_axis))
