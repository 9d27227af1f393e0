"""Reductions along axes, running sums, and the largest elements."""

from __future__ import annotations

import math
from collections.abc import Callable

from workbench.ops.contract import Call, operator, per_input
from workbench.ops.fusion_kinds import OPAQUE, REDUCTION
from workbench.ops.lazy import torch
from workbench.ops.permutation.remapped import ARG, REDUCE, RUNNING, TOP_K


def _reduction(op: str, flops: int = 1):
    """Register `reduce(x, axes, keep)`, which is called with the node's axes and whether they are kept."""

    def enter(reduce: Callable[..., torch.Tensor]):
        def run(call: Call, x: torch.Tensor, axes: torch.Tensor | None = None) -> torch.Tensor:
            chosen = () if axes is None else tuple(axes.reshape(-1).tolist())
            if not chosen and not call.attr("noop_with_empty_axes"):
                chosen = tuple(range(x.dim()))
            if not chosen:  # each element separately
                return reduce(x.unsqueeze(0), (0,), False).to(x.dtype)
            return reduce(x, chosen, call.attr("keepdims") == 1).to(x.dtype)

        operator(op, category="reduction", layout=REDUCE, fusion=REDUCTION, flops=per_input(flops), host_inputs=(1,))(
            run
        )
        return reduce

    return enter


@_reduction("ReduceSum")
def reduce_sum(x, axes, keep):
    return x.sum(axes, keepdim=keep)


@_reduction("ReduceMean")
def reduce_mean(x, axes, keep):
    """The mean of no elements, which ONNX leaves undefined, is 0 as in ONNX Runtime."""
    if not x.numel():
        return x.sum(axes, keepdim=keep)
    if x.dtype.is_floating_point:
        return x.mean(axes, keepdim=keep)
    count = math.prod(x.shape[axis] for axis in axes)
    return torch.div(x.sum(axes, keepdim=keep), count, rounding_mode="trunc")


@_reduction("ReduceMax")
def reduce_max(x, axes, keep):
    return _extreme(x, axes, keep, torch.amax, largest=True)


@_reduction("ReduceMin")
def reduce_min(x, axes, keep):
    return _extreme(x, axes, keep, torch.amin, largest=False)


def _extreme(x: torch.Tensor, axes: tuple[int, ...], keep: bool, reduce: Callable, largest: bool) -> torch.Tensor:
    """The extreme of no elements is the neutral element of the comparison."""
    if x.numel():
        return reduce(x, axes, keepdim=keep)
    shape = x.sum(axes, keepdim=keep).shape
    if x.dtype.is_floating_point:
        neutral: float | bool = -math.inf if largest else math.inf
    elif x.dtype == torch.bool:
        neutral = not largest
    else:
        neutral = torch.iinfo(x.dtype).min if largest else torch.iinfo(x.dtype).max
    return torch.full(shape, neutral, dtype=x.dtype, device=x.device)


@_reduction("ReduceProd")
def reduce_prod(x, axes, keep):
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


@_reduction("ReduceL1", 2)
def reduce_l1(x, axes, keep):
    return x.abs().sum(axes, keepdim=keep)


@_reduction("ReduceL2", 2)
def reduce_l2(x, axes, keep):
    if x.dtype.is_floating_point:
        return torch.linalg.vector_norm(x, 2, axes, keepdim=keep)
    return torch.linalg.vector_norm(x.double(), 2, axes, keepdim=keep).to(x.dtype)


@_reduction("ReduceSumSquare", 2)
def reduce_sum_square(x, axes, keep):
    return (x * x).sum(axes, keepdim=keep)


@_reduction("ReduceLogSum")
def reduce_log_sum(x, axes, keep):
    return x.sum(axes, keepdim=keep).log()


@_reduction("ReduceLogSumExp", 3)
def reduce_log_sum_exp(x, axes, keep):
    return torch.logsumexp(x if x.dtype.is_floating_point else x.double(), axes, keepdim=keep)


def place_of_largest(x: torch.Tensor, axis: int, keep: bool, last: bool = False) -> torch.Tensor:
    """The place of the largest number along the axis, the first or `last` of equal ones.

    As ONNX Runtime looks for it, comparing one by one with the largest so far: a NaN counts only at the first place,
    where no number is larger.
    """
    numbers = x.nan_to_num(-math.inf, math.inf, -math.inf) if x.dtype.is_floating_point else x
    place = numbers.shape[axis] - 1 - numbers.flip(axis).argmax(axis, True) if last else numbers.argmax(axis, True)
    if x.dtype.is_floating_point:
        place = torch.where(x.narrow(axis, 0, 1).isnan(), 0, place)
    return place if keep else place.squeeze(axis)


def _arg(op: str, ascending: Callable[[torch.Tensor], torch.Tensor]):
    def run(call: Call, x: torch.Tensor) -> torch.Tensor:
        axis, keep = call.attr("axis"), call.attr("keepdims") == 1
        return place_of_largest(ascending(x), axis, keep, bool(call.attr("select_last_index")))

    operator(op, category="reduction", layout=ARG, fusion=REDUCTION, flops=per_input(1))(run)


_arg("ArgMax", lambda x: x)
_arg("ArgMin", lambda x: -x if x.dtype.is_floating_point else ~x)  # -x overflows for the smallest integer


def _running(op: str, accumulate: Callable[..., torch.Tensor], neutral: int):
    def run(call: Call, x: torch.Tensor, axis_input: torch.Tensor) -> torch.Tensor:
        axis, backwards = int(axis_input), bool(call.attr("reverse"))
        ordered = x.flip(axis) if backwards else x
        total = accumulate(ordered, axis)
        if call.attr("exclusive") and total.numel():
            first = torch.full_like(total.narrow(axis, 0, 1), neutral)
            total = torch.cat([first, total.narrow(axis, 0, total.shape[axis] - 1)], axis)
        return total.flip(axis) if backwards else total

    operator(op, category="reduction", layout=RUNNING, fusion=OPAQUE, flops=per_input(1), host_inputs=(1,))(run)


_running("CumSum", lambda x, axis: x.cumsum(axis, dtype=x.dtype), 0)
_running("CumProd", lambda x, axis: x.cumprod(axis, dtype=x.dtype), 1)


@operator("TopK", category="reduction", layout=TOP_K, fusion=OPAQUE, flops=per_input(1), host_inputs=(1,))
def top_k(call, x, count):
    """Sorted; equal elements by index, which torch.topk does not guarantee."""
    axis = call.attr("axis")
    values, indices = torch.sort(x, dim=axis, descending=bool(call.attr("largest")), stable=True)
    return values.narrow(axis, 0, int(count)), indices.narrow(axis, 0, int(count))
