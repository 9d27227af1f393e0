"""Normalizations: by batch, instance, group, layer and neighbouring channels."""

from __future__ import annotations

from workbench.ops.contract import operator, per_output
from workbench.ops.dtypes import torch_dtype
from workbench.ops.fusion_kinds import FUSABLE, if_inference
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.remapped import LP_NORM, MEAN_VARIANCE, TRAILING_NORM
from workbench.ops.sensitive import sensitive


@sensitive("BatchNormalization", category="normalization", fusion=if_inference, flops=per_output(2))
def batch_normalization(call, x, scale, bias, mean, variance):
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
    momentum = call.attr("momentum", 0.9)
    now, spread = x.to(wide).mean(axes), x.to(wide).var(axes, correction=0)
    y = F.batch_norm(x.to(wide), now, spread, scale.to(wide), bias.to(wide), eps=eps).to(x.dtype)
    mean, variance = (old * momentum + new * (1 - momentum) for old, new in ((mean, now), (variance, spread)))
    return y, mean.to(parameters[0].dtype), variance.to(parameters[1].dtype)


@sensitive("InstanceNormalization", category="normalization", fusion=FUSABLE, flops=per_output(7))
def instance_normalization(call, x, scale, bias):
    return torch.group_norm(x, max(x.shape[1], 1), scale, bias, call.attr("epsilon", 1e-5))


@sensitive("GroupNormalization", category="normalization", fusion=FUSABLE, flops=per_output(7))
def group_normalization(call, x, scale, bias):
    wide = torch.float64 if _stash(call, x) == torch.float64 else x.dtype  # torch sums narrow floats in float32
    scale, bias = scale.to(wide), bias.to(wide)
    return torch.group_norm(x.to(wide), call.attr("num_groups"), scale, bias, call.attr("epsilon", 1e-5)).to(x.dtype)


@sensitive("LRN", category="normalization", fusion=FUSABLE, flops=per_output(6), ranks=(4,))
def lrn(call, x):
    """Each element divided by a power of the sum of squares of `size` neighbouring channels."""
    size = call.attr("size")
    before, channels = (size - 1) // 2, x.shape[1]
    squares = F.pad(x * x, [0, 0] * (x.dim() - 2) + [before, size - 1 - before])
    total = sum(squares.narrow(1, i, channels) for i in range(size))
    return x / (call.attr("bias", 1.0) + call.attr("alpha", 1e-4) / size * total) ** call.attr("beta", 0.75)


def layer_normalized(call, x, scale, bias=None):
    """The first result of LayerNormalization."""
    shape = x.shape[call.attr("axis", -1) % x.dim() :]
    if scale.shape == shape and (bias is None or bias.shape == shape):
        return F.layer_norm(x, shape, scale, bias, call.attr("epsilon", 1e-5))
    return _with_statistics(call, x, scale, bias)[0]


def _with_statistics(call, x, scale, bias):
    axes = list(range(call.attr("axis", -1) % x.dim(), x.dim()))
    wide = x.to(_stash(call, x))
    mean = wide.mean(axes, keepdim=True)
    inverse = (wide.var(axes, correction=0, keepdim=True) + call.attr("epsilon", 1e-5)).rsqrt()
    y = ((wide - mean) * inverse).to(x.dtype) * scale
    stashed = torch_dtype(call.attr("stash_type", 1))
    return y if bias is None else y + bias, mean.to(stashed), inverse.to(stashed)


@operator("LayerNormalization", category="normalization", layout=TRAILING_NORM, fusion=FUSABLE, flops=per_output(7))
def layer_normalization(call, x, scale, bias=None):
    if len(call.node.outputs) == 1:
        return layer_normalized(call, x, scale, bias)
    return _with_statistics(call, x, scale, bias)


@operator("RMSNormalization", category="normalization", layout=TRAILING_NORM, fusion=FUSABLE, flops=per_output(4))
def rms_normalization(call, x, scale):
    axes = list(range(call.attr("axis", -1) % x.dim(), x.dim()))
    wide = x.to(_stash(call, x))
    square = (wide * wide).mean(axes, keepdim=True)
    return (wide * (square + call.attr("epsilon", 1e-5)).rsqrt()).to(x.dtype) * scale


def _stash(call, x: torch.Tensor) -> torch.dtype:
    """The operand in the type that `stash_type` names, if it is a narrow float."""
    return torch.promote_types(x.dtype, torch_dtype(call.attr("stash_type", 1)))


@operator("LpNormalization", category="normalization", layout=LP_NORM, fusion=FUSABLE, flops=per_output(3))
def lp_normalization(call, x):
    p = call.attr("p")
    length = torch.linalg.vector_norm(x, p, call.attr("axis"), keepdim=True)
    return torch.where(length == 0, torch.zeros_like(x), x / length)


@operator(
    "MeanVarianceNormalization", category="normalization", layout=MEAN_VARIANCE, fusion=FUSABLE, flops=per_output(6)
)
def mean_variance_normalization(call, x):
    axes = list(call.attr("axes"))
    mean = x.mean(axes, keepdim=True)
    return (x - mean) / (x.std(axes, correction=0, keepdim=True) + 1e-9)
