"""Losses: the negative log likelihood of classes, with or without a softmax before it."""

from __future__ import annotations

from workbench.ops.contract import Call, operator, per_input
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER


@operator("NegativeLogLikelihoodLoss", category="reduction", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=per_input(1))
def nll_loss(call: Call, x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    """The loss of each label, or their sum or mean, as the attribute `reduction` says.

    x: [N, C, *D], target: [N, *D], weight: [C] -> [N, *D] or []
    """
    return _loss(call, x, target, weight)


@operator("SoftmaxCrossEntropyLoss", category="reduction", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=per_input(6))
def softmax_cross_entropy_loss(
    call: Call, scores: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """NegativeLogLikelihoodLoss of log_softmax(scores); also returns log_softmax(scores).

    scores: [N, C, *D], labels: [N, *D], weights: [C] -> loss: [N, *D] or [], log_likelihood: [N, C, *D]
    """
    log_likelihood = torch.log_softmax(scores, 1)
    return _loss(call, log_likelihood, labels, weights), log_likelihood


def _loss(call: Call, x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    """torch's kernel has at most one axis behind N and C, so the axes *D are flattened.

    x: [N, C, *D], target: [N, *D], weight: [C] -> [N, *D] or []
    """
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


_NO_CLASS = -(1 << 62)  # without an index to ignore, torch would ignore -100
