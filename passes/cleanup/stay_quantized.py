"""Remove the DequantizeLinear and QuantizeLinear around operators that only move or select elements."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.quantized import EIGHT_BITS, Quantization, quantization_of
from workbench.rewrite.core.guards import require_no_other_users, require_producer

_FIRST_INPUT_MOVED = (
    *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Tile", "DepthToSpace", "SpaceToDepth"),
    *("Gather", "GatherElements", "GatherND", "Slice", "Split", "MaxPool"),
)  # they move the elements of the first operand
_ALL_INPUTS_MOVED = ("Concat",)
_MIN_OPSET_INT8_MAX_POOL = 12  # the first opset whose MaxPool takes integers


def _quantizer(graph: Graph, node: Node, value: str) -> Node:
    """The QuantizeLinear that reads a result. Raises NoMatch if there is none, or another reader."""
    reader = next(
        (user for user in graph.users(value) if user.op == "QuantizeLinear" and user.inputs[0] == value), None
    )
    if reader is None:
        raise NoMatch(f"no QuantizeLinear reads '{value}' of {node}")
    require_no_other_users(graph, node, [reader], [other for other in node.outputs if other != value])
    return reader


def _require_per_tensor_int8(graph: Graph, node: Node) -> Quantization:
    quantization = quantization_of(graph, node)
    if quantization.dtype not in EIGHT_BITS or quantization.axis is not None:
        raise NoMatch(f"{node} is quantized per axis, or not to uint8 or int8")
    return quantization


def match_move(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    if node.op == "MaxPool" and (len(node.outputs) > 1 or _opset(graph) < _MIN_OPSET_INT8_MAX_POOL):
        raise NoMatch(f"{node} outputs indices, or the opset is below 12 and MaxPool takes only floats")
    values = node.inputs if node.op in _ALL_INPUTS_MOVED else node.inputs[:1]
    dequantizers = [require_producer(graph, value, ("DequantizeLinear",), node) for value in values]
    quantizers = [_quantizer(graph, node, value) for value in node.outputs if value]
    conversions = [*dequantizers, *quantizers]
    quantization, *other_quantizations = [_require_per_tensor_int8(graph, conversion) for conversion in conversions]
    pairs = zip(conversions[1:], other_quantizations, strict=True)
    differing_conversion = next((conversion for conversion, other in pairs if not other.equals(quantization)), None)
    if differing_conversion is not None:
        raise NoMatch(f"{dequantizers[0]} and {differing_conversion} differ in scale, zero point or type")
    dead_dequantizers = [
        conversion for conversion in dict.fromkeys(dequantizers) if _is_only_user(graph, conversion, node)
    ]
    quantized = {conversion.inputs[0]: conversion.outputs[0] for conversion in quantizers}
    inputs = (*(conversion.inputs[0] for conversion in dequantizers), *node.inputs[len(values) :])
    on_integers = node.replace(inputs=inputs, outputs=tuple(quantized.get(value, "") for value in node.outputs))
    removed = [*dead_dequantizers, node, *quantizers]
    fewer = len(removed) - 1
    sentence = (
        f"{node} gives the same on integers: {dequantizers[0]} and {quantizers[-1]} have the same scale and zero point;"
        f" {fewer} node{'s' * (fewer != 1)} fewer"
    )
    return Rewrite(
        Edit(tuple(conversion.name for conversion in removed), (on_integers,)),
        sentence,
        _names(dequantizers, node, quantizers),
    )


def _opset(graph: Graph) -> int:
    """The opset in which the model is exported, that of its file."""
    return graph.file_opset or graph.opset_imports.get("", 0)


def _is_only_user(graph: Graph, producer: Node, node: Node) -> bool:
    try:
        require_no_other_users(graph, producer, [node])
    except NoMatch:
        return False
    return True


def _names(dequantizers: list[Node], node: Node, quantizers: list[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.name for each in (*dequantizers, node, *quantizers)))


def _reads_dequantized(graph: Graph, node: Node) -> bool:
    producer = graph.producer(node.inputs[0]) if node.inputs and node.inputs[0] else None
    return producer is not None and producer.op == "DequantizeLinear"


@dataclass(frozen=True)
class StayQuantized(Pass):
    """One case: an operator between a DequantizeLinear and a QuantizeLinear runs on integers, and both conversions are
    removed. The operator only moves or selects elements, or takes their maximum. The conversions have the same scale,
    zero point and 8-bit type.

    Does not apply:

    - if anything else reads the result of the operator;
    - with per-axis quantization;
    - to a MaxPool with indices as a second output;
    - to a MaxPool if the opset of the file is below 12.

    Source: ONNX Runtime's QDQ transformer, its group "drop QDQ". MaxPool gives the same on integers because
    dequantization is monotone if the scale is positive.
    """

    title = "Move and select quantized integers, not floats"

    rules = (
        Rule(
            "between conversions",
            (*_FIRST_INPUT_MOVED, *_ALL_INPUTS_MOVED),
            match_move,
            Example(
                before="""g (uint8[N,3] x) => (uint8[3,N] y) <float s = {0.1}, uint8 z = {3}> {
                    a = DequantizeLinear(x, s, z)
                    b = Transpose<perm=[1,0]>(a)
                    y = QuantizeLinear(b, s, z)
                }""",
                after="g (uint8[N,3] x) => (uint8[3,N] y) { y = Transpose<perm=[1,0]>(x) }",
                sentences=(
                    "Transpose 'Transpose_b' gives the same on integers: DequantizeLinear 'DequantizeLinear_a' and"
                    " QuantizeLinear 'QuantizeLinear_y' have the same scale and zero point; 2 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (uint8[N,3] x) => (uint8[3,N] y) <float s = {0.1}, float t = {0.2}, uint8 z = {3}> {
                        a = DequantizeLinear(x, s, z)  b = Transpose<perm=[1,0]>(a)  y = QuantizeLinear(b, t, z)
                    }""",
                    "DequantizeLinear 'DequantizeLinear_a' and QuantizeLinear 'QuantizeLinear_y' differ in scale, zero"
                    " point or type",
                ),
                Refusal(
                    """g (uint8[N,3] x) => (uint8[3,N] y, float[3,N] b) <float s = {0.1}, uint8 z = {3}> {
                        a = DequantizeLinear(x, s, z)  b = Transpose<perm=[1,0]>(a)  y = QuantizeLinear(b, s, z)
                    }""",
                    "'b' of Transpose 'Transpose_b' is an output of the graph",
                ),
                Refusal(
                    """g (uint8[2,3] x) => (uint8[3,2] y) <float[3] s = {0.1, 0.2, 0.3}, uint8[3] z = {1, 2, 3}> {
                        a = DequantizeLinear(x, s, z)  b = Transpose<perm=[1,0]>(a)  y = QuantizeLinear<axis=0>(b, s, z)
                    }""",
                    "DequantizeLinear 'DequantizeLinear_a' is quantized per axis, or not to uint8 or int8",
                ),
                Refusal(
                    """g (uint8[N,3] x) => (float[3,N] y) <float s = {0.1}, uint8 z = {3}> {
                        a = DequantizeLinear(x, s, z)  b = Transpose<perm=[1,0]>(a)  y = Neg(b)
                    }""",
                    "no QuantizeLinear reads 'b' of Transpose 'Transpose_b'",
                ),
                Refusal(
                    """g (uint8[N,3] x, float s) => (uint8[3,N] y) {
                        a = DequantizeLinear(x, s)  b = Transpose<perm=[1,0]>(a)  y = QuantizeLinear(b, s)
                    }""",
                    "'s', an operand of DequantizeLinear 'DequantizeLinear_a', is not a constant",
                ),
                Refusal(
                    """g (int8[1,2,4] x) => (int8[1,2,3] y, int64[1,2,3] i) <float s = {0.1}, int8 z = {0}> {
                        a = DequantizeLinear(x, s, z)
                        b, i = MaxPool<kernel_shape=[2]>(a)
                        y = QuantizeLinear(b, s, z)
                    }""",
                    "MaxPool 'MaxPool_b' outputs indices, or the opset is below 12 and MaxPool takes only floats",
                ),
            ),
            may_match=_reads_dequantized,
            exactness=Exactness.BIT_EXACT,
        ),
    )

    extra_examples = (
        Example(
            before="""g (int8[2,4] x) => (int8[2,2] y, int8[2,2] v) <float s = {0.1}, int8 z = {3}> {
                a = DequantizeLinear(x, s, z)
                b, c = Split<axis=1, num_outputs=2>(a)
                y = QuantizeLinear(b, s, z)
                v = QuantizeLinear(c, s, z)
            }""",
            after="g (int8[2,4] x) => (int8[2,2] y, int8[2,2] v) { y, v = Split<axis=1, num_outputs=2>(x) }",
            sentences=(
                "Split 'Split_b' gives the same on integers: DequantizeLinear 'DequantizeLinear_a' and QuantizeLinear"
                " 'QuantizeLinear_v' have the same scale and zero point; 3 nodes fewer",
            ),
        ),
        Example(
            before="""g (uint8[1,2,5,4] x) => (uint8[1,2,3,2] y) <float s = {0.1}, uint8 z = {3}> {
                a = DequantizeLinear(x, s, z)
                b = MaxPool<kernel_shape=[2,2], pads=[1,0,0,0], strides=[2,2]>(a)
                y = QuantizeLinear(b, s, z)
            }""",
            after="""g (uint8[1,2,5,4] x) => (uint8[1,2,3,2] y) {
                y = MaxPool<kernel_shape=[2,2], pads=[1,0,0,0], strides=[2,2]>(x)
            }""",
            sentences=(
                "MaxPool 'MaxPool_b' gives the same on integers: DequantizeLinear 'DequantizeLinear_a' and"
                " QuantizeLinear 'QuantizeLinear_y' have the same scale and zero point; 2 nodes fewer",
            ),
        ),
        Example(
            before="""g (uint8[2,3] x, uint8[2,1] u) => (uint8[2,4] y) <float s = {0.1}, uint8 z = {3}> {
                a = DequantizeLinear(x, s, z)
                b = DequantizeLinear(u, s, z)
                c = Concat<axis=1>(a, b)
                y = QuantizeLinear(c, s, z)
            }""",
            after="g (uint8[2,3] x, uint8[2,1] u) => (uint8[2,4] y) { y = Concat<axis=1>(x, u) }",
            sentences=(
                "Concat 'Concat_c' gives the same on integers: DequantizeLinear 'DequantizeLinear_a' and"
                " QuantizeLinear 'QuantizeLinear_y' have the same scale and zero point; 3 nodes fewer",
            ),
        ),
    )
