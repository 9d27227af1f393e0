"""Reductions along axes, running sums, and the largest elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from workbench.ops.contract import Call, operator, per_input
from workbench.ops.fusion_kinds import OPAQUE, REDUCTION
from workbench.ops.lazy import torch
from workbench.ops.permutation.permuted_attributes import ARG, CUMULATIVE, REDUCE, TOP_K

_Reduce: TypeAlias = Callable[["torch.Tensor", tuple[int, ...], bool], "torch.Tensor"]


def _reduction(op: str, flops: int = 1) -> Callable[[_Reduce], _Reduce]:
    """Register `reduce(x, axes, keep)` as operator `op`; keep: whether the axes stay, with size 1."""

    def register(reduce: _Reduce) -> _Reduce:
        def run(call: Call, x: torch.Tensor, axes: torch.Tensor | None = None) -> torch.Tensor:
            """E is D without the axes, or with 1 in their place.

            x: [*D], axes: [K] -> [*E]
            """
            chosen = () if axes is None else tuple(axes.reshape(-1).tolist())
            if not chosen and not call.attr("noop_with_empty_axes"):
                chosen = tuple(range(x.dim()))
            if not chosen:  # each element separately
                return reduce(x.unsqueeze(0), (0,), False).to(x.dtype)
            result = reduce(x, chosen, call.attr("keepdims") == 1)
            return result if x.dtype.is_floating_point else result.to(x.dtype)

        operator(op, category="reduction", layout=REDUCE, fusion=REDUCTION, flops=per_input(flops), host_inputs=(1,))(
            run
        )
        return reduce

    return register


@_reduction("ReduceSum")
def reduce_sum(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    return x.sum(axes, keep)


@_reduction("ReduceMean")
def reduce_mean(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    """The mean of no elements, which ONNX does not define, is 0 as in ONNX Runtime."""
    if not x.numel():
        return x.sum(axes, keep)
    if x.dtype.is_floating_point:
        return x.mean(axes, keep)
    count = math.prod(x.shape[axis] for axis in axes)
    return torch.div(x.sum(axes, keepdim=keep), count, rounding_mode="trunc")


@_reduction("ReduceMax")
def reduce_max(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    return _extreme(x, axes, keep, largest=True)


@_reduction("ReduceMin")
def reduce_min(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    return _extreme(x, axes, keep, largest=False)


def _extreme(x: torch.Tensor, axes: tuple[int, ...], keep: bool, largest: bool) -> torch.Tensor:
    """The largest or the smallest elements; of no elements, the neutral element of the comparison."""
    if x.numel():
        return x.amax(axes, keepdim=keep) if largest else x.amin(axes, keepdim=keep)
    shape = x.sum(axes, keepdim=keep).shape
    if x.dtype.is_floating_point:
        neutral: float | bool = -math.inf if largest else math.inf
    elif x.dtype == torch.bool:
        neutral = not largest
    else:
        neutral = torch.iinfo(x.dtype).min if largest else torch.iinfo(x.dtype).max
    return torch.full(shape, neutral, dtype=x.dtype, device=x.device)


@_reduction("ReduceProd")
def reduce_prod(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


@_reduction("ReduceL1", 2)
def reduce_l1(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    return x.abs().sum(axes, keepdim=keep)


@_reduction("ReduceL2", 2)
def reduce_l2(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    floats = x if x.dtype.is_floating_point else x.double()
    norm: torch.Tensor = torch.linalg.vector_norm(floats, 2, axes, keepdim=keep)
    return norm


@_reduction("ReduceSumSquare", 2)
def reduce_sum_square(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    return (x * x).sum(axes, keepdim=keep)


@_reduction("ReduceLogSum")
def reduce_log_sum(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    return x.sum(axes, keepdim=keep).log()


@_reduction("ReduceLogSumExp", 3)
def reduce_log_sum_exp(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    return torch.logsumexp(x if x.dtype.is_floating_point else x.double(), axes, keepdim=keep)


def index_of_largest(x: torch.Tensor, axis: int, keep: bool, last: bool = False) -> torch.Tensor:
    """The index of the largest number along the axis: of equal ones the first, or the last.

    ONNX Runtime keeps a running maximum, so that a NaN is ignored unless it is at index 0, where it is the result.
    """
    numbers = x.nan_to_num(-math.inf, math.inf, -math.inf) if x.dtype.is_floating_point else x
    if last:
        if x.dtype.is_floating_point:  # a NaN is not equal even to the -inf in its place
            numbers = (x == numbers.amax(axis, True)).byte()
        index = numbers.shape[axis] - 1 - numbers.flip(axis).argmax(axis, True)
    else:
        index = numbers.argmax(axis, True)
    if x.dtype.is_floating_point:
        index = torch.where(x.narrow(axis, 0, 1).isnan(), 0, index)
    return index if keep else index.squeeze(axis)


def _arg(op: str, key: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def run(call: Call, x: torch.Tensor) -> torch.Tensor:
        """x: [*A, D, *B] -> [*A, 1, *B] or [*A, *B]"""
        axis, keep = call.attr("axis"), call.attr("keepdims") == 1
        return index_of_largest(key(x), axis, keep, bool(call.attr("select_last_index")))

    operator(op, category="reduction", layout=ARG, fusion=REDUCTION, flops=per_input(1))(run)


_arg("ArgMax", lambda x: x)
_arg("ArgMin", lambda x: -x if x.dtype.is_floating_point else ~x)  # -x overflows for the smallest integer


def _cumulative(op: str, accumulate: Callable[[torch.Tensor, int], torch.Tensor], neutral: int) -> None:
    def run(call: Call, x: torch.Tensor, axis_input: torch.Tensor) -> torch.Tensor:
        axis, backwards = int(axis_input), bool(call.attr("reverse"))
        ordered = x.flip(axis) if backwards else x
        total = accumulate(ordered, axis)
        if call.attr("exclusive") and total.numel():
            first = torch.full_like(total.narrow(axis, 0, 1), neutral)
            total = torch.cat([first, total.narrow(axis, 0, total.shape[axis] - 1)], axis)
        return total.flip(axis) if backwards else total

    operator(op, category="reduction", layout=CUMULATIVE, fusion=OPAQUE, flops=per_input(1), host_inputs=(1,))(run)


_cumulative("CumSum", lambda x, axis: x.cumsum(axis, dtype=x.dtype), 0)
_cumulative("CumProd", lambda x, axis: x.cumprod(axis, dtype=x.dtype), 1)


@operator("TopK", category="reduction", layout=TOP_K, fusion=OPAQUE, flops=per_input(1), host_inputs=(1,))
def top_k(call: Call, x: torch.Tensor, count: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A stable sort: ties are ordered by index, which torch.topk does not guarantee.

    x: [*A, D, *B], count: [1] -> values: [*A, K, *B], indices: [*A, K, *B]
    """
    axis = call.attr("axis")
    values, indices = torch.sort(x, dim=axis, descending=bool(call.attr("largest")), stable=True)
    return values.narrow(axis, 0, int(count)), indices.narrow(axis, 0, int(count))
