"""Normalizations: by batch, instance, group, layer and neighbouring channels."""

from __future__ import annotations

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.dtypes import torch_dtype
from workbench.ops.fusion_kinds import FUSABLE, if_inference
from workbench.ops.layout_sensitive import layout_sensitive_operator
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.permuted_attributes import LP_NORM, MEAN_VARIANCE, TRAILING_NORM


@layout_sensitive_operator("BatchNormalization", category="normalization", fusion=if_inference, flops=per_output(2))
def batch_normalization(
    call: Call, x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """In training, x is normalized by its own statistics, which are merged into the running mean and variance.

    x: [N, C, *D], scale: [C], bias: [C], mean: [C], variance: [C] ->
        y: [N, C, *D], running_mean: [C], running_variance: [C]
    """
    eps = call.attr("epsilon", 1e-5)
    parameters = (mean, variance, scale, bias)
    wide = torch.promote_types(x.dtype, torch.float32)
    if any(p.dtype != x.dtype for p in parameters):  # torch accepts narrow operands with wide parameters
        mean, variance, scale, bias = (p.to(wide) for p in parameters)
    if not call.attr("training_mode", 0):
        if not x.numel():  # torch requires a channel axis
            return x
        return F.batch_norm(x, mean, variance, scale, bias, eps=eps)
    axes = [0, *range(2, x.dim())]
    momentum: float = call.attr("momentum", 0.9)
    x_mean, x_variance = x.to(wide).mean(axes), x.to(wide).var(axes, correction=0)
    y = F.batch_norm(x.to(wide), x_mean, x_variance, scale.to(wide), bias.to(wide), eps=eps).to(x.dtype)
    mean = mean * momentum + x_mean * (1 - momentum)
    variance = variance * momentum + x_variance * (1 - momentum)
    return y, mean.to(parameters[0].dtype), variance.to(parameters[1].dtype)


@layout_sensitive_operator("InstanceNormalization", category="normalization", fusion=FUSABLE, flops=per_output(7))
def instance_normalization(call: Call, x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """x: [N, C, *D], scale: [C], bias: [C] -> [N, C, *D]"""
    return torch.group_norm(x, max(x.shape[1], 1), scale, bias, call.attr("epsilon", 1e-5))


@layout_sensitive_operator("GroupNormalization", category="normalization", fusion=FUSABLE, flops=per_output(7))
def group_normalization(call: Call, x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """x: [N, C, *D], scale: [C], bias: [C] -> [N, C, *D]"""
    wide = torch.float64 if _stash(call, x) == torch.float64 else x.dtype  # torch sums narrow floats in float32
    scale, bias = scale.to(wide), bias.to(wide)
    return torch.group_norm(x.to(wide), call.attr("num_groups"), scale, bias, call.attr("epsilon", 1e-5)).to(x.dtype)


@layout_sensitive_operator("LRN", category="normalization", fusion=FUSABLE, flops=per_output(6), ranks=(4,))
def lrn(call: Call, x: torch.Tensor) -> torch.Tensor:
    """Divides each element by a power of the sum of squares of `size` neighbouring channels.

    x: [N, C, *D] -> [N, C, *D]
    """
    size: int = call.attr("size")
    bias: float = call.attr("bias", 1.0)
    alpha: float = call.attr("alpha", 1e-4)
    beta: float = call.attr("beta", 0.75)
    before, channels = (size - 1) // 2, x.shape[1]
    squares = F.pad(x * x, [0, 0] * (x.dim() - 2) + [before, size - 1 - before])
    total = sum(squares.narrow(1, i, channels) for i in range(size))
    return x / (bias + alpha / size * total) ** beta


def layer_normalized(
    call: Call, x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """The first result of LayerNormalization.

    x: [*A, *D], scale: broadcast to [*A, *D], bias: broadcast to [*A, *D] -> [*A, *D]
    """
    shape = x.shape[call.attr("axis", -1) % x.dim() :]
    if scale.shape == shape and (bias is None or bias.shape == shape):
        return torch.layer_norm(x, shape, scale, bias, call.attr("epsilon", 1e-5))
    return _with_statistics(call, x, scale, bias)[0]


def _with_statistics(
    call: Call, x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    axes = list(range(call.attr("axis", -1) % x.dim(), x.dim()))
    wide = x.to(_stash(call, x))
    mean = wide.mean(axes, keepdim=True)
    epsilon: float = call.attr("epsilon", 1e-5)
    inverse = (wide.var(axes, correction=0, keepdim=True) + epsilon).rsqrt()
    y = ((wide - mean) * inverse).to(x.dtype) * scale
    stashed = torch_dtype(call.attr("stash_type", 1))
    return y if bias is None else y + bias, mean.to(stashed), inverse.to(stashed)


@operator("LayerNormalization", category="normalization", layout=TRAILING_NORM, fusion=FUSABLE, flops=per_output(7))
def layer_normalization(
    call: Call, x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The axes D, from `axis` on, are normalized; they are 1 in mean and inverse deviation.

    x: [*A, *D], scale: broadcast to [*A, *D], bias: broadcast to [*A, *D] ->
        y: [*A, *D], mean: [*A, *E], inverse_deviation: [*A, *E]
    """
    if len(call.node.outputs) == 1:
        return layer_normalized(call, x, scale, bias)
    return _with_statistics(call, x, scale, bias)


@operator("RMSNormalization", category="normalization", layout=TRAILING_NORM, fusion=FUSABLE, flops=per_output(4))
def rms_normalization(call: Call, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The axes D, from `axis` on, are normalized.

    x: [*A, *D], scale: broadcast to [*A, *D] -> [*A, *D]
    """
    epsilon: float = call.attr("epsilon", 1e-5)
    axes = list(range(call.attr("axis", -1) % x.dim(), x.dim()))
    wide = x.to(_stash(call, x))
    square = (wide * wide).mean(axes, keepdim=True)
    return (wide * (square + epsilon).rsqrt()).to(x.dtype) * scale


def _stash(call: Call, x: torch.Tensor) -> torch.dtype:
    """The type in which statistics are computed: the wider of x's and `stash_type`."""
    return torch.promote_types(x.dtype, torch_dtype(call.attr("stash_type", 1)))


@operator("LpNormalization", category="normalization", layout=LP_NORM, fusion=FUSABLE, flops=per_output(3))
def lp_normalization(call: Call, x: torch.Tensor) -> torch.Tensor:
    norm: torch.Tensor = torch.linalg.vector_norm(x, call.attr("p"), call.attr("axis"), keepdim=True)
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


@operator(
    "MeanVarianceNormalization", category="normalization", layout=MEAN_VARIANCE, fusion=FUSABLE, flops=per_output(6)
)
def mean_variance_normalization(call: Call, x: torch.Tensor) -> torch.Tensor:
    axes = list(call.attr("axes"))
    mean = x.mean(axes, keepdim=True)
    return (x - mean) / (x.std(axes, correction=0, keepdim=True) + 1e-9)
