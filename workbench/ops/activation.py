"""Activations: elementwise ones, and those along an axis, such as Softmax."""

from __future__ import annotations

from collections.abc import Callable

from workbench.ops.contract import Call, OperatorFunctionT, operator, per_output
from workbench.ops.fusion_kinds import BROADCAST, ELEMENTWISE, FUSABLE, FusionKind
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import AGNOSTIC, Layout
from workbench.ops.permutation.permuted_attributes import SOFTMAX
from workbench.ops.reduction import index_of_largest


def _activation(
    op: str, flops: int, layout: Layout = AGNOSTIC, fusion: FusionKind = ELEMENTWISE
) -> Callable[[OperatorFunctionT], OperatorFunctionT]:
    return operator(op, category="activation", layout=layout, fusion=fusion, flops=per_output(flops))


@_activation("Relu", 1)
def relu(call: Call, x: torch.Tensor) -> torch.Tensor:
    return x.relu()


@_activation("LeakyRelu", 2)
def leaky_relu(call: Call, x: torch.Tensor) -> torch.Tensor:
    return F.leaky_relu(x, call.attr("alpha"))


@_activation("PRelu", 2, fusion=BROADCAST)
def prelu(call: Call, x: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    return torch.where(x < 0, x * slope, x) if x.dtype.is_signed else x


@_activation("ThresholdedRelu", 1)
def thresholded_relu(call: Call, x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > call.attr("alpha"), x, torch.zeros_like(x))


@_activation("Sigmoid", 4)
def sigmoid(call: Call, x: torch.Tensor) -> torch.Tensor:
    return x.sigmoid()


@_activation("HardSigmoid", 4)
def hard_sigmoid(call: Call, x: torch.Tensor) -> torch.Tensor:
    return torch.clamp(x * call.attr("alpha") + call.attr("beta"), 0, 1)


@_activation("HardSwish", 5)
def hard_swish(call: Call, x: torch.Tensor) -> torch.Tensor:
    return F.hardswish(x)


@_activation("Tanh", 5)
def tanh(call: Call, x: torch.Tensor) -> torch.Tensor:
    return x.tanh()


@_activation("Elu", 3)
def elu(call: Call, x: torch.Tensor) -> torch.Tensor:
    return F.elu(x, call.attr("alpha"))


@_activation("Celu", 4)
def celu(call: Call, x: torch.Tensor) -> torch.Tensor:
    return F.celu(x, call.attr("alpha"))


@_activation("Selu", 4)
def selu(call: Call, x: torch.Tensor) -> torch.Tensor:
    alpha: float = call.attr("alpha")
    gamma: float = call.attr("gamma")
    return gamma * torch.where(x > 0, x, alpha * torch.expm1(x))


@_activation("Gelu", 8)
def gelu(call: Call, x: torch.Tensor) -> torch.Tensor:
    # torch's kernel overflows on the way for the largest numbers, and oneDNN's for AVX2 loses the sign of -0.0.
    curve = F.gelu(x, approximate=call.attr("approximate", "none"))
    return torch.where(x > 10, x, curve.copysign(x))


@_activation("Mish", 6)
def mish(call: Call, x: torch.Tensor) -> torch.Tensor:
    return F.mish(x)


@_activation("Swish", 5)
def swish(call: Call, x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x * call.attr("alpha"))


@_activation("SwiGLU", 6, fusion=BROADCAST)
def swiglu(call: Call, gate: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return swish(call, gate) * x


@_activation("Softplus", 3)
def softplus(call: Call, x: torch.Tensor) -> torch.Tensor:
    return F.softplus(x, threshold=40.0)  # above 40 the difference is lost in rounding


@_activation("Softsign", 3)
def softsign(call: Call, x: torch.Tensor) -> torch.Tensor:
    return F.softsign(x)


@_activation("Shrink", 2)
def shrink(call: Call, x: torch.Tensor) -> torch.Tensor:
    edge, bias = call.attr("lambd"), call.attr("bias")
    return torch.where(x < -edge, x + bias, torch.where(x > edge, x - bias, torch.zeros_like(x)))


@_activation("Softmax", 5, SOFTMAX, FUSABLE)
def softmax(call: Call, x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, call.attr("axis"))


@_activation("LogSoftmax", 6, SOFTMAX, FUSABLE)
def log_softmax(call: Call, x: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(x, call.attr("axis"))


@_activation("Hardmax", 1, SOFTMAX, FUSABLE)
def hardmax(call: Call, x: torch.Tensor) -> torch.Tensor:
    axis = call.attr("axis")
    if not x.numel():
        return x
    hot = torch.zeros_like(x).scatter(axis, index_of_largest(x, axis, True), 1)
    return hot.masked_fill(x.narrow(axis, 0, 1).isnan(), 0)  # nothing equals a NaN
