"""A Concat of dequantized values whose result is quantized becomes ONNX Runtime's QLinearConcat."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Constant, Edit, Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.quantized import EIGHT_BITS, quantization_of
from workbench.rewrite.core.guards import refuse_other_readers, require_producer


def match_quantized_concat(graph: Graph, node: Node, options: Pass) -> Rewrite:
    concat = require_producer(graph, node.inputs[0], ("Concat",), node)
    refuse_other_readers(graph, concat, [node])
    parts = [require_producer(graph, value, ("DequantizeLinear",), concat) for value in concat.inputs]
    types = {}
    for each in (*parts, node):
        quantization = quantization_of(graph, each)
        if quantization.axis is not None or quantization.dtype not in EIGHT_BITS:
            raise NoMatch(f"{each} has several scales, or integers of another type than uint8 and int8")
        types[quantization.dtype] = each
    if len(types) > 1:
        first, second = types.values()
        raise NoMatch(f"{first} and {second} have integers of two types")
    zeros: dict[str, Constant] = {}
    operands = [*_scale_and_zero(graph, node, zeros)]
    for each in parts:
        operands += [each.inputs[0], *_scale_and_zero(graph, each, zeros)]
    made = concat.replace(
        op_type="QLinearConcat", domain="com.microsoft", inputs=tuple(operands), outputs=node.outputs[:1]
    )
    unique = list(dict.fromkeys(parts))
    gone = [each for each in unique if {user.name for user in graph.users(each.outputs[0])} == {concat.name}]
    gone = [each for each in gone if not graph.is_output(each.outputs[0])]
    matched = (*unique, concat, node)
    sentence = (
        f"{matched[0]} to {node}, {len(matched)} nodes, are one kernel of ONNX Runtime on integers,"
        f" com.microsoft.QLinearConcat of {len(parts)} values; {len(gone) + 1} less"
    )
    removed = (*(each.name for each in gone), concat.name, node.name)
    return Rewrite(Edit(removed, (made,), constants=zeros), sentence, tuple(each.name for each in matched))


def _scale_and_zero(graph: Graph, node: Node, zeros: dict[str, Constant]) -> tuple[str, str]:
    """The operands of a conversion. zeros: gets the zero point that it omits."""
    if len(node.inputs) > 2 and node.inputs[2]:
        return node.inputs[1], node.inputs[2]
    name = graph.fresh(f"{node.outputs[0]}_zero", zeros)
    zeros[name] = constant(quantization_of(graph, node).zero, name)
    return node.inputs[1], name


def _is_of_concat(graph: Graph, node: Node) -> bool:
    made = graph.producer(node.inputs[0])
    return made is not None and made.op == "Concat"


@dataclass(frozen=True)
class OrtQlinearConcat(Pass):
    """DequantizeLinear of each operand, Concat, and QuantizeLinear become com.microsoft.QLinearConcat.

    Must not act if anything else reads the result of the Concat, nor unless all have one scale each and the same type,
    uint8 or int8. A result may be the next integer, since the floats were rounded otherwise. The file then runs in ONNX
    Runtime only.

    Source: ONNX Runtime's QLinearConcat, https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md;
    VariadicNodeGroupSelector in its onnxruntime/core/optimizer/qdq_transformer/selectors_actions/.
    """

    title = "ONNX Runtime: quantized concatenation"

    rules = (
        Rule(
            "concat",
            ("QuantizeLinear",),
            match_quantized_concat,
            Example(
                before="""g (uint8[N,3] a, uint8[N,1] b) => (uint8[N,4] y) <float sa = {0.125}, uint8 za = {3},
                    float sb = {0.25}, float sy = {0.19}, uint8 zy = {20}> {
                    d = DequantizeLinear(a, sa, za)
                    e = DequantizeLinear(b, sb)
                    c = Concat<axis=1>(d, e)
                    y = QuantizeLinear(c, sy, zy)
                }""",
                after="""g (uint8[N,3] a, uint8[N,1] b) => (uint8[N,4] y) <float sa = {0.125}, uint8 za = {3},
                    float sb = {0.25}, float sy = {0.19}, uint8 zy = {20}, uint8 e_zero = {0}> {
                    y = com.microsoft.QLinearConcat<axis=1>(sy, zy, a, sa, za, b, sb, e_zero)
                }""",
                sentences=(
                    "DequantizeLinear 'DequantizeLinear_d' to QuantizeLinear 'QuantizeLinear_y', 4 nodes, are one"
                    " kernel of ONNX Runtime on integers, com.microsoft.QLinearConcat of 2 values; 3 less",
                ),
            ),
            refusals=(
                Refusal(
                    """g (uint8[2,3] a, float[2,1] b) => (uint8[2,4] y) <float s = {0.1}> {
                        d = DequantizeLinear(a, s)  c = Concat<axis=1>(d, b)  y = QuantizeLinear(c, s)
                    }""",
                    "Concat 'Concat_c' does not follow a DequantizeLinear",
                ),
                Refusal(
                    """g (uint8[2,3] a, int8[2,1] b) => (uint8[2,4] y) <float s = {0.1}> {
                        d = DequantizeLinear(a, s)  e = DequantizeLinear(b, s)  c = Concat<axis=1>(d, e)
                        y = QuantizeLinear(c, s)
                    }""",
                    "QuantizeLinear 'QuantizeLinear_y' and DequantizeLinear 'DequantizeLinear_e' have integers of two"
                    " types",
                ),
                Refusal(
                    """g (uint8[2,3] a, uint8[2,1] b) => (uint8[2,4] y) <float s = {0.1}, float[3] t = {1, 2, 3}> {
                        d = DequantizeLinear(a, t)  e = DequantizeLinear(b, s)  c = Concat<axis=1>(d, e)
                        y = QuantizeLinear(c, s)
                    }""",
                    "DequantizeLinear 'DequantizeLinear_d' has several scales, or integers of another type than uint8"
                    " and int8",
                ),
                Refusal(
                    """g (uint8[2,3] a, uint8[2,1] b) => (uint8[2,4] y, float[2,4] c) <float s = {0.1}> {
                        d = DequantizeLinear(a, s)  e = DequantizeLinear(b, s)  c = Concat<axis=1>(d, e)
                        y = QuantizeLinear(c, s)
                    }""",
                    "'c' of Concat 'Concat_c' is an output of the graph",
                ),
            ),
            may_match=_is_of_concat,
            exactness=Exactness.STEP,
        ),
    )
