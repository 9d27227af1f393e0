"""Operators that the NPU has and ONNX lacks, as functions in the domain "workbench".

Each is defined by a body in ONNX's textual syntax, for images [N, C, H, W]. It has an equivalent torch function, and a
channels-last form `<name>_NHWC`, whose body is the operator between Transposes. `nchw2nhwc` and `nhwc2nchw` become
ONNX's Transpose when a file is opened; `concat` and `pad` are ONNX's Concat and Pad.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Concatenate, TypeAlias

import onnx
from onnx import parser

from workbench.ir import Function, Node
from workbench.ir.from_proto import from_proto
from workbench.ir.permutation import Permutation, channels_first, channels_last, inverse
from workbench.ir.text import OPSET
from workbench.ops.blocked import blocked_function, parse_blocked
from workbench.ops.channels_last import (
    DOMAIN,
    OWN_SIGNATURES,
    PLAIN_FORM,
    WEIGHT_GRADIENT_OP,
    channels_last_function,
    parse_channels_last,
    weight_permutation,
)
from workbench.ops.contract import Call, FlopCount, Types, known_elements, known_shape, operator, per_output
from workbench.ops.convolution import conv_transpose
from workbench.ops.dropout import MASK_BODIES
from workbench.ops.fused_bias import FUSED_BIAS_BODIES
from workbench.ops.fused_convolution import FUSED_CONV_BODIES
from workbench.ops.fused_normalization import FUSED_NORM_BODIES
from workbench.ops.fused_products import FUSED_PRODUCT_BODIES
from workbench.ops.fusion_kinds import FUSABLE, INJECTIVE, FusionKind
from workbench.ops.layout_sensitive import CONV_WEIGHTS, layout_sensitive_operator
from workbench.ops.lazy import F, torch
from workbench.ops.permuted_images import OWN_SENSITIVE, channels_last_layout
from workbench.ops.sample_normalization import SAMPLE_NORM_BODIES
from workbench.ops.silu import SILU_BODIES
from workbench.ops.windows import Window, torch_pads

_BODIES = """
nchw2nhwc (x) => (y) {
    y = Transpose <perm = [0, 2, 3, 1]> (x)
}
nhwc2nchw (x) => (y) {
    y = Transpose <perm = [0, 3, 1, 2]> (x)
}
BPA <dilations, group, output_padding, pads, strides> (dy, w) => (dx) {
    dx = ConvTranspose <dilations: ints = @dilations, group: int = @group, output_padding: ints = @output_padding,
                        pads: ints = @pads, strides: ints = @strides> (dy, w)
}
BPW <dilations, kernel_shape, pads, strides> (x, dy) => (dw) {
    x_by_channel = Transpose <perm = [1, 0, 2, 3]> (x)
    dy_by_channel = Transpose <perm = [1, 0, 2, 3]> (dy)
    by_input = Conv <dilations: ints = @strides, pads: ints = @pads, strides: ints = @dilations>
                    (x_by_channel, dy_by_channel)
    whole = Transpose <perm = [1, 0, 2, 3]> (by_input)
    begin = Constant <value_ints = [0, 0]> ()
    end = Constant <value_ints: ints = @kernel_shape> ()
    axes = Constant <value_ints = [2, 3]> ()
    dw = Slice (whole, begin, end, axes)
}
img2col <dilations, kernel_shape, pads, strides> (x) => (y) {
    kernel = Constant <value_ints: ints = @kernel_shape> ()
    one = Constant <value_ints = [1]> ()
    rest = Constant <value_ints = [-1]> ()
    zero = Constant <value_floats = [0.0]> ()
    taps = ReduceProd <keepdims = 1> (kernel)
    square = Concat <axis = 0> (taps, taps)
    zeros = Expand (zero, square)
    eye = EyeLike (zeros)
    eye_shape = Concat <axis = 0> (taps, one, kernel)
    eye_kernels = Reshape (eye, eye_shape)
    kernels = CastLike (eye_kernels, x)
    batch = Shape <start = 0, end = 1> (x)
    channels = Shape <start = 1, end = 2> (x)
    image = Shape <start = 2, end = 4> (x)
    planes_shape = Concat <axis = 0> (rest, one, image)
    planes = Reshape (x, planes_shape)
    windows = Conv <dilations: ints = @dilations, pads: ints = @pads, strides: ints = @strides> (planes, kernels)
    rows = Mul (channels, taps)
    y_shape = Concat <axis = 0> (batch, rows, rest)
    y = Reshape (windows, y_shape)
}
unpool <factor> (x) => (y) {
    factor = Constant <value_int: int = @factor> ()
    one = Constant <value_ints = [1]> ()
    factor_1d = Reshape (factor, one)
    whole = Concat <axis = 0> (one, one, factor_1d, factor_1d)
    scales = Cast <to = 1> (whole)
    y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, , scales)
}
maskunpool <factor> (x, mask) => (y) {
    larger = workbench.unpool <factor: int = @factor> (x)
    zero = Constant <value_float = 0.0> ()
    zero_like = CastLike (zero, x)
    y = Where (mask, larger, zero_like)
}
mirror (x) => (y) {
    last = Constant <value_ints = [-1]> ()
    before_first = Constant <value_ints = [-9223372036854775807]> ()
    axes = Constant <value_ints = [3]> ()
    y = Slice (x, last, before_first, axes, last)
}
rotate (x) => (y) {
    mirrored = workbench.mirror (x)
    y = Transpose <perm = [0, 1, 3, 2]> (mirrored)
}
tensornorm <epsilon: float = 0.00001> (x) => (y) {
    axes = Constant <value_ints = [1, 2, 3]> ()
    mean = ReduceMean <keepdims = 1> (x, axes)
    centred = Sub (x, mean)
    square = Mul (centred, centred)
    variance = ReduceMean <keepdims = 1> (square, axes)
    epsilon = Constant <value_float: float = @epsilon> ()
    epsilon_like = CastLike (epsilon, x)
    raised = Add (variance, epsilon_like)
    deviation = Sqrt (raised)
    y = Div (centred, deviation)
}
bilinear <size> (x) => (y) {
    kept = Shape <start = 0, end = 2> (x)
    image = Constant <value_ints: ints = @size> ()
    sizes = Concat <axis = 0> (kept, image)
    y = Resize <mode = "linear"> (x, , , sizes)
}
"""
CONVERSIONS = {"nchw2nhwc": channels_last(4), "nhwc2nchw": channels_first(4)}
_FUSED = {
    **MASK_BODIES,
    **FUSED_BIAS_BODIES,
    **FUSED_CONV_BODIES,
    **FUSED_PRODUCT_BODIES,
    **FUSED_NORM_BODIES,
    **SAMPLE_NORM_BODIES,
    **SILU_BODIES,
}
_PLAIN = frozenset({*OWN_SIGNATURES, *CONVERSIONS, *_FUSED})  # operators that are not a form of another
_IMAGE_RANKS = (4,)


# ---- bodies ---------------------------------------------------------------------------


def is_own(op_type: str) -> bool:
    """Whether `workbench.<op_type>` is an operator defined here."""
    if parse_blocked(DOMAIN, op_type) is not None:
        return True
    parts = parse_channels_last(DOMAIN, op_type)
    if parts is None:
        return op_type in _PLAIN
    known = parts.op_type in OWN_SIGNATURES or onnx.defs.has(PLAIN_FORM.get(parts.op_type, parts.op_type))
    return known and parts.weights in (None, "OHWI", "HWIO", "HWOI")


@cache
def own_function(op_type: str, opset: int = OPSET, of_types: bool = False) -> Function:
    """The function that defines `workbench.<op_type>`, valid at `opset`.

    of_types: whether it is for type inference, and not to be run.
    Raises KeyError if there is none.
    """
    if not is_own(op_type):
        raise KeyError(op_type)
    if op_type in _PLAIN:
        return _plain_functions(opset)[op_type]
    if parse_blocked(DOMAIN, op_type) is not None:
        return blocked_function(op_type, opset, of_types)
    return channels_last_function(op_type, opset)


@cache
def _plain_functions(opset: int) -> Mapping[str, Function]:
    """The functions of `_PLAIN`, by name."""
    header = f'<domain: "{DOMAIN}", opset_import: ["": {opset}, "{DOMAIN}": 1]>\n'
    texts = [f"{text}\n}}" for text in _BODIES.split("\n}\n") if text.strip()]
    texts += _FUSED.values()
    functions = [parser.parse_function(header + text) for text in texts]
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> none () => () {{}}')
    model.functions.extend(functions)
    return {function.name: function for function in from_proto(model).functions.values()}


# ---- contracts --------------------------------------------------------------------------


_Run: TypeAlias = Callable[Concatenate[Call, ...], "torch.Tensor"]


def _images(name: str, category: str, fusion: FusionKind, flops: FlopCount | None = None) -> Callable[[_Run], _Run]:
    """Register the function as `workbench.<name>` and as its channels-last form, as `OWN_SIGNATURES` specifies it."""

    def register(run: _Run) -> _Run:
        signature = OWN_SIGNATURES[name]

        def native(call: Call, *operands: torch.Tensor) -> torch.Tensor:
            """Images as of `run`, with C as the last axis."""
            first = [x.permute(channels_first(4)) if i in signature.images else x for i, x in enumerate(operands)]
            result = run(call, *first)
            return result.permute(channels_last(4)).contiguous() if signature.gives_image else result

        operator(f"{DOMAIN}.{name}", category=category, layout=OWN_SENSITIVE, fusion=fusion, flops=flops)(run)
        back = channels_last_layout(f"{DOMAIN}.{name}", 4, signature.images, signature.gives_image)
        operator(f"{DOMAIN}.{name}_NHWC", category=category, layout=back, fusion=fusion, flops=flops)(native)
        for order in CONV_WEIGHTS[1:] if f"{DOMAIN}.{name}" == WEIGHT_GRADIENT_OP else ():
            perm = weight_permutation(order, 4)
            kernel = channels_last_layout(f"{DOMAIN}.{name}", 4, signature.images, False, result=inverse(perm))
            stored = partial(_stored, native, perm)
            operator(f"{DOMAIN}.{name}_NHWC_{order}", category=category, layout=kernel, fusion=fusion, flops=flops)(
                stored
            )
        return run

    return register


def _stored(run: _Run, perm: Permutation, call: Call, *operands: torch.Tensor) -> torch.Tensor:
    """The resulting kernel of `run`, stored in another order of axes."""
    return run(call, *operands).permute(perm).contiguous()


def _weight_gradient_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
    """Each element of the gradient sums over the batch and all positions of the kernel."""
    dy, elements = known_shape(inputs, 1), known_elements(outputs, 0)
    if dy is None or elements is None:
        return None
    channels = dy[3 if "_NHWC" in node.op_type else 1]
    return 2 * elements * (math.prod(dy) // channels)


def _input_gradient_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
    weight, elements = known_shape(inputs, 1), known_elements(inputs, 0)
    return None if weight is None or elements is None else 2 * elements * weight[1] * weight[2] * weight[3]


@layout_sensitive_operator(
    "workbench.BPA",
    category="convolution",
    fusion=FUSABLE,
    flops=_input_gradient_flops,
    ranks=_IMAGE_RANKS,
    weights=CONV_WEIGHTS,
)
def bpa(call: Call, dy: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The gradient of a convolution with respect to its input.

    dy: [N, M, Y, X], weight: [M, C / group, R, S] -> [N, C, H, W]
    """
    return conv_transpose(call, dy, weight)


@_images("BPW", "convolution", FUSABLE, _weight_gradient_flops)
def bpw(call: Call, x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    """The gradient of an ungrouped convolution with respect to its weight: x convolved with dy.

    x: [N, C, H, W], dy: [N, M, Y, X] -> [M, C, R, S]
    """
    window = Window.of(call, call.attr("kernel_shape"), x.shape[2:])
    x = F.pad(x, torch_pads(window.begins, window.ends)).transpose(0, 1)
    whole = F.conv2d(x, dy.transpose(0, 1), stride=window.dilations, dilation=window.strides)
    height, width = window.kernel
    return whole.transpose(0, 1)[:, :, :height, :width].contiguous()


@_images("img2col", "movement", INJECTIVE)
def img2col(call: Call, x: torch.Tensor) -> torch.Tensor:
    """The L windows of a convolution, each as a column of P taps for each channel.

    x: [N, C, H, W] -> [N, C * P, L]
    """
    window = Window.of(call, call.attr("kernel_shape"), x.shape[2:])
    x = F.pad(x, torch_pads(window.begins, window.ends))
    return F.unfold(x, window.kernel, dilation=window.dilations, stride=window.strides)


@layout_sensitive_operator("workbench.unpool", category="pooling", fusion=INJECTIVE, ranks=_IMAGE_RANKS)
def unpool(call: Call, x: torch.Tensor) -> torch.Tensor:
    """Repeats each element `factor` times along H and W.

    x: [N, C, H, W] -> [N, C, factor * H, factor * W]
    """
    return F.interpolate(x, scale_factor=float(call.attr("factor")), mode="nearest")


@_images("maskunpool", "pooling", INJECTIVE)
def maskunpool(call: Call, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """`unpool`, then zero where the mask (bool) is false.

    x: [N, C, H, W], mask: [N, C, factor * H, factor * W] -> [N, C, factor * H, factor * W]
    """
    return torch.where(mask, unpool(call, x), torch.zeros((), dtype=x.dtype, device=x.device))


@layout_sensitive_operator("workbench.mirror", category="movement", fusion=INJECTIVE, ranks=_IMAGE_RANKS)
def mirror(call: Call, x: torch.Tensor) -> torch.Tensor:
    """Flip along W.

    x: [N, C, H, W] -> [N, C, H, W]
    """
    return torch.flip(x, (3,))


@layout_sensitive_operator("workbench.rotate", category="movement", fusion=INJECTIVE, ranks=_IMAGE_RANKS)
def rotate(call: Call, x: torch.Tensor) -> torch.Tensor:
    """Rotate by 90 degrees counter-clockwise.

    x: [N, C, H, W] -> [N, C, W, H]
    """
    return torch.rot90(x, 1, (2, 3)).contiguous()


@layout_sensitive_operator(
    "workbench.tensornorm", category="normalization", fusion=FUSABLE, flops=per_output(6), ranks=_IMAGE_RANKS
)
def tensornorm(call: Call, x: torch.Tensor) -> torch.Tensor:
    """Normalize each image to mean 0 and variance 1 over C, H and W.

    x: [N, C, H, W] -> [N, C, H, W]
    """
    return F.layer_norm(x.contiguous(), x.shape[1:], eps=call.attr("epsilon", 1e-5))


@layout_sensitive_operator(
    "workbench.bilinear", category="movement", fusion=FUSABLE, flops=per_output(8), ranks=_IMAGE_RANKS
)
def bilinear(call: Call, x: torch.Tensor) -> torch.Tensor:
    """Resize to the attribute `size`, Y and X, by linear interpolation between pixel centres.

    x: [N, C, H, W] -> [N, C, Y, X]
    """
    return F.interpolate(x, size=tuple(call.attr("size")), mode="bilinear", align_corners=False)
