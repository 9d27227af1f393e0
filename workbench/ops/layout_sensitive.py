"""Registers layout-sensitive operators with their channels-last forms.

Both use the same torch function: a contiguous [N, H, W, C] tensor permuted to [N, C, H, W] is a view in torch's
channels-last memory format. torch computes in that format and returns its result in it; permuted back, the result is
contiguous again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Concatenate, TypeAlias, TypeVar

from workbench.ir import Node, TensorType
from workbench.ir.permutation import Permutation, channels_first, channels_last, inverse
from workbench.ops.channels_last import IMAGES, LAYOUT_NAMES, WITH_SECOND, channels_last_op, weight_permutation
from workbench.ops.contract import Call, FlopCount, Types, operator
from workbench.ops.fusion_kinds import FusionKind, KindOfNode
from workbench.ops.permuted_images import channels_last_layout, sensitive_layout

if TYPE_CHECKING:
    import torch

CONV_WEIGHTS = (None, "OHWI", "HWIO", "HWOI")  # orders of a weight's axes; None: ONNX's
ImageRun: TypeAlias = Callable[Concatenate[Call, ...], "torch.Tensor | tuple[torch.Tensor, ...]"]
_R = TypeVar("_R", bound=ImageRun)


def layout_sensitive_operator(
    op: str,
    *,
    category: str,
    fusion: FusionKind | KindOfNode,
    flops: FlopCount | None = None,
    host_inputs: tuple[int, ...] = (),
    ranks: Sequence[int] = tuple(LAYOUT_NAMES),
    weights: Sequence[str | None] = (None,),
) -> Callable[[_R], _R]:
    """Register the decorated channels-first function as `op` and as `workbench.<op>_NHWC`, one form for each rank."""

    def register(run: _R) -> _R:
        operator(
            op,
            category=category,
            layout=sensitive_layout(tuple(ranks)),
            fusion=fusion,
            flops=flops,
            host_inputs=host_inputs,
        )(run)
        name = op.removeprefix("workbench.")
        forms = (name, WITH_SECOND[name]) if name in WITH_SECOND else (name,)
        for form, rank, order in itertools.product(forms, ranks, weights):
            domain, op_type = channels_last_op(form, rank, order)
            weight_perm = None if order is None else inverse(weight_permutation(order, rank))
            operator(
                f"{domain}.{op_type}",
                category=category,
                layout=channels_last_layout(op, rank, IMAGES.get(name, (0,)), True),
                fusion=fusion,
                flops=None if flops is None else _channels_last_flops(flops, rank, weight_perm),
                host_inputs=host_inputs,
            )(_channels_last_run(run, rank, weight_perm, IMAGES.get(name, (0,))))
        return run

    return register


def _channels_last_run(run: ImageRun, rank: int, weight_perm: Permutation | None, images: tuple[int, ...]) -> ImageRun:
    """`run` on images that are channels last. weight_perm: from the weight's order of axes to ONNX's."""
    to_first, to_last = channels_first(rank), channels_last(rank)
    perms = dict.fromkeys(images, to_first) | ({} if weight_perm is None else {1: weight_perm})

    def native(call: Call, *operands: torch.Tensor | None) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Images as of `run`, with C as the last axis."""
        first = (x.permute(perms[i]) if i in perms and x is not None else x for i, x in enumerate(operands))
        results = run(call, *first)
        if isinstance(results, tuple):
            return tuple(result.permute(to_last).contiguous() for result in results)
        return results.permute(to_last).contiguous()

    return native


def _channels_last_flops(flops: FlopCount, rank: int, weight_perm: Permutation | None) -> FlopCount:
    to_first = channels_first(rank)

    def permuted(type_: TensorType | None, perm: Permutation | None) -> TensorType | None:
        if type_ is None or perm is None or type_.rank != len(perm):
            return type_
        return type_.permuted(perm)

    def channels_last_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
        first = [permuted(t, {0: to_first, 1: weight_perm}.get(i)) for i, t in enumerate(inputs)]
        return flops(node, first, [permuted(t, to_first) for t in outputs])

    return channels_last_flops
