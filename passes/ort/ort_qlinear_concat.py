"""A Concat of dequantized values whose result is quantized becomes ONNX Runtime's QLinearConcat."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import counted
from workbench.ir import Constant, Edit, Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.quantized import EIGHT_BITS, quantization_of
from workbench.rewrite.core.guards import require_no_other_users, require_producer


def match_quantized_concat(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    concat = require_producer(graph, node.inputs[0], ("Concat",), node)
    require_no_other_users(graph, concat, [node])
    dequantizers = [require_producer(graph, value, ("DequantizeLinear",), concat) for value in concat.inputs]
    types = {}
    for conversion in (*dequantizers, node):
        quantization = quantization_of(graph, conversion)
        if quantization.axis is not None or quantization.dtype not in EIGHT_BITS:
            raise NoMatch(f"{conversion} is quantized per axis, or not to uint8 or int8")
        types[quantization.dtype] = conversion
    if len(types) > 1:
        first, second = types.values()
        raise NoMatch(f"{first} and {second} have integers of two types")
    zeros: dict[str, Constant] = {}
    operands = [*_scale_and_zero(graph, node, zeros)]
    for conversion in dequantizers:
        operands += [conversion.inputs[0], *_scale_and_zero(graph, conversion, zeros)]
    on_integers = concat.replace(
        op_type="QLinearConcat", domain="com.microsoft", inputs=tuple(operands), outputs=node.outputs[:1]
    )
    unique = list(dict.fromkeys(dequantizers))
    dead_dequantizers = [
        conversion
        for conversion in unique
        if {user.name for user in graph.users(conversion.outputs[0])} == {concat.name}
    ]
    dead_dequantizers = [conversion for conversion in dead_dequantizers if not graph.is_output(conversion.outputs[0])]
    matched = (*unique, concat, node)
    sentence = (
        f"{len(matched)} nodes, from {matched[0]} to {node}, become one kernel of ONNX Runtime on integers,"
        f" com.microsoft.QLinearConcat of {len(dequantizers)} values;"
        f" {counted(len(dead_dequantizers) + 1, 'node')} fewer"
    )
    removed = (*(conversion.name for conversion in dead_dequantizers), concat.name, node.name)
    return Rewrite(
        Edit(removed, (on_integers,), constants=zeros), sentence, tuple(conversion.name for conversion in matched)
    )


def _scale_and_zero(graph: Graph, node: Node, zeros: dict[str, Constant]) -> tuple[str, str]:
    """The scale and the zero point of a conversion. zeros: gets a constant for a zero point that is omitted."""
    if len(node.inputs) > 2 and node.inputs[2]:
        return node.inputs[1], node.inputs[2]
    name = graph.fresh(f"{node.outputs[0]}_zero", zeros)
    zeros[name] = constant(quantization_of(graph, node).zero, name)
    return node.inputs[1], name


def _is_of_concat(graph: Graph, node: Node) -> bool:
    producer = graph.producer(node.inputs[0])
    return producer is not None and producer.op == "Concat"


@dataclass(frozen=True)
class OrtQlinearConcat(Pass):
    """DequantizeLinear of each operand, Concat, and QuantizeLinear become com.microsoft.QLinearConcat.

    Does not apply:

    - if anything else reads the result of the Concat;
    - if a value is quantized per axis;
    - if types differ or are other than uint8 and int8.

    A result may differ by one quantization step, since the float computation rounded differently. The file then runs in
    ONNX Runtime only.

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
                    "4 nodes, from DequantizeLinear 'DequantizeLinear_d' to QuantizeLinear 'QuantizeLinear_y', "
                    "become one"
                    " kernel of ONNX Runtime on integers, com.microsoft.QLinearConcat of 2 values; 3 nodes fewer",
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
                    "DequantizeLinear 'DequantizeLinear_d' is quantized per axis, or not to uint8 or int8",
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
