"""Fused operators: bias add followed by a Dropout's mask and scale, or by Gelu.

The operators are functions in the domain "workbench", whose bodies are operators of ONNX.

Source: OneFlow's operators of these names, https://github.com/Oneflow-Inc/oneflow/pull/7709.
"""

from __future__ import annotations

from collections.abc import Callable

from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, inverse
from workbench.ops.activation import gelu
from workbench.ops.contract import Call, OperatorFunctionT, operator, per_output
from workbench.ops.fusion_kinds import BROADCAST
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import ALL_OPERANDS, PermutedCall, remapped, with_attributes

_BIASED = """
    dims = Shape <start: int = @axis> (a)
    count = Shape (dims)
    ones = ConstantOfShape <value = int64[1] {1}> (count)
    first = Constant <value_ints = [1]> ()
    end = Constant <value_ints = [9223372036854775807]> ()
    behind = Slice (ones, first, end)
    channels = Shape (bias)
    along_shape = Concat <axis = 0> (channels, behind)
    along = Reshape (bias, along_shape)
    biased = Add (a, along)
"""
FUSED_BIAS_BODIES = {
    "fused_bias_add_mask_scale": f"""
fused_bias_add_mask_scale <axis, scale> (a, bias, mask) => (y) {{{_BIASED}
    kept = CastLike (mask, a)
    masked = Mul (biased, kept)
    scale = Constant <value_float: float = @scale> ()
    scale_like = CastLike (scale, a)
    y = Mul (masked, scale_like)
}}""",
    "fused_bias_add_gelu": f"""
fused_bias_add_gelu <axis, approximate: string = "none"> (a, bias) => (y) {{{_BIASED}
    y = Gelu <approximate: string = @approximate> (biased)
}}""",
}


def _propagate(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The mask is permuted with the first operand; the bias stays."""
    axis = inverse(perm)[node.attr("axis") % len(perm)]
    permuted = tuple(index for index in range(len(node.inputs)) if index != 1)
    return PermutedCall(permuted, (perm,), with_attributes(node, axis=axis))


def _fused(name: str, category: str, flops: int) -> Callable[[OperatorFunctionT], OperatorFunctionT]:
    layout = remapped(_propagate, ALL_OPERANDS)
    return operator(f"workbench.{name}", category=category, layout=layout, fusion=BROADCAST, flops=per_output(flops))


def _biased(call: Call, a: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """a + bias, where bias is 1-D and has the size of a's axis `axis`.

    a: [*A, C, *B], bias: [C] -> [*A, C, *B]
    """
    after = a.dim() - 1 - call.attr("axis") % a.dim()
    return a + bias.reshape(-1, *(1,) * after)


@_fused("fused_bias_add_mask_scale", "elementwise", 3)
def fused_bias_add_mask_scale(call: Call, a: torch.Tensor, bias: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(a + bias) * mask * scale, where the mask is bool.

    a: [*A, C, *B], bias: [C], mask: [*A, C, *B] -> [*A, C, *B]
    """
    scale: float = call.attr("scale")
    return _biased(call, a, bias) * mask * scale


@_fused("fused_bias_add_gelu", "activation", 9)
def fused_bias_add_gelu(call: Call, a: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """a: [*A, C, *B], bias: [C] -> [*A, C, *B]"""
    return gelu(call, _biased(call, a, bias))
