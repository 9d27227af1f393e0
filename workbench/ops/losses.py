"""Losses: the negative log likelihood of classes, with or without a softmax before it."""

from __future__ import annotations

from workbench.ops.contract import Call, operator, per_input
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import BARRIER


@operator("NegativeLogLikelihoodLoss", category="reduction", layout=BARRIER, fusion=OPAQUE, flops=per_input(1))
def nll_loss(call, x, target, weight=None):
    return _loss(call, x, target, weight)


@operator("SoftmaxCrossEntropyLoss", category="reduction", layout=BARRIER, fusion=OPAQUE, flops=per_input(6))
def softmax_cross_entropy_loss(call, scores, labels, weights=None):
    log_likelihood = torch.log_softmax(scores, 1)
    return _loss(call, log_likelihood, labels, weights), log_likelihood


def _loss(call: Call, x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    """The loss of [batch, classes, places...] and [batch, places...]; torch has one axis of places, or none."""
    ignored = call.attr("ignore_index")
    reduction = call.attr("reduction")
    target = target.to(torch.int64)
    loss = F.nll_loss(
        x.flatten(2) if x.dim() > 3 else x,
        target.flatten(1) if target.dim() > 2 else target,
        weight,
        ignore_index=_NO_CLASS if ignored is None else ignored,
        reduction=reduction,
    )
    return loss.reshape(target.shape) if reduction == "none" else loss


_NO_CLASS = -(1 << 62)  # torch ignores -100 unless it is told otherwise
