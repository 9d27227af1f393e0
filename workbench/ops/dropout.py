"""Dropout, and an operator that draws its mask alone.

`random_mask_like(like, rate, seed)` is a function in the domain "workbench", whose body is ONNX's own operators.

Source: OneFlow's operator of this name, https://github.com/Oneflow-Inc/oneflow/pull/7709.
"""

from __future__ import annotations

import numpy as np

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.fusion_kinds import OPAQUE, if_not_training
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import DROPOUT, LAYOUT_BARRIER

# ONNX's Dropout does not accept ratio 1, which keeps nothing: the mask of ratio 0 is drawn, and cleared.
MASK_BODIES = {
    "random_mask_like": """
random_mask_like <rate, seed> (like) => (mask) {
    rate = Constant <value_float: float = @rate> ()
    one = Constant <value_float = 1.0> ()
    zero = Constant <value_float = 0.0> ()
    keeps_any = Less (rate, one)
    ratio = Where (keeps_any, rate, zero)
    training = Equal (one, one)
    dropped, drawn = Dropout <seed: int = @seed> (like, ratio, training)
    mask = And (drawn, keeps_any)
}"""
}
_MODULUS, _FACTOR = 2**31 - 1, 16807  # the constants of minstd_rand0
_RANGE = 2.0**31  # _MODULUS - 1 in float32
_BELOW_ONE = 1 - 2**-24  # the largest number below 1 in float32


def scale_of(rate: float) -> float:
    """1 / (1 - rate) in float32, by which Dropout multiplies what it keeps; 0, as in PyTorch, if it keeps nothing.

    rate: the share that is dropped, from 0 to 1.
    """
    share_kept = np.float32(1) - np.float32(rate)
    return float(np.float32(1) / share_kept) if share_kept else 0.0


def _drawn(call: Call, like: torch.Tensor, rate: float) -> torch.Tensor:
    """The mask: bool, of the shape of `like`; each element is true with probability 1 - rate.

    With a seed it is, on every device, the mask that ONNX Runtime draws on the CPU in the first run of a session:
    numbers of minstd_rand0 in the order of the elements, divided by its range in float32. This generator is
    std::default_random_engine of GCC's library. ONNX Runtime is built with that for Linux only, and draws other masks
    on other systems.

    Source: Park and Miller, "Random Number Generators: Good Ones Are Hard to Find", CACM 1988; ONNX Runtime,
    onnxruntime/core/providers/cpu/nn/dropout_op.h.
    """
    seed, rate = call.attr("seed"), float(np.float32(rate))
    if seed is None:
        return torch.rand(like.shape, device=like.device) >= rate
    state = int(seed) % 2**64 % _MODULUS or 1
    numbers = torch.full((1,), state * _FACTOR % _MODULUS, device=like.device)
    ahead = _FACTOR  # the power of the factor that gives the next len(numbers) numbers
    while len(numbers) < like.numel():
        numbers = torch.cat([numbers, numbers * ahead % _MODULUS])
        ahead = ahead * ahead % _MODULUS
    shares = ((numbers[: like.numel()] - 1).to(torch.float32) / _RANGE).clamp(max=_BELOW_ONE)
    return shares.reshape(like.shape) >= rate


@operator("Dropout", category="elementwise", layout=DROPOUT, fusion=if_not_training, host_inputs=(1, 2))
def dropout(
    call: Call, x: torch.Tensor, ratio: torch.Tensor | None = None, training: torch.Tensor | None = None
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """x, or in training x * mask / (1 - ratio), and the mask."""
    rate = 0.5 if ratio is None else float(ratio)
    if training is None or not bool(training) or rate == 0.0:
        return (x, torch.ones_like(x, dtype=torch.bool)) if len(call.node.outputs) > 1 else x
    mask, share_kept = _drawn(call, x, rate), float(np.float32(1) - np.float32(rate))
    return (x * mask / share_kept if share_kept else torch.zeros_like(x)), mask


@operator("workbench.random_mask_like", category="other", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=per_output(1))
def random_mask_like(call: Call, like: torch.Tensor) -> torch.Tensor:
    return _drawn(call, like, call.attr("rate"))
