"""Matrix products of dequantized operands become QLinearMatMul, QGemm or MatMulIntegerToFloat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.analyses.quantized import (
    Quantization,
    have_one_scale_and_type,
    in_one_kernel,
    one_scale_of_8_bits,
    read_in_match_only,
    require_bias,
    require_weights,
    zero_point,
)
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match

_OPERANDS = """
left = DequantizeLinear(a, sa, za | None, **of_left)
right = DequantizeLinear(b, sb, zb | None, **of_right)
"""
_GEMM = f"""{_OPERANDS}
bias = DequantizeLinear(c, sc, zc | None, **of_bias)
p = Gemm(left, right, bias | None, alpha=alpha, beta=beta, transA=ta, transB=tb)
"""
_RESULT = "y = QuantizeLinear(p, sy, zy | None, **of_result)"
_ZEROS = {"left_zero": zero_point("left"), "right_zero": zero_point("right")}
_ZERO_OF_RESULT = {"result_zero": zero_point("y")}


def is_product(match: Match) -> None:
    """Raises NoMatch unless the second operand has one scale, or, if it is a matrix, one for each column."""
    left = one_scale_of_8_bits(match, "left")
    right = require_weights(match, "right", 1, left.dtype)
    ranks = (match.graph.rank_of(match["a"]), match.graph.rank_of(match["b"]))
    if None in ranks or 1 in ranks or (right.axis is not None and ranks[1] != 2):
        raise NoMatch(f"an operand of {match.node('p')} is not known to have two axes")


def is_gemm(match: Match) -> None:
    left = one_scale_of_8_bits(match, "left")
    right = require_weights(match, "right", 0 if match.data["tb"] else 1, left.dtype)
    require_bias(match, "bias", _unit(match, left, right))
    if match.get("bias") is not None and match.data["beta"] != 1:
        raise NoMatch(f"{match.node('p')} multiplies its third operand by {match.data['beta']:g}")


def _unit(match: Match, left: Quantization, right: Quantization) -> np.ndarray:
    return np.asarray(match.data["alpha"] * left.scale * right.scale.ravel())


def is_not_quantized(match: Match) -> None:
    """Raises NoMatch if a QuantizeLinear reads the result: another rule then matches it too."""
    reader = next((user for user in match.graph.users(match["p"]) if user.op == "QuantizeLinear"), None)
    if reader is not None:
        raise NoMatch(f"{reader} quantizes the result of {match.root}")


@dataclass(frozen=True)
class OrtQlinearMatmul(Pass):
    """Four cases, for operands that a DequantizeLinear makes:

    - MatMul and QuantizeLinear become QLinearMatMul, which is ONNX's own;
    - Gemm and QuantizeLinear become com.microsoft.QGemm;
    - a MatMul that nothing quantizes becomes com.microsoft.MatMulIntegerToFloat;
    - a Gemm that nothing quantizes becomes com.microsoft.QGemm with a result of floats.

    The first operand must have one scale and the type of a quantized result, the second one scale or one for each
    column, and the bias of a Gemm, if there is one, must be int32 in products of their scales. Does not apply if
    anything else reads what a QuantizeLinear reads, nor to types for which ONNX Runtime's CPU provider has no kernel,
    such as int8 by uint8. A quantized result may differ by one quantization step, since the float computation rounded
    differently. On processors without VNNI ONNX Runtime's sums of uint8 by int8 saturate unless weights use 7 bits,
    also where its own optimizer makes them. The file then runs in ONNX Runtime only.

    Source: ONNX's QLinearMatMul; ONNX Runtime's QGemm and MatMulIntegerToFloat,
    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md; MatMulNodeGroupSelector and
    GemmNodeGroupSelector in its onnxruntime/core/optimizer/qdq_transformer/selectors_actions/.
    """

    title = "ONNX Runtime: quantized matrix products"

    rules = (
        graph_rule(
            "matmul",
            f"{_OPERANDS}\np = MatMul(left, right)\n{_RESULT}",
            "y = QLinearMatMul(a, sa, left_zero, b, sb, right_zero, sy, result_zero)",
            in_one_kernel("a"),
            Example(
                before="""g (uint8[N,3] a, int8[3,2] b) => (uint8[N,2] y) <
                    float sa = {0.1}, uint8 za = {1}, float[2] sb = {0.3, 0.2}, float sy = {0.07}, uint8 zy = {20}
                > {
                    d = DequantizeLinear(a, sa, za)
                    e = DequantizeLinear<axis=1>(b, sb)
                    p = MatMul(d, e)
                    y = QuantizeLinear(p, sy, zy)
                }""",
                after="""g (uint8[N,3] a, int8[3,2] b) => (uint8[N,2] y) <
                    float sa = {0.1}, uint8 za = {1}, float[2] sb = {0.3, 0.2}, float sy = {0.07}, uint8 zy = {20},
                    int8[2] y_right_zero = {0, 0}
                > {
                    y = QLinearMatMul(a, sa, za, b, sb, y_right_zero, sy, zy)
                }""",
                sentences=(
                    "4 nodes, from DequantizeLinear 'DequantizeLinear_d' to QuantizeLinear 'QuantizeLinear_y', "
                    "become one"
                    " kernel of ONNX Runtime on integers, QLinearMatMul of 'a'; 3 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (uint8[2,3] a, int8[3,2] b) => (uint8[2,2] y)
                        <float s = {0.1}, uint8 z = {1}, float[3] sb = {1, 2, 3}> {
                        d = DequantizeLinear(a, s, z)  e = DequantizeLinear<axis=0>(b, sb)  p = MatMul(d, e)
                        y = QuantizeLinear(p, s, z)
                    }""",
                    "DequantizeLinear 'DequantizeLinear_e' has scales along axis 0, not 1",
                ),
                Refusal(
                    """g (uint8[3] a, int8[3,2] b) => (uint8[2] y) <float s = {0.1}, uint8 z = {1}> {
                        d = DequantizeLinear(a, s, z)  e = DequantizeLinear(b, s)  p = MatMul(d, e)
                        y = QuantizeLinear(p, s, z)
                    }""",
                    "an operand of MatMul 'MatMul_p' is not known to have two axes",
                ),
                Refusal(
                    """g (uint8[2,3] a, int8[3,2] b) => (uint8[2,2] y, float[2,2] p) <float s = {0.1}, uint8 z = {1}> {
                        d = DequantizeLinear(a, s, z)  e = DequantizeLinear(b, s)  p = MatMul(d, e)
                        y = QuantizeLinear(p, s, z)
                    }""",
                    "'p' of MatMul 'MatMul_p' is an output of the graph",
                ),
                Refusal(
                    """g (int8[2,3] a, int8[3,2] b) => (uint8[2,2] y) <float s = {0.1}, uint8 z = {1}> {
                        d = DequantizeLinear(a, s)  e = DequantizeLinear(b, s)  p = MatMul(d, e)
                        y = QuantizeLinear(p, s, z)
                    }""",
                    "DequantizeLinear 'DequantizeLinear_d' and QuantizeLinear 'QuantizeLinear_y' have integers of two"
                    " types, int8 and uint8",
                ),
            ),
            constants=("sa", "za", "sb", "zb", "sy", "zy"),
            where=(read_in_match_only("p"), have_one_scale_and_type("left", "y"), is_product),
            computed={**_ZEROS, **_ZERO_OF_RESULT},
            shared=True,
            exactness=Exactness.STEP,
        ),
        graph_rule(
            "gemm",
            f"{_GEMM}\n{_RESULT}",
            """
            y = com.microsoft.QGemm(
                a, sa, left_zero, b, sb, right_zero, c, sy, result_zero, alpha=alpha, transA=ta, transB=tb)
            """,
            in_one_kernel("a"),
            Example(
                before="""g (uint8[N,3] a, int8[2,3] b) => (uint8[N,2] y) <
                    float sa = {0.1}, uint8 za = {1}, float[2] sb = {0.3, 0.2}, int8[2] zb = {0, 0},
                    int32[2] c = {5, -7}, float[2] sc = {0.03, 0.02}, float sy = {0.07}, uint8 zy = {20}
                > {
                    d = DequantizeLinear(a, sa, za)
                    e = DequantizeLinear<axis=0>(b, sb, zb)
                    f = DequantizeLinear<axis=0>(c, sc)
                    p = Gemm<transB=1>(d, e, f)
                    y = QuantizeLinear(p, sy, zy)
                }""",
                after="""g (uint8[N,3] a, int8[2,3] b) => (uint8[N,2] y) <
                    float sa = {0.1}, uint8 za = {1}, float[2] sb = {0.3, 0.2}, int8[2] zb = {0, 0},
                    int32[2] c = {5, -7}, float sy = {0.07}, uint8 zy = {20}
                > {
                    y = com.microsoft.QGemm<alpha=1.0, transA=0, transB=1>(a, sa, za, b, sb, zb, c, sy, zy)
                }""",
                sentences=(
                    "5 nodes, from DequantizeLinear 'DequantizeLinear_d' to QuantizeLinear 'QuantizeLinear_y', "
                    "become one"
                    " kernel of ONNX Runtime on integers, com.microsoft.QGemm of 'a'; 4 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (uint8[2,3] a, int8[3,2] b) => (uint8[2,2] y) <
                        float s = {0.1}, uint8 z = {1}, int32[2] c = {5, -7}, float t = {0.01}
                    > {
                        d = DequantizeLinear(a, s, z)  e = DequantizeLinear(b, s)  f = DequantizeLinear(c, t)
                        p = Gemm<beta=0.5>(d, e, f)  y = QuantizeLinear(p, s, z)
                    }""",
                    "Gemm 'Gemm_p' multiplies its third operand by 0.5",
                ),
                Refusal(
                    """g (uint8[2,3] a, int8[3,2] b) => (uint8[2,2] y) <
                        float s = {0.1}, uint8 z = {1}, uint8[2] c = {5, 7}, float t = {0.01}
                    > {
                        d = DequantizeLinear(a, s, z)  e = DequantizeLinear(b, s)  f = DequantizeLinear(c, t)
                        p = Gemm(d, e, f)  y = QuantizeLinear(p, s, z)
                    }""",
                    "DequantizeLinear 'DequantizeLinear_f', the bias, is not a vector of int32 with the zero point 0",
                ),
            ),
            constants=("sa", "za", "sb", "zb", "sc", "zc", "sy", "zy"),
            where=(read_in_match_only("p"), have_one_scale_and_type("left", "y"), is_gemm),
            computed={**_ZEROS, **_ZERO_OF_RESULT},
            shared=True,
            exactness=Exactness.STEP,
        ),
        graph_rule(
            "matmul to floats",
            f"{_OPERANDS}\np = MatMul(left, right)",
            "p = com.microsoft.MatMulIntegerToFloat(a, b, sa, sb, left_zero, right_zero)",
            in_one_kernel("a"),
            Example(
                before="""g (uint8[N,3] a, int8[3,2] b) => (float[N,2] p)
                    <float sa = {0.125}, uint8 za = {1}, float sb = {0.25}, int8 zb = {2}> {
                    d = DequantizeLinear(a, sa, za)
                    e = DequantizeLinear(b, sb, zb)
                    p = MatMul(d, e)
                }""",
                after="""g (uint8[N,3] a, int8[3,2] b) => (float[N,2] p)
                    <float sa = {0.125}, uint8 za = {1}, float sb = {0.25}, int8 zb = {2}> {
                    p = com.microsoft.MatMulIntegerToFloat(a, b, sa, sb, za, zb)
                }""",
                sentences=(
                    "3 nodes, from DequantizeLinear 'DequantizeLinear_d' to MatMul 'MatMul_p', become one kernel "
                    "of ONNX"
                    " Runtime on integers, com.microsoft.MatMulIntegerToFloat of 'a'; 2 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (uint8[2,3] a, int8[3,2] b) => (uint8[2,2] y) <float s = {0.1}, uint8 z = {1}> {
                        d = DequantizeLinear(a, s, z)  e = DequantizeLinear(b, s)  p = MatMul(d, e)
                        y = QuantizeLinear(p, s, z)
                    }""",
                    "QuantizeLinear 'QuantizeLinear_y' quantizes the result of MatMul 'MatMul_p'",
                ),
            ),
            constants=("sa", "za", "sb", "zb"),
            where=(is_not_quantized, is_product),
            computed=_ZEROS,
            shared=True,
            exactness=Exactness.ROUNDING,
        ),
        graph_rule(
            "gemm to floats",
            _GEMM,
            """
            p = com.microsoft.QGemm(a, sa, left_zero, b, sb, right_zero, c, alpha=alpha, transA=ta, transB=tb)
            """,
            in_one_kernel("a"),
            Example(
                before="""g (uint8[N,3] a, int8[3,2] b) => (float[N,2] p)
                    <float sa = {0.125}, uint8 za = {1}, float sb = {0.25}, int8 zb = {2}> {
                    d = DequantizeLinear(a, sa, za)
                    e = DequantizeLinear(b, sb, zb)
                    p = Gemm(d, e)
                }""",
                after="""g (uint8[N,3] a, int8[3,2] b) => (float[N,2] p)
                    <float sa = {0.125}, uint8 za = {1}, float sb = {0.25}, int8 zb = {2}> {
                    p = com.microsoft.QGemm<alpha=1.0, transA=0, transB=0>(a, sa, za, b, sb, zb)
                }""",
                sentences=(
                    "3 nodes, from DequantizeLinear 'DequantizeLinear_d' to Gemm 'Gemm_p', become one kernel of "
                    "ONNX Runtime"
                    " on integers, com.microsoft.QGemm of 'a'; 2 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (uint8[2,3] a, int8[3,2] b) => (uint8[2,2] y) <float s = {0.1}, uint8 z = {1}> {
                        d = DequantizeLinear(a, s, z)  e = DequantizeLinear(b, s)  p = Gemm(d, e)
                        y = QuantizeLinear(p, s, z)
                    }""",
                    "QuantizeLinear 'QuantizeLinear_y' quantizes the result of Gemm 'Gemm_p'",
                ),
            ),
            constants=("sa", "za", "sb", "zb", "sc", "zc"),
            where=(is_not_quantized, is_gemm),
            computed=_ZEROS,
            shared=True,
            exactness=Exactness.ROUNDING,
        ),
    )
