"""Activations that fused operators apply in place, to the result that they have computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workbench.ops.activation import gelu
from workbench.ops.contract import Call
from workbench.ops.lazy import F, torch

FLOAT, STRING = 1, 3  # ONNX's AttributeType


@dataclass(frozen=True)
class FusedActivation:
    """An activation at the end of a fused operator.

    name:       the last part of the operator's name.
    body:       lines of ONNX's textual syntax that compute y of s.
    flops:      operations for each element.
    attributes: name -> ONNX's AttributeType.
    run:        (call, result) -> the activated result; it may overwrite its operand.
    """

    name: str
    body: str
    flops: int
    run: Callable[[Call, torch.Tensor], torch.Tensor]
    attributes: tuple[tuple[str, int], ...] = ()

    @property
    def references(self) -> str:
        """The attributes of a function's header, each after a comma."""
        return "".join(f", {name}" for name, _ in self.attributes)


def _hard_sigmoid(call: Call, x: torch.Tensor) -> torch.Tensor:
    return x.mul_(call.attr("alpha", 0.2)).add_(call.attr("beta", 0.5)).clamp_(0, 1)


RELU = FusedActivation("Relu", "y = Relu (s)", 1, lambda call, x: x.relu_())
RELU_6 = FusedActivation(
    "Relu6",
    """low = Constant <value_float = 0.0> ()
    high = Constant <value_float = 6.0> ()
    low_like = CastLike (low, s)
    high_like = CastLike (high, s)
    y = Clip (s, low_like, high_like)""",
    2,
    lambda call, x: x.clamp_(0, 6),
)
LEAKY_RELU = FusedActivation(
    "LeakyRelu",
    "y = LeakyRelu <alpha: float = @alpha> (s)",
    2,
    lambda call, x: F.leaky_relu_(x, call.attr("alpha", 0.01)),
    (("alpha", FLOAT),),
)
SIGMOID = FusedActivation("Sigmoid", "y = Sigmoid (s)", 4, lambda call, x: x.sigmoid_())
HARD_SIGMOID = FusedActivation(
    "HardSigmoid",
    "y = HardSigmoid <alpha: float = @alpha, beta: float = @beta> (s)",
    4,
    _hard_sigmoid,
    (("alpha", FLOAT), ("beta", FLOAT)),
)
HARD_SWISH = FusedActivation("HardSwish", "y = HardSwish (s)", 5, lambda call, x: F.hardswish(x, inplace=True))
SILU = FusedActivation(
    "Silu",
    """gate = Sigmoid (s)
    y = Mul (s, gate)""",
    5,
    lambda call, x: F.silu(x, inplace=True),
)
TANH = FusedActivation("Tanh", "y = Tanh (s)", 5, lambda call, x: x.tanh_())
GELU = FusedActivation("Gelu", "y = Gelu <approximate: string = @approximate> (s)", 8, gelu, (("approximate", STRING),))
OF_CONVOLUTIONS = (RELU, RELU_6, LEAKY_RELU, SIGMOID, HARD_SIGMOID, HARD_SWISH, SILU)
OF_PRODUCTS = (RELU, GELU, TANH, SIGMOID, SILU)
