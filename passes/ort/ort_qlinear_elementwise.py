"""Sums, products and activations of dequantized values whose result is quantized become kernels on integers."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, Pass, Refusal, Rule
from workbench.rewrite.analyses.quantized import (
    have_one_scale_and_type,
    in_one_kernel,
    read_in_match_only,
    rule_of_one_operand,
    zero_point,
)
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match


def _opset(match: Match) -> int:
    """The opset of the model, which QLinearSoftmax needs: before 13, the axis of Softmax had another meaning."""
    return match.graph.opset_imports.get("", 0)


def _binary_rule(op: str) -> Rule:
    kernel = f"kernel of ONNX Runtime on integers, com.microsoft.QLinear{op} of 'a'"
    return graph_rule(
        op.lower(),
        f"""
        left = DequantizeLinear(a, sa, za | None, **of_left)
        right = DequantizeLinear(b, sb, zb | None, **of_right) | left
        c = {op}(left, right)
        y = QuantizeLinear(c, sy, zy | None, **of_result)
        """,
        f"y = com.microsoft.QLinear{op}(a, sa, left_zero, second, second_scale, right_zero, sy, result_zero)",
        in_one_kernel("a"),
        Example(
            before=f"""g (uint8[N,3] a, uint8[3] b) => (uint8[N,3] y) <float sa = {{0.125}}, uint8 za = {{3}},
                float sb = {{0.25}}, uint8 zb = {{7}}, float sy = {{0.19}}, uint8 zy = {{20}}> {{
                d = DequantizeLinear(a, sa, za)
                e = DequantizeLinear(b, sb, zb)
                c = {op}(d, e)
                y = QuantizeLinear(c, sy, zy)
            }}""",
            after=f"""g (uint8[N,3] a, uint8[3] b) => (uint8[N,3] y) <float sa = {{0.125}}, uint8 za = {{3}},
                float sb = {{0.25}}, uint8 zb = {{7}}, float sy = {{0.19}}, uint8 zy = {{20}}> {{
                y = com.microsoft.QLinear{op}(a, sa, za, b, sb, zb, sy, zy)
            }}""",
            sentences=(
                "4 nodes, from DequantizeLinear 'DequantizeLinear_d' to QuantizeLinear 'QuantizeLinear_y', become one"
                f" {kernel}; 3 nodes fewer",
            ),
        ),
        refusals=(
            Refusal(
                f"""g (uint8[2,3] a, int8[3] b) => (uint8[2,3] y) <float s = {{0.1}}, uint8 z = {{3}}> {{
                    d = DequantizeLinear(a, s, z)  e = DequantizeLinear(b, s)  c = {op}(d, e)
                    y = QuantizeLinear(c, s, z)
                }}""",
                "DequantizeLinear 'DequantizeLinear_d' and DequantizeLinear 'DequantizeLinear_e' have integers of two"
                " types, uint8 and int8",
            ),
            Refusal(
                f"""g (uint8[2,3] a, uint8[3] b) => (uint8[2,3] y, float[2,3] z) <float s = {{0.1}}> {{
                    d = DequantizeLinear(a, s)  e = DequantizeLinear(b, s)  c = {op}(d, e)
                    y = QuantizeLinear(c, s)  z = Neg(c)
                }}""",
                f"Neg 'Neg_z' reads 'c' of {op} '{op}_c' too",
            ),
        ),
        constants=("sa", "za", "sb", "zb", "sy", "zy"),
        where=(read_in_match_only("c"), have_one_scale_and_type("left", "right", "y")),
        computed={
            "second": lambda match: match.node("right").inputs[0],
            "second_scale": lambda match: match.node("right").inputs[1],
            "left_zero": zero_point("left"),
            "right_zero": zero_point("right"),
            "result_zero": zero_point("y"),
        },
        shared=True,
        exactness=Exactness.STEP,
    )


def _unary_rule(name: str, op: str, attributes_before: str, attributes_after: str, text: str, text_after: str) -> Rule:
    """attributes_before, attributes_after: in the two patterns; text, text_after: in the example."""
    new = f"com.microsoft.QLinear{op}"
    return rule_of_one_operand(
        name,
        op,
        attributes_before,
        attributes_after,
        Example(
            before=f"""g (int8[N,3] x) => (int8[N,3] y)
                <float sx = {{0.125}}, int8 zx = {{3}}, float sy = {{0.0041}}, int8 zy = {{-100}}> {{
                d = DequantizeLinear(x, sx, zx)
                c = {op}{text}(d)
                y = QuantizeLinear(c, sy, zy)
            }}""",
            after=f"""g (int8[N,3] x) => (int8[N,3] y)
                <float sx = {{0.125}}, int8 zx = {{3}}, float sy = {{0.0041}}, int8 zy = {{-100}}> {{
                y = {new}{text_after}(x, sx, zx, sy, zy)
            }}""",
            sentences=(
                "3 nodes, from DequantizeLinear 'DequantizeLinear_d' to QuantizeLinear 'QuantizeLinear_y', become one "
                "kernel of"
                f" ONNX Runtime on integers, {new} of 'x'; 2 nodes fewer",
            ),
        ),
        refusals=(
            Refusal(
                f"""g (int8[2,3] x) => (uint8[2,3] y) <float s = {{0.1}}> {{
                    d = DequantizeLinear(x, s)  c = {op}{text}(d)  y = QuantizeLinear(c, s)
                }}""",
                "DequantizeLinear 'DequantizeLinear_d' and QuantizeLinear 'QuantizeLinear_y' have integers of two"
                " types, int8 and uint8",
            ),
            Refusal(
                f"""g (uint8[2,3] x) => (uint8[2,3] y) <float[3] s = {{0.1, 0.2, 0.3}}, float t = {{0.1}}> {{
                    d = DequantizeLinear(x, s)  c = {op}{text}(d)  y = QuantizeLinear(c, t)
                }}""",
                "DequantizeLinear 'DequantizeLinear_d' has 3 scales, not one",
            ),
        ),
        computed={"opset": _opset},
    )


@dataclass(frozen=True)
class OrtQlinearElementwise(Pass):
    """Five cases: between DequantizeLinear and QuantizeLinear, Add, Mul, Sigmoid, LeakyRelu and Softmax become
    com.microsoft.QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu and QLinearSoftmax.

    Does not apply:

    - if anything else reads what the QuantizeLinear reads;
    - if a value is quantized per axis;
    - if types differ or are other than uint8 and int8.

    A result may differ by one quantization step, since the float computation rounded differently. The file then runs in
    ONNX Runtime only.

    Source: these operators, https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md;
    BinaryNodeGroupSelector and UnaryNodeGroupSelector in ONNX Runtime's
    onnxruntime/core/optimizer/qdq_transformer/selectors_actions/.
    """

    title = "ONNX Runtime: quantized sums, products and activations"

    rules = (
        _binary_rule("Add"),
        _binary_rule("Mul"),
        _unary_rule("sigmoid", "Sigmoid", "", "", "", ""),
        _unary_rule("leaky relu", "LeakyRelu", ", alpha=alpha", ", alpha=alpha", "<alpha=0.25>", "<alpha=0.25>"),
        _unary_rule("softmax", "Softmax", ", axis=axis", ", axis=axis, opset=opset", "<axis=1>", "<axis=1, opset=23>"),
    )

    extra_examples = (
        Example(
            title="A square",
            before="""g (uint8[N,3] x) => (uint8[N,3] y) <float s = {0.125}, float t = {0.19}, uint8 z = {20}> {
                a = DequantizeLinear(x, s, z)
                c = Mul(a, a)
                y = QuantizeLinear(c, t, z)
            }""",
            after="""g (uint8[N,3] x) => (uint8[N,3] y) <float s = {0.125}, float t = {0.19}, uint8 z = {20}> {
                y = com.microsoft.QLinearMul(x, s, z, x, s, z, t, z)
            }""",
            sentences=(
                "3 nodes, from DequantizeLinear 'DequantizeLinear_a' to QuantizeLinear 'QuantizeLinear_y', become one "
                "kernel of"
                " ONNX Runtime on integers, com.microsoft.QLinearMul of 'x'; 2 nodes fewer",
            ),
        ),
    )
