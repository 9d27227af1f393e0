"""Operators that read and write elements by index."""

from __future__ import annotations

import math

from workbench.ops.contract import Call, operator
from workbench.ops.fusion_kinds import INJECTIVE, OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.permutation.indexed import GATHER, GATHER_ND
from workbench.ops.permutation.kinds import LAYOUT_BARRIER
from workbench.ops.permutation.permuted_attributes import ALONG_ELEMENTS, COMPRESS, ONE_HOT

_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _from_front(indices: torch.Tensor, length: int) -> torch.Tensor:
    """The same indices in int64, those that count from the end too."""
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + length, indices)


@operator("Gather", category="movement", layout=GATHER, fusion=INJECTIVE)
def gather(call: Call, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """x: [*A, L, *B], indices: [*K] -> [*A, *K, *B]"""
    axis = call.attr("axis") % x.dim()
    number = call.number(1)
    if number is not None:
        return x.select(axis, number)  # a view
    rows = x.index_select(axis, _from_front(indices, x.shape[axis]).reshape(-1))
    return rows.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


@operator("GatherElements", category="movement", layout=ALONG_ELEMENTS, fusion=INJECTIVE)
def gather_elements(call: Call, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """x: [*D], indices: [*E] -> [*E]"""
    axis = call.attr("axis")
    return x.gather(axis, _from_front(indices, x.shape[axis]))


def _flat_indices(indices: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Coordinates [*K, R] in a tensor of R axes and this shape, as indices [*K] into its flattened elements."""
    flat = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=indices.device)
    for axis, length in enumerate(shape):
        flat = flat * length + _from_front(indices[..., axis], length)
    return flat


@operator("GatherND", category="movement", layout=GATHER_ND, fusion=INJECTIVE)
def gather_nd(call: Call, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """N are the batch axes, D the R axes that are indexed.

    x: [*N, *D, *E], indices: [*N, *K, R] -> [*N, *K, *E]
    """
    batch, depth = call.attr("batch_dims"), indices.shape[-1]
    indexed, rest = x.shape[batch : batch + depth], x.shape[batch + depth :]
    flat = _flat_indices(indices, indexed)
    count = x.shape[:batch].numel()
    numbers = torch.arange(count, device=x.device).unsqueeze(1) * indexed.numel() + flat.reshape(count, -1)
    rows = x.reshape([count * indexed.numel(), *rest]).index_select(0, numbers.reshape(-1))
    return rows.reshape([*indices.shape[:-1], *rest])


@operator("ScatterElements", category="movement", layout=ALONG_ELEMENTS, fusion=OPAQUE)
def scatter_elements(call: Call, x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    """x: [*D], indices: [*E], updates: [*E] -> [*D]"""
    axis, reduction = call.attr("axis"), call.attr("reduction")
    indices = _from_front(indices, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, indices, updates)
    return x.scatter_reduce(axis, indices, updates, _REDUCE[reduction], include_self=True)


@operator("ScatterND", category="movement", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def scatter_nd(call: Call, x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    """D are the R axes that are indexed.

    x: [*D, *E], indices: [*K, R], updates: [*K, *E] -> [*D, *E]
    """
    depth, reduction = indices.shape[-1], call.attr("reduction")
    numbers = _flat_indices(indices, x.shape[:depth]).reshape(-1)
    rest = math.prod(x.shape[depth:])
    rows, new = x.reshape(x.shape[:depth].numel(), rest), updates.reshape(numbers.numel(), rest)
    numbers = numbers.unsqueeze(1).expand(new.shape)
    if reduction == "none":
        return rows.scatter(0, numbers, new).reshape(x.shape)
    return rows.scatter_reduce(0, numbers, new, _REDUCE[reduction], include_self=True).reshape(x.shape)


@operator("TensorScatter", category="movement", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def tensor_scatter(
    call: Call, past: torch.Tensor, update: torch.Tensor, starts: torch.Tensor | None = None
) -> torch.Tensor:
    """A copy of the cache, with the update written along the axis from the index `starts[n]` on.

    past: [N, *A, L, *B], update: [N, *A, K, *B], starts: [N] -> [N, *A, L, *B]
    """
    axis, length = call.attr("axis") % past.dim(), update.shape[call.attr("axis")]
    steps = torch.arange(length, device=past.device)
    first = torch.zeros(past.shape[0], dtype=torch.int64, device=past.device) if starts is None else starts
    indices = first.unsqueeze(1) + steps
    if call.attr("mode") == "circular":
        indices = indices % past.shape[axis]
    view = [1] * past.dim()
    view[0], view[axis] = past.shape[0], length
    return past.scatter(axis, indices.reshape(view).expand(update.shape), update)


@operator("OneHot", category="movement", layout=ONE_HOT, fusion=INJECTIVE, host_inputs=(1,))
def one_hot(call: Call, indices: torch.Tensor, depth: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """values[1] at the index, values[0] elsewhere.

    indices: [*A, *B], depth: [] or [1], values: [2] -> [*A, C, *B]
    """
    count = int(depth.reshape(()))
    axis = call.attr("axis") % (indices.dim() + 1)
    view = [1] * (indices.dim() + 1)
    view[axis] = count
    classes = torch.arange(count, device=indices.device).reshape(view)
    hot = _from_front(indices, count).unsqueeze(axis) == classes
    return torch.where(hot, values[1], values[0])


@operator("NonZero", category="movement", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def non_zero(call: Call, x: torch.Tensor) -> torch.Tensor:
    """The coordinates of each nonzero element, as a column.

    x: [*D] -> [R, K]
    """
    return torch.nonzero(x).t().contiguous() if x.dim() else torch.nonzero(x.reshape(1)).t()[:0]


@operator("Compress", category="movement", layout=COMPRESS, fusion=OPAQUE)
def compress(call: Call, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
    """The slices along the axis, or without one the elements, at which the condition is true.

    x: [*A, L, *B], condition: [M] -> [*A, K, *B]
    x: [*D], condition: [M] -> [K]
    """
    axis = call.attr("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    return x.index_select(axis, torch.nonzero(condition).reshape(-1))


@operator("Unique", category="movement", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def unique(call: Call, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The distinct slices along the axis, or without one the distinct elements.

    first: the index of the first of each. which: for each slice of x the distinct one that equals it.

    x: [*A, L, *B] -> values: [*A, K, *B], first: [K], which: [L], counts: [K]
    x: [*D] -> values: [K], first: [K], which: [L], counts: [K]
    """
    axis = call.attr("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    values, which, counts = torch.unique(x, return_inverse=True, return_counts=True, dim=axis)
    indices = torch.arange(x.shape[axis], device=x.device)
    first = torch.full_like(counts, x.shape[axis]).scatter_reduce(0, which, indices, "amin")
    if not call.attr("sorted"):
        order = first.argsort()
        values, first, counts = values.index_select(axis, order), first[order], counts[order]
        which = order.argsort()[which]
    return values, first, which, counts
