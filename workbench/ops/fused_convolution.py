"""Convolutions that add a residual and apply an activation in the same pass, as functions in the domain "workbench".

`ConvRelu(x, w, bias)` is Relu(Conv(x, w, bias)); `ConvAddRelu(x, w, bias, residual)` is
Relu(Conv(x, w, bias) + residual), where the residual has the shape of the convolution's result. Each activation makes
two operators, since the body of an ONNX function cannot depend on an attribute or on an omitted operand. Like Conv they
have channels-last forms (`ConvRelu_NHWC`); the residual is then channels last too.

Source: oneDNN's post-operations of a convolution, https://uxlfoundation.github.io/oneDNN/dev_guide_convolution.html
"""

from __future__ import annotations

from workbench.ops.channels_last import fused_conv_op
from workbench.ops.convolution import conv_flops, convolved
from workbench.ops.fused_activations import OF_CONVOLUTIONS, FusedActivation
from workbench.ops.fusion_kinds import FUSABLE
from workbench.ops.sensitive import CONV_WEIGHTS, sensitive

_CONV = """Conv <auto_pad: string = @auto_pad, dilations: ints = @dilations, group: int = @group,
              kernel_shape: ints = @kernel_shape, pads: ints = @pads, strides: ints = @strides> (x, w, bias)"""


def _body(activation: FusedActivation, adds: bool) -> str:
    name = fused_conv_op(activation, adds)
    attributes = f"auto_pad, dilations, group, kernel_shape, pads, strides{activation.references}"
    lines = f"c = {_CONV}\n    s = Add (c, residual)" if adds else f"s = {_CONV}"
    operands = "x, w, bias, residual" if adds else "x, w, bias"
    return f"{name} <{attributes}> ({operands}) => (y) {{\n    {lines}\n    {activation.body}\n}}"


FUSED_CONV_BODIES = {fused_conv_op(one, adds): _body(one, adds) for one in OF_CONVOLUTIONS for adds in (False, True)}


def _enter(activation: FusedActivation, adds: bool) -> None:
    """Register one of the operators, with its channels-last forms."""

    def flops(node, inputs, outputs):
        plain = conv_flops(node, inputs, outputs)
        return None if plain is None else plain + outputs[0].elements * (activation.flops + adds)

    def run(call, x, weight, bias=None, residual=None):
        result = convolved(call, x, weight, bias)
        return activation.run(call, result.add_(residual) if adds else result)

    op = f"workbench.{fused_conv_op(activation, adds)}"
    sensitive(op, category="convolution", fusion=FUSABLE, flops=flops, weights=CONV_WEIGHTS)(run)


for _activation in OF_CONVOLUTIONS:
    for _adds in (False, True):
        _enter(_activation, _adds)
