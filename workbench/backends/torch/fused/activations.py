"""Elementwise operators after a product, in oneDNN's terms, and as torch computes them in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.backends.torch.executor.instruction import Instruction
from workbench.ops.lazy import F

if TYPE_CHECKING:
    import torch

_InPlace = Callable[["torch.Tensor"], "torch.Tensor"]


@dataclass(frozen=True)
class Unary:
    """An elementwise operator by oneDNN's name; "none" for none. oneDNN lacks "clamped_linear", any HardSigmoid."""

    name: str = "none"
    scalars: tuple[float, ...] = ()
    algorithm: str = ""

    @property
    def in_place(self) -> _InPlace:
        """The operator of torch, which writes into its operand if it can."""
        return _IN_PLACE[self.name](self)


NOTHING = Unary()
_IN_PLACE: Mapping[str, Callable[[Unary], _InPlace]] = {
    "none": lambda unary: lambda x: x,
    "relu": lambda unary: lambda x: x.relu_(),
    "sigmoid": lambda unary: lambda x: x.sigmoid_(),
    "tanh": lambda unary: lambda x: x.tanh_(),
    "hardswish": lambda unary: lambda x: F.hardswish(x, inplace=True),
    "hardsigmoid": lambda unary: lambda x: F.hardsigmoid(x, inplace=True),
    "clamped_linear": lambda unary: lambda x: x.mul_(unary.scalars[0]).add_(unary.scalars[1]).clamp_(0, 1),
    "leaky_relu": lambda unary: lambda x: F.leaky_relu(x, unary.scalars[0], inplace=True),
    "hardtanh": lambda unary: lambda x: x.clamp_(*unary.scalars),
    "swish": lambda unary: lambda x: F.silu(x, inplace=True),
    "gelu": lambda unary: lambda x: F.gelu(x, approximate=unary.algorithm),
}


def unary_of(step: Instruction, operand: int, known: Mapping[int, torch.Tensor]) -> Unary | None:
    """The elementwise operator that a step applies to the register; None for others. known: constants by register."""
    attr = step.call.attr
    match step.node.op:
        case "Relu" | "Sigmoid" | "Tanh" | "HardSwish":
            return Unary(step.node.op.lower())
        case "LeakyRelu":
            return Unary("leaky_relu", (attr("alpha", 0.01),))
        case "HardSigmoid":
            alpha, beta = attr("alpha", 0.2), attr("beta", 0.5)
            is_sixth = (round(alpha * 6, 4), beta) == (1, 0.5)
            return Unary("hardsigmoid") if is_sixth else Unary("clamped_linear", (alpha, beta))
        case "Gelu":
            return Unary("gelu", (), attr("approximate", "none"))
        case "Clip" if step.inputs[0] == operand:
            return _hard_tanh(step.inputs[1:], known)
    return None


def _hard_tanh(bounds: Sequence[int], known: Mapping[int, torch.Tensor]) -> Unary | None:
    if len(bounds) != 2 or any(register not in known for register in bounds):
        return None
    low, high = (float(known[register]) for register in bounds)
    return Unary("hardtanh", (low, high)) if low <= high else None
