"""A product of integers, scaled to floats, becomes ONNX Runtime's DynamicQuantizeMatMul or MatMulIntegerToFloat."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import DataType
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.analyses.quantized import EIGHT_BITS, in_one_kernel
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match

_SCALED = """
i = MatMulInteger(a, b, za | None, zb | None)
p = Mul(Cast(i, to=1), Mul(sa, sb))
y = Add(p, bias) | p
"""


def are_kernel_types(match: Match) -> None:
    """Raises NoMatch unless uint8 is multiplied by any of the two types, or int8 by int8."""
    types = [match.graph.tensor_type(match[name]) for name in ("a", "b")]
    results = [None if type_ is None else type_.dtype for type_ in types]
    if not set(results) <= set(EIGHT_BITS) or results == [DataType.INT8, DataType.UINT8]:
        raise NoMatch(f"ONNX Runtime has no kernel for the types of '{match['a']}' and '{match['b']}'")


def are_kernel_shapes(match: Match) -> None:
    """The first operand has one scale, the second one or one for each column; a bias is a vector of the last axis."""
    graph, node = match.graph, match.node("i")
    left, right = graph.shape(match["a"]), graph.shape(match["b"])
    if left is None or right is None or len(left) < 2 or len(right) < 2:
        raise NoMatch(f"an operand of {node} is not known to have two axes")
    columns = (right[-1],) if len(right) == 2 else None
    ones = ((), (1,))
    if graph.shape(match["sa"]) not in ones or graph.shape(match["sb"]) not in (*ones, columns):
        raise NoMatch(f"'{match['sa']}' is not one scale, or '{match['sb']}' is not one scale or one for each column")
    for zero, scale in (("za", "sa"), ("zb", "sb")):
        value = match.get(zero)
        if value and graph.shape(value) != graph.shape(match[scale]):
            raise NoMatch(f"'{value}' is not known to have the shape of '{match[scale]}'")
    bias = match.get("bias")
    if bias and graph.shape(bias) != (right[-1],):
        raise NoMatch(f"'{bias}' of {match.root} is not a vector as long as the last axis of '{match['b']}'")


def is_one_float(match: Match) -> None:
    """Raises NoMatch unless both scales are float32, as those of DynamicQuantizeLinear are."""
    for name in ("sa", "sb"):
        type_ = match.graph.tensor_type(match[name])
        if type_ is None or type_.dtype != DataType.FLOAT:
            raise NoMatch(f"'{match[name]}' is not known to be float32")


@dataclass(frozen=True)
class OrtDynamicMatmul(Pass):
    """Two cases, for a MatMulInteger whose result is cast to float32 and multiplied by the scales of both operands,
    with the bias after it, if there is one:

    - with the DynamicQuantizeLinear before it, it becomes com.microsoft.DynamicQuantizeMatMul;
    - of integers that others read too, or that something else makes, com.microsoft.MatMulIntegerToFloat.

    Does not apply:

    - if anything else reads an intermediate value;
    - to scales for each row of the first operand;
    - to int8 by uint8, for which ONNX Runtime's CPU provider has no kernel.

    The file then runs in ONNX Runtime only.

    Source: ONNX Runtime's DynamicQuantizeMatMul and MatMulIntegerToFloat,
    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md; its DynamicQuantizeMatMulFusion and
    MatMulIntegerToFloatFusion.
    """

    title = "ONNX Runtime: products of integers scaled to floats in one kernel"

    rules = (
        graph_rule(
            "dynamic",
            f"a, sa, za = DynamicQuantizeLinear(x)\n{_SCALED.replace('za | None', 'za')}",
            "y = com.microsoft.DynamicQuantizeMatMul(x, b, sb, zb, bias)",
            in_one_kernel("x"),
            Example(
                before="""g (float[N,3] x) => (float[N,2] y) <int8[3,2] b = {1, -2, 3, 100, -5, 7},
                    float[2] sb = {0.25, 0.125}, int8[2] zb = {0, 0}, float[2] c = {0.5, -1}> {
                    a, s, z = DynamicQuantizeLinear(x)
                    i = MatMulInteger(a, b, z, zb)
                    f = Cast<to=1>(i)
                    t = Mul(s, sb)
                    p = Mul(f, t)
                    y = Add(p, c)
                }""",
                after="""g (float[N,3] x) => (float[N,2] y) <int8[3,2] b = {1, -2, 3, 100, -5, 7},
                    float[2] sb = {0.25, 0.125}, int8[2] zb = {0, 0}, float[2] c = {0.5, -1}> {
                    y = com.microsoft.DynamicQuantizeMatMul(x, b, sb, zb, c)
                }""",
                sentences=(
                    "6 nodes, from DynamicQuantizeLinear 'DynamicQuantizeLinear_a' to Add 'Add_y', become one "
                    "kernel of ONNX"
                    " Runtime on integers, com.microsoft.DynamicQuantizeMatMul of 'x'; 5 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3] x, int8[3,2] b, float s) => (float[2,2] y, uint8[2,3] w) {
                        a, sa, z = DynamicQuantizeLinear(x)
                        i = MatMulInteger(a, b, z)  f = Cast<to=1>(i)  t = Mul(sa, s)  y = Mul(f, t)
                        w = Identity(a)
                    }""",
                    "Identity 'Identity_w' reads 'a' of DynamicQuantizeLinear 'DynamicQuantizeLinear_a' too",
                ),
                Refusal(
                    """g (float[2,3] x, int8[3,2] b, float[3] s) => (float[2,3] y) {
                        a, sa, z = DynamicQuantizeLinear(x)
                        i = MatMulInteger(a, b, z)  f = Cast<to=1>(i)  t = Mul(sa, s)  y = Mul(f, t)
                    }""",
                    "'sa' is not one scale, or 's' is not one scale or one for each column",
                ),
            ),
            where=(is_one_float, are_kernel_shapes),
            exactness=Exactness.ROUNDING,
        ),
        graph_rule(
            "of integers",
            _SCALED,
            "y = com.microsoft.MatMulIntegerToFloat(a, b, sa, sb, za, zb, bias)",
            in_one_kernel("a"),
            Example(
                before="""g (uint8[N,3] a, uint8[3,2] b, float sa, uint8 za, float sb) => (float[N,2] y) {
                    i = MatMulInteger(a, b, za)
                    f = Cast<to=1>(i)
                    t = Mul(sa, sb)
                    y = Mul(f, t)
                }""",
                after="""g (uint8[N,3] a, uint8[3,2] b, float sa, uint8 za, float sb) => (float[N,2] y) {
                    y = com.microsoft.MatMulIntegerToFloat(a, b, sa, sb, za)
                }""",
                sentences=(
                    "4 nodes, from MatMulInteger 'MatMulInteger_i' to Mul 'Mul_y', become one kernel of ONNX Runtime on"
                    " integers, com.microsoft.MatMulIntegerToFloat of 'a'; 3 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (int8[2,3] a, uint8[3,2] b, float s) => (float[2,2] y) {
                        i = MatMulInteger(a, b)  f = Cast<to=1>(i)  t = Mul(s, s)  y = Mul(f, t)
                    }""",
                    "ONNX Runtime has no kernel for the types of 'a' and 'b'",
                ),
                Refusal(
                    """g (uint8[3] a, uint8[3,2] b, float s) => (float[2] y) {
                        i = MatMulInteger(a, b)  f = Cast<to=1>(i)  t = Mul(s, s)  y = Mul(f, t)
                    }""",
                    "an operand of MatMulInteger 'MatMulInteger_i' is not known to have two axes",
                ),
                Refusal(
                    """g (uint8[2,3] a, uint8[3,2] b, float s) => (float[2,2] y, int32[2,2] i) {
                        i = MatMulInteger(a, b)  f = Cast<to=1>(i)  t = Mul(s, s)  y = Mul(f, t)
                    }""",
                    "'i' of MatMulInteger 'MatMulInteger_i' is an output of the graph",
                ),
                Refusal(
                    """g (uint8[2,3] a, uint8[3,2] b, float s, uint8[2] z) => (float[2,2] y) {
                        i = MatMulInteger(a, b, , z)  f = Cast<to=1>(i)  t = Mul(s, s)  y = Mul(f, t)
                    }""",
                    "'z' is not known to have the shape of 's'",
                ),
            ),
            where=(is_one_float, are_kernel_types, are_kernel_shapes),
            exactness=Exactness.ROUNDING,
        ),
    )

    extra_examples = (
        Example(
            title="What is added is no bias",
            before="""g (int8[2,3] a, int8[3,2] b, float s, float t, float[2,1] c) => (float[2,2] y) {
                i = MatMulInteger(a, b)
                f = Cast<to=1>(i)
                u = Mul(s, t)
                p = Mul(u, f)
                y = Add(p, c)
            }""",
            after="""g (int8[2,3] a, int8[3,2] b, float s, float t, float[2,1] c) => (float[2,2] y) {
                p = com.microsoft.MatMulIntegerToFloat(a, b, s, t)
                y = Add(p, c)
            }""",
            sentences=(
                "4 nodes, from Mul 'Mul_u' to Mul 'Mul_p', become one kernel of ONNX Runtime on integers,"
                " com.microsoft.MatMulIntegerToFloat of 'a'; 3 nodes fewer",
            ),
        ),
    )
