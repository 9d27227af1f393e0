"""Operators that only move or select elements work on the quantized integers."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.quantized import EIGHT_BITS, Quantization, quantization_of
from workbench.rewrite.core.guards import refuse_other_readers, require_producer

_OF_ONE = (
    *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Tile", "DepthToSpace", "SpaceToDepth"),
    *("Gather", "GatherElements", "GatherND", "Slice", "Split", "MaxPool"),
)  # of the first operand
_OF_ALL = ("Concat",)  # of all operands
_MAX_POOL_OF_BYTES = 12  # the opset from which MaxPool takes integers


def _quantizer(graph: Graph, node: Node, value: str) -> Node:
    """The one reader of a result. Raises NoMatch unless it is a QuantizeLinear."""
    reader = next(
        (user for user in graph.users(value) if user.op == "QuantizeLinear" and user.inputs[0] == value), None
    )
    if reader is None:
        raise NoMatch(f"no QuantizeLinear reads '{value}' of {node}")
    refuse_other_readers(graph, node, [reader], [other for other in node.outputs if other != value])
    return reader


def _of_8_bits(graph: Graph, node: Node) -> Quantization:
    quantization = quantization_of(graph, node)
    if quantization.dtype not in EIGHT_BITS or quantization.axis is not None:
        raise NoMatch(f"{node} has several scales, or integers of another type than uint8 and int8")
    return quantization


def match_move(graph: Graph, node: Node, options: Pass) -> Rewrite:
    if node.op == "MaxPool" and (len(node.outputs) > 1 or _opset(graph) < _MAX_POOL_OF_BYTES):
        raise NoMatch(f"{node} gives indices, or the file is of an opset before 12, where MaxPool takes floats only")
    moved = node.inputs if node.op in _OF_ALL else node.inputs[:1]
    made = [require_producer(graph, value, ("DequantizeLinear",), node) for value in moved]
    readers = [_quantizer(graph, node, value) for value in node.outputs if value]
    first, *others = [_of_8_bits(graph, each) for each in (*made, *readers)]
    odd = next(
        (each for each, other in zip([*made, *readers][1:], others, strict=True) if not other.equals(first)), None
    )
    if odd is not None:
        raise NoMatch(f"{made[0]} and {odd} differ in scale, zero point or type")
    gone = [each for each in dict.fromkeys(made) if _is_read_alone(graph, each, node)]
    given = {each.inputs[0]: each.outputs[0] for each in readers}
    inputs = (*(each.inputs[0] for each in made), *node.inputs[len(moved) :])
    on_integers = node.replace(inputs=inputs, outputs=tuple(given.get(value, "") for value in node.outputs))
    removed = [*gone, node, *readers]
    fewer = len(removed) - 1
    sentence = (
        f"{node} gives the same on integers: {made[0]} and {readers[-1]} have the same scale and zero point;"
        f" {fewer} node{'s' * (fewer != 1)} less"
    )
    return Rewrite(Edit(tuple(each.name for each in removed), (on_integers,)), sentence, _names(made, node, readers))


def _opset(graph: Graph) -> int:
    return graph.file_opset or graph.opset_imports.get("", 0)


def _is_read_alone(graph: Graph, made: Node, node: Node) -> bool:
    try:
        refuse_other_readers(graph, made, [node])
    except NoMatch:
        return False
    return True


def _names(made: list[Node], node: Node, readers: list[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.name for each in (*made, node, *readers)))


def _is_dequantized(graph: Graph, node: Node) -> bool:
    made = graph.producer(node.inputs[0]) if node.inputs and node.inputs[0] else None
    return made is not None and made.op == "DequantizeLinear"


@dataclass(frozen=True)
class StayQuantized(Pass):
    """Between a DequantizeLinear and a QuantizeLinear of one scale, one zero point and one 8-bit type, an operator that
    only moves or selects elements, or takes the largest of them, works on the integers; both conversions go.

    Must not act if anything else reads its result, nor on scales along an axis; a MaxPool keeps floats if it gives
    indices, or if the file's opset is below 12.

    Source: ONNX Runtime's QDQ transformer, its group "drop QDQ"; what it drops at MaxPool needs scales above 0 only,
    since dequantization is then monotone.
    """

    title = "Move and select quantized integers, not floats"

    rules = (
        Rule(
            "between conversions",
            (*_OF_ONE, *_OF_ALL),
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
                    " QuantizeLinear 'QuantizeLinear_y' have the same scale and zero point; 2 nodes less",
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
                    "DequantizeLinear 'DequantizeLinear_a' has several scales, or integers of another type than uint8"
                    " and int8",
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
                    "MaxPool 'MaxPool_b' gives indices, or the file is of an opset before 12, where MaxPool takes"
                    " floats only",
                ),
            ),
            may_match=_is_dequantized,
            exactness=Exactness.BITS,
        ),
    )

    own_examples = (
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
                " 'QuantizeLinear_v' have the same scale and zero point; 3 nodes less",
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
                " QuantizeLinear 'QuantizeLinear_y' have the same scale and zero point; 2 nodes less",
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
                " QuantizeLinear 'QuantizeLinear_y' have the same scale and zero point; 3 nodes less",
            ),
        ),
    )
