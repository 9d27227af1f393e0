"""Convolutions with a residual and an activation as one operator: functions in the domain "workbench".

`ConvRelu(x, w, bias)` is Relu(Conv(x, w, bias)); `ConvAddRelu(x, w, bias, residual)` is
Relu(Conv(x, w, bias) + residual), where the residual has the shape of the convolution's result. Each activation makes
two operators, since the body of an ONNX function cannot depend on an attribute or on an omitted operand. Like Conv they
have channels-last forms (`ConvRelu_NHWC`); the residual is then channels last too.

Source: oneDNN's post-operations of a convolution, https://uxlfoundation.github.io/oneDNN/dev_guide_convolution.html
"""

from __future__ import annotations

from workbench.ir import Node
from workbench.ops.channels_last import fused_conv_op
from workbench.ops.contract import Call, Types, known_elements
from workbench.ops.convolution import conv_flops, convolved
from workbench.ops.fused_activations import OF_CONVOLUTIONS, FusedActivation
from workbench.ops.fusion_kinds import FUSABLE
from workbench.ops.layout_sensitive import CONV_WEIGHTS, layout_sensitive_operator
from workbench.ops.lazy import torch

_CONV = """Conv <auto_pad: string = @auto_pad, dilations: ints = @dilations, group: int = @group,
              kernel_shape: ints = @kernel_shape, pads: ints = @pads, strides: ints = @strides> (x, w, bias)"""


def _body(activation: FusedActivation, adds: bool) -> str:
    name = fused_conv_op(activation, adds)
    attributes = f"auto_pad, dilations, group, kernel_shape, pads, strides{activation.references}"
    lines = f"c = {_CONV}\n    s = Add (c, residual)" if adds else f"s = {_CONV}"
    operands = "x, w, bias, residual" if adds else "x, w, bias"
    return f"{name} <{attributes}> ({operands}) => (y) {{\n    {lines}\n    {activation.body}\n}}"


FUSED_CONV_BODIES = {
    fused_conv_op(activation, adds): _body(activation, adds) for activation in OF_CONVOLUTIONS for adds in (False, True)
}


def _register(activation: FusedActivation, adds: bool) -> None:
    """Register the operator, with its channels-last forms. adds: whether it has a residual."""

    def flops(node: Node, inputs: Types, outputs: Types) -> int | None:
        plain, elements = conv_flops(node, inputs, outputs), known_elements(outputs, 0)
        return None if plain is None or elements is None else plain + elements * (activation.flops + adds)

    def run(call: Call, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """x: [N, C, *D], weight: [M, C / group, *K], bias: [M] -> [N, M, *E]"""
        return activation.run(call, convolved(call, x, weight, bias))

    def run_adding(
        call: Call, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor
    ) -> torch.Tensor:
        """x: [N, C, *D], weight: [M, C / group, *K], bias: [M], residual: [N, M, *E] -> [N, M, *E]"""
        return activation.run(call, convolved(call, x, weight, bias).add_(residual))

    op = f"workbench.{fused_conv_op(activation, adds)}"
    register = layout_sensitive_operator(op, category="convolution", fusion=FUSABLE, flops=flops, weights=CONV_WEIGHTS)
    register(run_adding if adds else run)


for _activation in OF_CONVOLUTIONS:
    for _adds in (False, True):
        _register(_activation, _adds)
