"""A convolution of dequantized operands whose result is quantized becomes QLinearConv."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.rewrite import Exactness, Example, Pass, Refusal
from workbench.rewrite.analyses.quantized import (
    have_one_scale_and_type,
    in_one_kernel,
    quantization_at,
    read_in_match_only,
    require_bias,
    require_weights,
    zero_point,
)
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match


def takes_its_weights(match: Match) -> None:
    """Scales of weights are for each output channel, and the bias counts products of integers."""
    image = quantization_at(match, "image")
    weights = require_weights(match, "weights", 0, image.dtype)
    require_bias(match, "bias", np.asarray(image.scale * weights.scale.ravel()))


@dataclass(frozen=True)
class OrtQlinearConv(Pass):
    """DequantizeLinear of image, weights and bias, Conv, and QuantizeLinear become QLinearConv, which is ONNX's own and
    sums products of integers.

    The image must have one scale and the type of the result, the weights one scale or one for each output channel, and
    the bias, if there is one, must be int32 in products of their scales. Does not apply if anything else reads the
    result of the Conv, nor to types for which ONNX Runtime's CPU provider has no kernel, such as int8 by uint8. A
    result may differ by one quantization step, since the float computation rounded differently. On processors without
    VNNI ONNX Runtime's sums of uint8 by int8 saturate unless weights use 7 bits, also where its own optimizer makes
    them.

    Source: ONNX's QLinearConv; ConvNodeGroupSelector in ONNX Runtime's
    onnxruntime/core/optimizer/qdq_transformer/selectors_actions/.
    """

    title = "ONNX Runtime: quantized convolution"

    rules = (
        graph_rule(
            "conv",
            """
            image = DequantizeLinear(x, xs, xz | None, **of_image)
            weights = DequantizeLinear(w, ws, wz | None, **of_weights)
            bias = DequantizeLinear(b, bs, bz | None, **of_bias)
            c = Conv(image, weights, bias | None, **others)
            y = QuantizeLinear(c, ys, yz | None, **of_result)
            """,
            "y = QLinearConv(x, xs, image_zero, w, ws, weights_zero, ys, result_zero, b, **others)",
            in_one_kernel("x"),
            Example(
                before="""g (uint8[1,2,4,4] x, int8[3,2,3,3] w) => (uint8[1,3,4,4] y) <
                    float xs = {0.1}, uint8 xz = {1}, float[3] ws = {0.3, 0.2, 0.1}, int8[3] wz = {0, 0, 0},
                    int32[3] b = {1, 0, -2}, float[3] bs = {0.03, 0.02, 0.01}, float ys = {0.07}, uint8 yz = {20}
                > {
                    a = DequantizeLinear(x, xs, xz)
                    v = DequantizeLinear<axis=0>(w, ws, wz)
                    u = DequantizeLinear<axis=0>(b, bs)
                    c = Conv<pads=[1,1,1,1]>(a, v, u)
                    y = QuantizeLinear(c, ys, yz)
                }""",
                after="""g (uint8[1,2,4,4] x, int8[3,2,3,3] w) => (uint8[1,3,4,4] y) <
                    float xs = {0.1}, uint8 xz = {1}, float[3] ws = {0.3, 0.2, 0.1}, int8[3] wz = {0, 0, 0},
                    float ys = {0.07}, uint8 yz = {20}, int32[3] b = {1, 0, -2}
                > {
                    y = QLinearConv<pads=[1,1,1,1]>(x, xs, xz, w, ws, wz, ys, yz, b)
                }""",
                sentences=(
                    "5 nodes, from DequantizeLinear 'DequantizeLinear_a' to QuantizeLinear 'QuantizeLinear_y', "
                    "become one"
                    " kernel of ONNX Runtime on integers, QLinearConv of 'x'; 4 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (uint8[1,2,4,4] x, int8[3,2,3,3] w) => (uint8[1,3,2,2] y, float[1,3,2,2] c)
                        <float s = {0.1}, uint8 z = {1}, int8 wz = {0}> {
                        a = DequantizeLinear(x, s, z)  v = DequantizeLinear(w, s, wz)  c = Conv(a, v)
                        y = QuantizeLinear(c, s, z)
                    }""",
                    "'c' of Conv 'Conv_c' is an output of the graph",
                ),
                Refusal(
                    """g (uint8[1,2,4,4] x, int8[3,2,3,3] w) => (int8[1,3,2,2] y)
                        <float s = {0.1}, uint8 z = {1}, int8 wz = {0}> {
                        a = DequantizeLinear(x, s, z)  v = DequantizeLinear(w, s, wz)  c = Conv(a, v)
                        y = QuantizeLinear(c, s, wz)
                    }""",
                    "DequantizeLinear 'DequantizeLinear_a' and QuantizeLinear 'QuantizeLinear_y' have integers of two"
                    " types, uint8 and int8",
                ),
                Refusal(
                    """g (int8[1,2,4,4] x, uint8[3,2,3,3] w) => (int8[1,3,2,2] y)
                        <float s = {0.1}, uint8 wz = {1}, int8 z = {0}> {
                        a = DequantizeLinear(x, s, z)  v = DequantizeLinear(w, s, wz)  c = Conv(a, v)
                        y = QuantizeLinear(c, s, z)
                    }""",
                    "ONNX Runtime has no kernel for int8 by uint8, which DequantizeLinear 'DequantizeLinear_v' gives",
                ),
                Refusal(
                    """g (uint8[1,2,4,4] x, int8[3,2,3,3] w) => (uint8[1,3,2,2] y)
                        <float s = {0.1}, uint8 z = {1}, float[2] ws = {0.1, 0.2}> {
                        a = DequantizeLinear(x, s, z)  v = DequantizeLinear<axis=1>(w, ws)  c = Conv(a, v)
                        y = QuantizeLinear(c, s, z)
                    }""",
                    "DequantizeLinear 'DequantizeLinear_v' has scales along axis 1, not 0",
                ),
                Refusal(
                    """g (uint8[1,2,4,4] x, int8[3,2,3,3] w) => (uint8[1,3,2,2] y)
                        <float s = {0.1}, uint8 z = {1}, float[3] ws = {0.1, 0.2, 0.1}, int8[3] wz = {0, 1, 0}> {
                        a = DequantizeLinear(x, s, z)  v = DequantizeLinear<axis=0>(w, ws, wz)  c = Conv(a, v)
                        y = QuantizeLinear(c, s, z)
                    }""",
                    "DequantizeLinear 'DequantizeLinear_v' has several zero points",
                ),
                Refusal(
                    """g (uint8[1,2,4,4] x, int8[3,2,3,3] w) => (uint8[1,3,2,2] y)
                        <float s = {0.1}, uint8 z = {1}, int8 wz = {0}, int32[3] b = {1, 2, 3}> {
                        a = DequantizeLinear(x, s, z)  v = DequantizeLinear(w, s, wz)  u = DequantizeLinear(b, s)
                        c = Conv(a, v, u)  y = QuantizeLinear(c, s, z)
                    }""",
                    "the scale of DequantizeLinear 'DequantizeLinear_u', the bias, is not the product of the other"
                    " operands' scales",
                ),
                Refusal(
                    """g (uint8[1,2,4,4] x, int8[3,2,3,3] w, float[3] b) => (uint8[1,3,2,2] y)
                        <float s = {0.1}, uint8 z = {1}, int8 wz = {0}> {
                        a = DequantizeLinear(x, s, z)  v = DequantizeLinear(w, s, wz)  c = Conv(a, v, b)
                        y = QuantizeLinear(c, s, z)
                    }""",
                    "Conv 'Conv_c' does not follow a DequantizeLinear",
                ),
                Refusal(
                    """g (uint8[1,2,4,4] x, int8[3,2,3,3] w, float t) => (uint8[1,3,2,2] y)
                        <float s = {0.1}, uint8 z = {1}, int8 wz = {0}> {
                        a = DequantizeLinear(x, t, z)  v = DequantizeLinear(w, s, wz)  c = Conv(a, v)
                        y = QuantizeLinear(c, s, z)
                    }""",
                    "'t', an operand of DequantizeLinear 'DequantizeLinear_a', is not a constant",
                ),
            ),
            constants=("xs", "xz", "ws", "wz", "bs", "bz", "ys", "yz"),
            where=(read_in_match_only("c"), have_one_scale_and_type("image", "y"), takes_its_weights),
            computed={
                "image_zero": zero_point("image"),
                "weights_zero": zero_point("weights"),
                "result_zero": zero_point("y"),
            },
            shared=True,
            exactness=Exactness.STEP,
        ),
    )
