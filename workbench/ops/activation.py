"""Activations: elementwise ones, and those along an axis, such as Softmax."""

from __future__ import annotations

from workbench.ops.contract import operator, per_output
from workbench.ops.fusion_kinds import BROADCAST, ELEMENTWISE, FUSABLE
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import AGNOSTIC
from workbench.ops.permutation.remapped import SOFTMAX
from workbench.ops.reduction import place_of_largest


def _activation(op: str, flops: int, layout=AGNOSTIC, fusion=ELEMENTWISE):
    return operator(op, category="activation", layout=layout, fusion=fusion, flops=per_output(flops))


@_activation("Relu", 1)
def relu(call, x):
    return torch.relu(x)


@_activation("LeakyRelu", 2)
def leaky_relu(call, x):
    return F.leaky_relu(x, call.attr("alpha"))


@_activation("PRelu", 2, fusion=BROADCAST)
def prelu(call, x, slope):
    return torch.where(x < 0, x * slope, x) if x.dtype.is_signed else x


@_activation("ThresholdedRelu", 1)
def thresholded_relu(call, x):
    return torch.where(x > call.attr("alpha"), x, torch.zeros_like(x))


@_activation("Sigmoid", 4)
def sigmoid(call, x):
    return torch.sigmoid(x)


@_activation("HardSigmoid", 4)
def hard_sigmoid(call, x):
    return torch.clamp(x * call.attr("alpha") + call.attr("beta"), 0, 1)


@_activation("HardSwish", 5)
def hard_swish(call, x):
    return F.hardswish(x)


@_activation("Tanh", 5)
def tanh(call, x):
    return torch.tanh(x)


@_activation("Elu", 3)
def elu(call, x):
    return F.elu(x, call.attr("alpha"))


@_activation("Celu", 4)
def celu(call, x):
    return F.celu(x, call.attr("alpha"))


@_activation("Selu", 4)
def selu(call, x):
    alpha, gamma = call.attr("alpha"), call.attr("gamma")
    return gamma * torch.where(x > 0, x, alpha * torch.expm1(x))


@_activation("Gelu", 8)
def gelu(call, x):
    return torch.where(x > 10, x, F.gelu(x, approximate=call.attr("approximate", "none")))  # torch overflows in between


@_activation("Mish", 6)
def mish(call, x):
    return F.mish(x)


@_activation("Swish", 5)
def swish(call, x):
    return x * torch.sigmoid(x * call.attr("alpha"))


@_activation("SwiGLU", 6, fusion=BROADCAST)
def swiglu(call, gate, x):
    return swish(call, gate) * x


@_activation("Softplus", 3)
def softplus(call, x):
    return F.softplus(x, threshold=40.0)  # above 40 the difference is lost in rounding


@_activation("Softsign", 3)
def softsign(call, x):
    return F.softsign(x)


@_activation("Shrink", 2)
def shrink(call, x):
    edge, bias = call.attr("lambd"), call.attr("bias")
    return torch.where(x < -edge, x + bias, torch.where(x > edge, x - bias, torch.zeros_like(x)))


@_activation("Softmax", 5, SOFTMAX, FUSABLE)
def softmax(call, x):
    return torch.softmax(x, call.attr("axis", -1))


@_activation("LogSoftmax", 6, SOFTMAX, FUSABLE)
def log_softmax(call, x):
    return torch.log_softmax(x, call.attr("axis", -1))


@_activation("Hardmax", 1, SOFTMAX, FUSABLE)
def hardmax(call, x):
    axis = call.attr("axis", -1)
    if not x.numel():
        return x
    ones = torch.zeros_like(x).scatter(axis, place_of_largest(x, axis, True), 1)
    return ones.masked_fill(x.narrow(axis, 0, 1).isnan(), 0)  # nothing equals a NaN
