"""SiLU as a function in the domain "workbench". ONNX has it from opset 24 on, as Swish.

Source: Elfwing et al., "Sigmoid-Weighted Linear Units for Neural Network Function Approximation", 2017,
https://arxiv.org/abs/1702.03118
"""

from __future__ import annotations

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.fused_activations import SILU
from workbench.ops.fusion_kinds import ELEMENTWISE
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import AGNOSTIC

SILU_BODIES = {"Silu": f"Silu (s) => (y) {{\n    {SILU.body}\n}}"}


@operator("workbench.Silu", category="activation", layout=AGNOSTIC, fusion=ELEMENTWISE, flops=per_output(SILU.flops))
def silu(call: Call, x: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(x)."""
    return F.silu(x)
