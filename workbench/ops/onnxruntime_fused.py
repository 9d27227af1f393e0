"""Operators into which ONNX Runtime's optimizer fuses others, in its domain com.microsoft.

Definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Callable

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.convolution import conv_flops, convolved
from workbench.ops.dtypes import CannotRun
from workbench.ops.fusion_kinds import BROADCAST, ELEMENTWISE, FUSABLE
from workbench.ops.lazy import F, torch
from workbench.ops.matmul import gemm, gemm_flops
from workbench.ops.permutation.kinds import AGNOSTIC, BARRIER

_Activation = Callable[..., "torch.Tensor"]
_ACTIVATIONS: dict[str, _Activation] = {
    "Clip": lambda x, low, high: x.clamp(low, high),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: (alpha * x + beta).clamp(0, 1),
    "LeakyRelu": lambda x, alpha=0.01: F.leaky_relu(x, alpha),
    "Relu": lambda x: torch.relu(x),
    "Sigmoid": lambda x: torch.sigmoid(x),
    "Tanh": lambda x: torch.tanh(x),
}


def _activated(call: Call, x: torch.Tensor, params: tuple[float, ...]) -> torch.Tensor:
    """The function that the attribute `activation` names, "" for none, with its parameters in order."""
    name = call.attr("activation", "")
    if not name:
        return x
    if name not in _ACTIVATIONS:
        raise CannotRun(f"the activation {name} is not known")
    return _ACTIVATIONS[name](x, *params)


@operator("com.microsoft.FusedConv", category="convolution", layout=BARRIER, fusion=FUSABLE, flops=conv_flops)
def fused_conv(call, x, weight, bias=None, summand=None):
    """A convolution, then the sum with another value, then an activation."""
    y = convolved(call, x, weight, bias)
    return _activated(call, y if summand is None else y + summand, tuple(call.attr("activation_params", ())))


@operator("com.microsoft.FusedGemm", category="matmul", layout=BARRIER, fusion=FUSABLE, flops=gemm_flops)
def fused_gemm(call, a, b, c=None):
    named = (call.attr(name) for name in ("activation_alpha", "activation_beta", "activation_gamma"))
    return _activated(call, gemm(call, a, b, c), tuple(number for number in named if number is not None))


def _fused_matmul_flops(node, inputs, outputs):
    shape = None if inputs[0] is None else inputs[0].static_shape
    elements = None if outputs[0] is None else outputs[0].elements
    if not shape or elements is None:
        return None
    return 2 * elements * shape[-2 if node.attr("transA", 0) and len(shape) > 1 else -1]


@operator("com.microsoft.FusedMatMul", category="matmul", layout=BARRIER, fusion=FUSABLE, flops=_fused_matmul_flops)
def fused_matmul(call, a, b):
    """A product of operands whose last two axes may be exchanged, times alpha."""
    if call.attr("transBatchA", 0) or call.attr("transBatchB", 0):
        raise CannotRun("transBatchA and transBatchB are not known")
    a = a.mT if call.attr("transA", 0) and a.dim() > 1 else a
    b = b.mT if call.attr("transB", 0) and b.dim() > 1 else b
    product, alpha = torch.matmul(a, b), call.attr("alpha", 1.0)
    return product if alpha == 1.0 else product * alpha


@operator("com.microsoft.BiasGelu", category="activation", layout=BARRIER, fusion=BROADCAST, flops=per_output(9))
def bias_gelu(call, x, bias):
    return F.gelu(x + bias)


@operator("com.microsoft.FastGelu", category="activation", layout=BARRIER, fusion=BROADCAST, flops=per_output(8))
def fast_gelu(call, x, bias=None):
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


@operator("com.microsoft.Gelu", category="activation", layout=AGNOSTIC, fusion=ELEMENTWISE, flops=per_output(8))
def gelu(call, x):
    return F.gelu(x)


@operator("com.microsoft.QuickGelu", category="activation", layout=AGNOSTIC, fusion=ELEMENTWISE, flops=per_output(6))
def quick_gelu(call, x):
    return x * torch.sigmoid(call.attr("alpha", 1.702) * x)


def _skip(op: str, flops: int):
    return operator(
        f"com.microsoft.{op}", category="normalization", layout=BARRIER, fusion=FUSABLE, flops=per_output(flops)
    )


@_skip("SkipLayerNormalization", 8)
def skip_layer_normalization(call, x, skip, scale, shift=None, bias=None):
    """Layer normalization of x + skip + bias; the fourth result is that sum."""
    total = _sum(call, x, skip, bias)
    return F.layer_norm(total, total.shape[-1:], scale, shift, call.attr("epsilon", 1e-12)), None, None, total


@_skip("SkipSimplifiedLayerNormalization", 5)
def skip_simplified_layer_normalization(call, x, skip, scale, bias=None):
    """Normalization of x + skip + bias by the root of its mean square; the fourth result is that sum."""
    total = _sum(call, x, skip, bias)
    square = (total * total).mean(-1, keepdim=True)
    return total * (square + call.attr("epsilon", 1e-12)).rsqrt() * scale, None, None, total


def _sum(call: Call, x: torch.Tensor, skip: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    if any(call.node.outputs[1:3]):
        raise CannotRun("the mean and the deviation are not computed by torch")
    return x + skip if bias is None else x + skip + bias
