"""Dropout, and the two operators of a bias and a Dropout that are computed together.

`random_mask_like(like, rate, seed)` draws the mask, `fused_bias_add_mask_scale(a, bias, mask, axis, scale)` does the
rest in one pass over `a`. Both are functions in the domain "workbench", whose bodies any runtime can run.

Source: OneFlow's operators of these names, https://github.com/Oneflow-Inc/oneflow/pull/7709.
"""

from __future__ import annotations

import numpy as np

from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, inverse
from workbench.ops.contract import Call, operator, per_output
from workbench.ops.fusion_kinds import BROADCAST, OPAQUE, if_not_training
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import ALL, BARRIER, DROPOUT, PermutedCall, remapped, with_attributes

# ONNX's Dropout has no ratio 1, at which nothing is kept: the mask of ratio 0 is drawn, and none of it used.
DROPOUT_BODIES = """
random_mask_like <rate, seed> (like) => (mask) {
    rate = Constant <value_float: float = @rate> ()
    one = Constant <value_float = 1.0> ()
    zero = Constant <value_float = 0.0> ()
    keeps_any = Less (rate, one)
    ratio = Where (keeps_any, rate, zero)
    training = Equal (one, one)
    dropped, drawn = Dropout <seed: int = @seed> (like, ratio, training)
    mask = And (drawn, keeps_any)
}
fused_bias_add_mask_scale <axis, scale> (a, bias, mask) => (y) {
    dims = Shape <start: int = @axis> (a)
    count = Shape (dims)
    ones = ConstantOfShape <value = int64[1] {1}> (count)
    first = Constant <value_ints = [1]> ()
    end = Constant <value_ints = [9223372036854775807]> ()
    behind = Slice (ones, first, end)
    channels = Shape (bias)
    along_shape = Concat <axis = 0> (channels, behind)
    along = Reshape (bias, along_shape)
    biased = Add (a, along)
    kept = CastLike (mask, a)
    masked = Mul (biased, kept)
    scale = Constant <value_float: float = @scale> ()
    scale_like = CastLike (scale, a)
    y = Mul (masked, scale_like)
}
"""
DROPOUT_OPERATORS = ("random_mask_like", "fused_bias_add_mask_scale")
_MODULUS, _FACTOR = 2**31 - 1, 16807  # of minstd_rand0
_RANGE = 2.0**31  # _MODULUS - 1 in float32
_BELOW_ONE = 1 - 2**-24  # the largest number below 1 in float32


def scale_of(rate: float) -> float:
    """1 / (1 - rate) in float32, which keeps the mean of what a Dropout leaves; 0 if it leaves nothing, as in PyTorch.

    rate: the share that is dropped, from 0 to 1.
    """
    kept = np.float32(1) - np.float32(rate)
    return float(np.float32(1) / kept) if kept else 0.0


def _drawn(call: Call, like: torch.Tensor, rate: float) -> torch.Tensor:
    """The mask: bool, of the shape of `like`; each element is true with probability 1 - rate.

    With a seed it is, on every device, the one that ONNX Runtime draws on the CPU when a session runs for the first
    time: numbers of minstd_rand0 in the order of the elements, divided by its range in float32. That is
    std::default_random_engine of GCC's library, with which ONNX Runtime is built for Linux; on other systems its masks
    are others.

    Source: Park and Miller, "Random Number Generators: Good Ones Are Hard to Find", CACM 1988; ONNX Runtime,
    onnxruntime/core/providers/cpu/nn/dropout_op.h.
    """
    seed, rate = call.attr("seed"), float(np.float32(rate))
    if seed is None:
        return torch.rand(like.shape, device=like.device) >= rate
    state = int(seed) % 2**64 % _MODULUS or 1
    numbers = torch.full((1,), state * _FACTOR % _MODULUS, device=like.device)
    ahead = _FACTOR  # the power of the factor that leads from the numbers known to as many next ones
    while len(numbers) < like.numel():
        numbers = torch.cat([numbers, numbers * ahead % _MODULUS])
        ahead = ahead * ahead % _MODULUS
    shares = ((numbers[: like.numel()] - 1).to(torch.float32) / _RANGE).clamp(max=_BELOW_ONE)
    return shares.reshape(like.shape) >= rate


@operator("Dropout", category="elementwise", layout=DROPOUT, fusion=if_not_training, host_inputs=(1, 2))
def dropout(call, x, ratio=None, training=None):
    """The identity, except in training."""
    share = 0.5 if ratio is None else float(ratio)
    if training is None or not bool(training) or share == 0.0:
        return (x, torch.ones_like(x, dtype=torch.bool)) if len(call.node.outputs) > 1 else x
    kept = _drawn(call, x, share)
    return (x * kept / (1.0 - share) if share < 1.0 else torch.zeros_like(x)), kept


@operator("workbench.random_mask_like", category="other", layout=BARRIER, fusion=OPAQUE, flops=per_output(1))
def random_mask_like(call, like):
    return _drawn(call, like, call.attr("rate"))


def _propagate_fused(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The mask is permuted with the first operand; the bias stays."""
    axis = inverse(perm)[node.attr("axis") % len(perm)]
    return PermutedCall((0, 2), (perm,), with_attributes(node, axis=axis))


@operator(
    "workbench.fused_bias_add_mask_scale",
    category="elementwise",
    layout=remapped(_propagate_fused, ALL),
    fusion=BROADCAST,
    flops=per_output(3),
)
def fused_bias_add_mask_scale(call, a, bias, mask):
    """(a + bias along `axis`) * mask * scale. mask: bool, of the shape of a; bias: one axis, of the size of a's."""
    behind = a.dim() - 1 - call.attr("axis") % a.dim()
    return (a + bias.reshape(-1, *(1,) * behind)) * mask * call.attr("scale")
