"""Average pools of dequantized images whose result is quantized become kernels on integers."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Example, NoMatch, Pass, Refusal, Rule
from workbench.rewrite.analyses.quantized import rule_of_one_operand
from workbench.rewrite.patterns.matching import Match


def is_plain_pool(match: Match) -> None:
    """ONNX Runtime's kernel is of AveragePool before opset 19, which had no dilations and counted other pads."""
    rank = match.graph.rank_of(match["x"])
    if rank not in (3, 4, 5):
        raise NoMatch(f"'{match['x']}' is not known to have one to three axes after the channels")
    pool = match.node("c")
    if pool.attr("ceil_mode") or set(pool.attr("dilations", (1,))) != {1}:
        raise NoMatch(f"{pool} rounds sizes up or has dilations")


def _rule(name: str, op: str, given: str, kept: str, text: str, text_after: str, size: int) -> Rule:
    """given, kept: attributes in the two patterns; text, text_after: in the example, whose result is of that size."""
    new = f"com.microsoft.QLinear{op}"
    return rule_of_one_operand(
        name,
        op,
        given,
        kept,
        Example(
            before=f"""g (uint8[N,2,4,4] x) => (uint8[N,2,{size},{size}] y)
                <float sx = {{0.125}}, uint8 zx = {{3}}, float sy = {{0.19}}, uint8 zy = {{40}}> {{
                d = DequantizeLinear(x, sx, zx)
                c = {op}{text}(d)
                y = QuantizeLinear(c, sy, zy)
            }}""",
            after=f"""g (uint8[N,2,4,4] x) => (uint8[N,2,{size},{size}] y)
                <float sx = {{0.125}}, uint8 zx = {{3}}, float sy = {{0.19}}, uint8 zy = {{40}}> {{
                y = {new}{text_after}(x, sx, zx, sy, zy)
            }}""",
            sentences=(
                "DequantizeLinear 'DequantizeLinear_d' to QuantizeLinear 'QuantizeLinear_y', 3 nodes, are one kernel of"
                f" ONNX Runtime on integers, {new} of 'x'; 2 less",
            ),
        ),
        refusals=(
            Refusal(
                f"""g (uint8[1,2,4,4] x) => (int8[1,2,{size},{size}] y) <float s = {{0.1}}, int8 z = {{0}}> {{
                    d = DequantizeLinear(x, s)  c = {op}{text}(d)  y = QuantizeLinear(c, s, z)
                }}""",
                "DequantizeLinear 'DequantizeLinear_d' and QuantizeLinear 'QuantizeLinear_y' have integers of two"
                " types, uint8 and int8",
            ),
            Refusal(
                f"""g (uint8[1,2,4,4] x) => (uint8[1,2,{size},{size}] y, float[1,2,{size},{size}] c)
                    <float s = {{0.1}}> {{
                    d = DequantizeLinear(x, s)  c = {op}{text}(d)  y = QuantizeLinear(c, s)
                }}""",
                f"'c' of {op} '{op}_c' is an output of the graph",
            ),
        ),
        where=(is_plain_pool,),
    )


@dataclass(frozen=True)
class OrtQlinearPool(Pass):
    """Two cases: between DequantizeLinear and QuantizeLinear, AveragePool and GlobalAveragePool become
    com.microsoft.QLinearAveragePool and QLinearGlobalAveragePool.

    Must not act if anything else reads the pool's result; unless image and result have one scale each and the same
    type, uint8 or int8; nor on pools that round sizes up or have dilations. A result may be the next integer, since the
    floats were rounded otherwise. The file then runs in ONNX Runtime only.

    Source: these operators, https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md;
    UnaryNodeGroupSelector in ONNX Runtime's onnxruntime/core/optimizer/qdq_transformer/selectors_actions/.
    """

    title = "ONNX Runtime: quantized average pools"

    rules = (
        _rule(
            *("average", "AveragePool", ", **others", ", **others"),
            *("<kernel_shape=[2,2], strides=[2,2]>", "<kernel_shape=[2,2], strides=[2,2]>", 2),
        ),
        _rule("global", "GlobalAveragePool", "", ", channels_last=0", "", "<channels_last=0>", 1),
    )
