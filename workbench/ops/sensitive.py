"""Layout-sensitive operators enter the table with their channels-last forms.

The form's torch function is the operator's own: a contiguous [N,H,W,C] tensor
permuted to [N,C,H,W] is a free view in torch's channels-last memory format, in
which torch computes and gives its result; permuted back it is contiguous again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.ir import Node, TensorType
from workbench.ir.permutation import Permutation, channels_first, channels_last, inverse
from workbench.ops.channels_last import LAYOUT_NAMES, channels_last_op, weight_permutation
from workbench.ops.contract import Call, Figure, Types, operator
from workbench.ops.layouts import SENSITIVE

CONV_WEIGHTS = (None, "OHWI", "HWIO", "HWOI")


def sensitive(
    op: str,
    *,
    category: str,
    flops: Figure | None = None,
    host_inputs: tuple[int, ...] = (),
    ranks: Sequence[int] = tuple(LAYOUT_NAMES),
    weights: Sequence[str | None] = (None,),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the decorated channels-first function as `op` and as `workbench.<op>_NHWC`, one form a rank."""

    def enter(run: Callable[..., Any]) -> Callable[..., Any]:
        operator(op, category=category, layout=SENSITIVE, flops=flops, host_inputs=host_inputs)(run)
        for rank in ranks:
            for order in weights:
                domain, op_type = channels_last_op(op.removeprefix("workbench."), rank, order)
                weight_perm = None if order is None else inverse(weight_permutation(order, rank))
                operator(
                    f"{domain}.{op_type}",
                    category=category,
                    flops=None if flops is None else _channels_last_figure(flops, rank, weight_perm),
                    host_inputs=host_inputs,
                )(_channels_last_run(run, rank, weight_perm))
        return run

    return enter


def _channels_last_run(run: Callable[..., Any], rank: int, weight_perm: Permutation | None) -> Callable[..., Any]:
    to_first, to_last = channels_first(rank), channels_last(rank)

    def native(call: Call, x: Any, *rest: Any) -> Any:
        if weight_perm is not None:
            rest = (rest[0].permute(weight_perm), *rest[1:])
        return run(call, x.permute(to_first), *rest).permute(to_last).contiguous()

    return native


def _channels_last_figure(figure: Figure, rank: int, weight_perm: Permutation | None) -> Figure:
    to_first = channels_first(rank)

    def permuted(type_: TensorType | None, perm: Permutation | None) -> TensorType | None:
        if type_ is None or perm is None or type_.rank != len(perm):
            return type_
        return type_.permuted(perm)

    def channels_last_figure(node: Node, inputs: Types, outputs: Types) -> int | None:
        first = [permuted(t, {0: to_first, 1: weight_perm}.get(i)) for i, t in enumerate(inputs)]
        return figure(node, first, [permuted(t, to_first) for t in outputs])

    return channels_last_figure
