"""Operators that pick and place elements by index."""

from __future__ import annotations

import math

from workbench.ops.contract import operator
from workbench.ops.fusion_kinds import INJECTIVE, OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.permutation.indexed import GATHER, GATHER_ND
from workbench.ops.permutation.kinds import BARRIER
from workbench.ops.permutation.remapped import ALONG_ELEMENTS, COMPRESS, ONE_HOT

_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _from_front(indices: torch.Tensor, length: int) -> torch.Tensor:
    """Nonnegative indices; negative ones count from the end."""
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + length, indices)


@operator("Gather", category="movement", layout=GATHER, fusion=INJECTIVE)
def gather(call, x, indices):
    axis = call.attr("axis") % x.dim()
    number = call.number(1)
    if number is not None:
        return x.select(axis, number)  # a view
    picked = x.index_select(axis, _from_front(indices, x.shape[axis]).reshape(-1))
    return picked.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


@operator("GatherElements", category="movement", layout=ALONG_ELEMENTS, fusion=INJECTIVE)
def gather_elements(call, x, indices):
    axis = call.attr("axis")
    return x.gather(axis, _from_front(indices, x.shape[axis]))


def _flat_places(indices: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Coordinates on the last axis as indices into a flattened array of `shape`."""
    place = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=indices.device)
    for axis, length in enumerate(shape):
        place = place * length + _from_front(indices[..., axis], length)
    return place


@operator("GatherND", category="movement", layout=GATHER_ND, fusion=INJECTIVE)
def gather_nd(call, x, indices):
    batch, depth = call.attr("batch_dims"), indices.shape[-1]
    indexed, rest = x.shape[batch : batch + depth], x.shape[batch + depth :]
    places = _flat_places(indices, indexed)
    count = x.shape[:batch].numel()
    rows = torch.arange(count, device=x.device).unsqueeze(1) * indexed.numel() + places.reshape(count, -1)
    picked = x.reshape([count * indexed.numel(), *rest]).index_select(0, rows.reshape(-1))
    return picked.reshape([*indices.shape[:-1], *rest])


@operator("ScatterElements", category="movement", layout=ALONG_ELEMENTS, fusion=OPAQUE)
def scatter_elements(call, x, indices, updates):
    axis, reduction = call.attr("axis"), call.attr("reduction")
    places = _from_front(indices, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, _REDUCE[reduction], include_self=True)


@operator("ScatterND", category="movement", layout=BARRIER, fusion=OPAQUE)
def scatter_nd(call, x, indices, updates):
    depth, reduction = indices.shape[-1], call.attr("reduction")
    rows = _flat_places(indices, x.shape[:depth]).reshape(-1)
    rest = math.prod(x.shape[depth:])
    flat, new = x.reshape(x.shape[:depth].numel(), rest), updates.reshape(rows.numel(), rest)
    places = rows.unsqueeze(1).expand(new.shape)
    if reduction == "none":
        return flat.scatter(0, places, new).reshape(x.shape)
    return flat.scatter_reduce(0, places, new, _REDUCE[reduction], include_self=True).reshape(x.shape)


@operator("TensorScatter", category="movement", layout=BARRIER, fusion=OPAQUE)
def tensor_scatter(call, past, update, starts=None):
    """A copy of the cache with the update written from `starts` on along the axis."""
    axis, length = call.attr("axis") % past.dim(), update.shape[call.attr("axis")]
    steps = torch.arange(length, device=past.device)
    first = torch.zeros(past.shape[0], dtype=torch.int64, device=past.device) if starts is None else starts
    places = first.unsqueeze(1) + steps
    if call.attr("mode") == "circular":
        places = places % past.shape[axis]
    view = [1] * past.dim()
    view[0], view[axis] = past.shape[0], length
    return past.scatter(axis, places.reshape(view).expand(update.shape), update)


@operator("OneHot", category="movement", layout=ONE_HOT, fusion=INJECTIVE, host_inputs=(1,))
def one_hot(call, indices, depth, values):
    count = int(depth.reshape(()))
    axis = call.attr("axis") % (indices.dim() + 1)
    view = [1] * (indices.dim() + 1)
    view[axis] = count
    classes = torch.arange(count, device=indices.device).reshape(view)
    hot = _from_front(indices, count).unsqueeze(axis) == classes
    return torch.where(hot, values[1], values[0])


@operator("NonZero", category="movement", layout=BARRIER, fusion=OPAQUE)
def non_zero(call, x):
    return torch.nonzero(x).t().contiguous() if x.dim() else torch.nonzero(x.reshape(1)).t()[:0]


@operator("Compress", category="movement", layout=COMPRESS, fusion=OPAQUE)
def compress(call, x, condition):
    axis = call.attr("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    return x.index_select(axis, torch.nonzero(condition).reshape(-1))


@operator("Unique", category="movement", layout=BARRIER, fusion=OPAQUE)
def unique(call, x):
    """The distinct elements, or slices along the axis; the index of the first of each, the inverse, and the counts."""
    axis = call.attr("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    values, which, counts = torch.unique(x, return_inverse=True, return_counts=True, dim=axis)
    places = torch.arange(x.shape[axis], device=x.device)
    first = torch.full_like(counts, x.shape[axis]).scatter_reduce(0, which, places, "amin")
    if not call.attr("sorted"):
        order = first.argsort()
        values, first, counts = values.index_select(axis, order), first[order], counts[order]
        which = order.argsort()[which]
    return values, first, which, counts
