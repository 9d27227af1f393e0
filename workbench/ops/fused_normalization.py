"""A residual sum and its normalization as one operator: functions in the domain "workbench".

`AddLayerNormalization(x, residual, scale, shift)` is LayerNormalization(x + residual), and
`BiasAddLayerNormalization(x, bias, residual, scale, shift)` that of (x + bias) + residual, where the bias is a vector
of the last axis. `AddLayerNormalizationWithSum` has the sum as its second result, since a function has a fixed number
of results. All exist for RMSNormalization too, without a shift.

Source: ONNX Runtime's SkipLayerNormalization,
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.fusion_kinds import FUSABLE
from workbench.ops.lazy import torch
from workbench.ops.normalization import layer_normalized, rms_normalization
from workbench.ops.permutation.permuted_attributes import trailing_norm

NORMALIZATIONS = {"LayerNormalization": "scale, shift", "RMSNormalization": "scale"}  # with their parameters
_RUNS: dict[str, Callable[..., torch.Tensor]] = {
    "LayerNormalization": layer_normalized,
    "RMSNormalization": rms_normalization,
}
_ATTRIBUTES = "axis: int = @axis, epsilon: float = @epsilon, stash_type: int = @stash_type"


def fused_norm_op(normalization: str, biased: bool, with_sum: bool) -> str:
    """The operator of the domain "workbench" that adds a residual, after a bias if `biased`, and normalizes the sum."""
    return f"{'Bias' if biased else ''}Add{normalization}{'WithSum' if with_sum else ''}"


def _body(normalization: str, biased: bool, with_sum: bool) -> str:
    parameters = NORMALIZATIONS[normalization]
    operands = f"x, {'bias, ' if biased else ''}residual, {parameters}"
    results = "y, total" if with_sum else "y"
    first = "biased = Add (x, bias)\n    total = Add (biased, residual)" if biased else "total = Add (x, residual)"
    name = fused_norm_op(normalization, biased, with_sum)
    return f"""{name} <axis, epsilon, stash_type> ({operands}) => ({results}) {{
    {first}
    y = {normalization} <{_ATTRIBUTES}> (total, {parameters})
}}"""


_FORMS = tuple(product(NORMALIZATIONS, (False, True), (False, True)))
FUSED_NORM_BODIES = {fused_norm_op(*form): _body(*form) for form in _FORMS}


def _register(normalization: str, biased: bool, with_sum: bool) -> None:
    """Register the operator of that name, as `fused_norm_op` makes it."""
    residual = 2 if biased else 1
    layout = trailing_norm((0, residual), (1, 3, 4) if biased else (2, 3))
    normalized = _RUNS[normalization]

    def run(call: Call, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """others: the bias of the last axis if `biased`, the residual of x's shape, and the normalization's parameters.

        x: [*A, *D] -> y: [*A, *D], total: [*A, *D]
        """
        total = (x + others[0]).add_(others[1]) if biased else x + others[0]
        y = normalized(call, total, *others[residual:])
        return (y, total) if with_sum else y

    op = f"workbench.{fused_norm_op(normalization, biased, with_sum)}"
    flops = per_output(9 if biased else 8)
    operator(op, category="normalization", layout=layout, fusion=FUSABLE, flops=flops)(run)


for _form in _FORMS:
    _register(*_form)
