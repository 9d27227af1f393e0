"""Average pools of dequantized images whose result is quantized become kernels on integers."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Example, NoMatch, Pass, Refusal, Rule
from workbench.rewrite.analyses.quantized import rule_of_one_operand
from workbench.rewrite.patterns.matching import Match


def require_plain_pool(match: Match) -> None:
    """ONNX Runtime's kernel implements AveragePool as before opset 19: without dilations, and it counts padded elements
    differently where sizes are rounded up."""
    rank = match.graph.rank_of(match["x"])
    if rank not in (3, 4, 5):
        raise NoMatch(f"'{match['x']}' is not known to have one to three axes after the channels")
    pool = match.node("c")  # the result of the pool in the pattern of `rule_of_one_operand`
    if pool.attr("ceil_mode") or set(pool.attr("dilations", (1,))) != {1}:
        raise NoMatch(f"{pool} rounds sizes up or has dilations")


def _rule(
    name: str,
    op: str,
    attributes_before: str,
    attributes_after: str,
    example_attributes_before: str,
    example_attributes_after: str,
    size: int,
) -> Rule:
    """The rule for the pool `op`.

    attributes_before, attributes_after: in the two patterns; ", **others" binds all other attributes.
    example_attributes_before, example_attributes_after, size: in the example.
    """
    new = f"com.microsoft.QLinear{op}"
    return rule_of_one_operand(
        name,
        op,
        attributes_before,
        attributes_after,
        Example(
            before=f"""g (uint8[N,2,4,4] x) => (uint8[N,2,{size},{size}] y)
                <float sx = {{0.125}}, uint8 zx = {{3}}, float sy = {{0.19}}, uint8 zy = {{40}}> {{
                d = DequantizeLinear(x, sx, zx)
                c = {op}{example_attributes_before}(d)
                y = QuantizeLinear(c, sy, zy)
            }}""",
            after=f"""g (uint8[N,2,4,4] x) => (uint8[N,2,{size},{size}] y)
                <float sx = {{0.125}}, uint8 zx = {{3}}, float sy = {{0.19}}, uint8 zy = {{40}}> {{
                y = {new}{example_attributes_after}(x, sx, zx, sy, zy)
            }}""",
            sentences=(
                "3 nodes, from DequantizeLinear 'DequantizeLinear_d' to QuantizeLinear 'QuantizeLinear_y', become one "
                "kernel of"
                f" ONNX Runtime on integers, {new} of 'x'; 2 nodes fewer",
            ),
        ),
        refusals=(
            Refusal(
                f"""g (uint8[1,2,4,4] x) => (int8[1,2,{size},{size}] y) <float s = {{0.1}}, int8 z = {{0}}> {{
                    d = DequantizeLinear(x, s)  c = {op}{example_attributes_before}(d)  y = QuantizeLinear(c, s, z)
                }}""",
                "DequantizeLinear 'DequantizeLinear_d' and QuantizeLinear 'QuantizeLinear_y' have integers of two"
                " types, uint8 and int8",
            ),
            Refusal(
                f"""g (uint8[1,2,4,4] x) => (uint8[1,2,{size},{size}] y, float[1,2,{size},{size}] c)
                    <float s = {{0.1}}> {{
                    d = DequantizeLinear(x, s)  c = {op}{example_attributes_before}(d)  y = QuantizeLinear(c, s)
                }}""",
                f"'c' of {op} '{op}_c' is an output of the graph",
            ),
        ),
        where=(require_plain_pool,),
    )


@dataclass(frozen=True)
class OrtQlinearPool(Pass):
    """Two cases: between DequantizeLinear and QuantizeLinear, AveragePool and GlobalAveragePool become
    com.microsoft.QLinearAveragePool and QLinearGlobalAveragePool.

    Does not apply:

    - if anything else reads the pool's result;
    - if input or result is quantized per axis;
    - if their types differ or are other than uint8 and int8;
    - to pools that round sizes up or have dilations.

    A result may differ by one quantization step, since the float computation rounded differently. The file then runs in
    ONNX Runtime only.

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
