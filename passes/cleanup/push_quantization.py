"""Move DequantizeLinear behind, and QuantizeLinear before, what moves elements, so that integers are moved."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node, TensorType
from workbench.ir.types import numpy_name
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.quantized import EIGHT_BITS, Quantization, quantization_of
from workbench.rewrite.core.guards import permutation, require_producer, require_single_use

_REARRANGING = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "DepthToSpace", "SpaceToDepth")
_SELECTING = ("Slice", "Gather")
_MIN_OPSET_INT8_MAX_POOL = 12  # the first opset whose MaxPool takes integers


def _of_8_bits(graph: Graph, node: Node) -> Quantization:
    quantization = quantization_of(graph, node)
    if quantization.dtype not in EIGHT_BITS:
        raise NoMatch(f"the integers of {node} are {numpy_name(quantization.dtype)}, not uint8 or int8")
    return quantization


def match_later(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    values = node.inputs if node.op == "Concat" else node.inputs[:1]
    dequantizers = [require_producer(graph, value, ("DequantizeLinear",), node) for value in values]
    for dequantizer in dequantizers:
        require_single_use(graph, node, dequantizer)
    first, *others = dequantizers
    quantization = _of_8_bits(graph, first)
    other = next((one for one in others if not _of_8_bits(graph, one).equals(quantization)), None)
    if other is not None:
        raise NoMatch(f"{first} and {other} differ in scale, zero point, axis or type")
    if node.op in _SELECTING:
        _require_no_more_elements(graph, node)
    if node.op == "MaxPool":
        _require_no_padding(graph, node)
    integers = graph.fresh(f"{node.outputs[0]}_integers")
    moved = node.replace(
        inputs=(*(one.inputs[0] for one in dequantizers), *node.inputs[len(values) :]), outputs=(integers,)
    )
    last = first.replace(
        inputs=(integers, *first.inputs[1:]),
        outputs=node.outputs,
        attributes=_along(first, _axis_of_result(graph, node, quantization)),
    )
    removed = (*(one.name for one in dequantizers), node.name)
    types = {integers: TensorType(quantization.dtype, graph.shape(node.outputs[0]))}
    kind = f"{node} works on {numpy_name(quantization.dtype)} now"
    if others:
        sentence = f"{kind}: {len(dequantizers)} DequantizeLinear of one scale and zero point become one behind it"
    else:
        sentence = f"{kind}: {first} comes behind it"
    return Rewrite(Edit(remove=removed, insert=(moved, last), types=types), sentence, removed)


def match_earlier(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    mover = require_producer(graph, node.inputs[0], _REARRANGING, node)
    require_single_use(graph, node, mover)
    quantization = _of_8_bits(graph, node)
    axis = quantization.axis
    if axis is not None:
        if mover.op != "Transpose":
            raise NoMatch(f"{node} has scales along axis {axis}, which {mover} may change")
        axis = permutation(graph, mover)[axis]
    source = mover.inputs[0]
    integers = graph.fresh(f"{source}_integers")
    first = node.replace(inputs=(source, *node.inputs[1:]), outputs=(integers,), attributes=_along(node, axis))
    moved = mover.replace(inputs=(integers, *mover.inputs[1:]), outputs=node.outputs)
    types = {integers: TensorType(quantization.dtype, graph.shape(source))}
    removed = (mover.name, node.name)
    sentence = f"{mover} works on {numpy_name(quantization.dtype)} now: {node} comes before it"
    return Rewrite(Edit(remove=removed, insert=(first, moved), types=types), sentence, removed)


def _axis_of_result(graph: Graph, node: Node, quantization: Quantization) -> int | None:
    """Along which axis of the result the scales are; None if there is one."""
    if quantization.axis is None:
        return None
    if node.op != "Transpose":
        raise NoMatch(f"the operand of {node} has scales along axis {quantization.axis}, which {node} may change")
    return permutation(graph, node).index(quantization.axis)


def _along(node: Node, axis: int | None) -> dict[str, object]:
    return {**node.attributes} if axis is None else {**node.attributes, "axis": axis}


def _require_no_more_elements(graph: Graph, node: Node) -> None:
    read, given = (graph.tensor_type(value) for value in (node.inputs[0], node.outputs[0]))
    before, after = (None if type_ is None else type_.elements for type_ in (read, given))
    if node.op == "Gather" and (before is None or after is None or after > before):
        raise NoMatch(f"{node} is not known to give no more elements than it reads")


def _require_no_padding(graph: Graph, node: Node) -> None:
    """A window of nothing but padding gives the least float, which no integer stands for."""
    if len(node.outputs) > 1 or (graph.file_opset or graph.opset_imports.get("", 0)) < _MIN_OPSET_INT8_MAX_POOL:
        raise NoMatch(f"{node} outputs indices, or the opset is below 12 and MaxPool takes only floats")
    if any(node.attr("pads") or ()) or node.attr("auto_pad") not in ("NOTSET", "VALID") or node.attr("ceil_mode"):
        raise NoMatch(f"a window of {node} may hold padding alone, whose float no integer stands for")


def _reads_dequantized(graph: Graph, node: Node) -> bool:
    producer = graph.producer(node.inputs[0]) if node.inputs and node.inputs[0] else None
    return producer is not None and producer.op == "DequantizeLinear"


def _quantizes_moved(graph: Graph, node: Node) -> bool:
    producer = graph.producer(node.inputs[0])
    return producer is not None and producer.op in _REARRANGING


@dataclass(frozen=True)
class PushQuantization(Pass):
    """What only moves elements gives the same for integers and for the numbers that they stand for. Two cases:

    - a DequantizeLinear moves behind a Transpose, Reshape, Squeeze, Unsqueeze, Flatten, DepthToSpace, SpaceToDepth,
      Slice, Gather, Concat or MaxPool; those of all operands of a Concat become one;
    - a QuantizeLinear moves before such an operator that keeps all elements.

    So a DequantizeLinear and a QuantizeLinear with such operators between them meet, where `cancel_pairs` removes them
    if scale, zero point and type are equal. Scales along an axis follow it through a Transpose.

    Does not apply:

    - if anything else reads the value between, or a scale or zero point is computed;
    - to operands of a Concat whose scale, zero point or type differ;
    - to scales along an axis, other than through a Transpose;
    - to a MaxPool with padding, or with indices as a second output;
    - to a Gather that is not known to give no more elements than it reads.

    Source: ONNX Runtime's propagation of QDQ pairs, which inserts further pairs where this moves those that are there.
    """

    title = "Move conversions to integers past what moves elements"

    rules = (
        Rule(
            "dequantize later",
            (*_REARRANGING, *_SELECTING, "Concat", "MaxPool"),
            match_later,
            Example(
                before="""g (uint8[N,3,2] x) => (float[2,3,N] y)
                    <float[3] s = {0.1, 0.2, 0.3}, uint8[3] z = {3, 0, 9}> {
                    a = DequantizeLinear<axis=1>(x, s, z)
                    b = Transpose<perm=[1,2,0]>(a)
                    y = Transpose<perm=[1,0,2]>(b)
                }""",
                after="""g (uint8[N,3,2] x) => (float[2,3,N] y) <float[3] s = {0.1, 0.2, 0.3}, uint8[3] z = {3, 0, 9}> {
                    b_integers = Transpose<perm=[1,2,0]>(x)
                    y_integers = Transpose<perm=[1,0,2]>(b_integers)
                    y = DequantizeLinear<axis=1>(y_integers, s, z)
                }""",
                sentences=(
                    "Transpose 'Transpose_b' works on uint8 now: DequantizeLinear 'DequantizeLinear_a' comes behind it",
                    "Transpose 'Transpose_y' works on uint8 now: DequantizeLinear 'DequantizeLinear_a' comes behind it",
                ),
            ),
            refusals=(
                Refusal(
                    """g (uint8[N,3] x, uint8[N,2] u) => (float[N,5] y)
                        <float s = {0.1}, float t = {0.2}, uint8 z = {3}> {
                        a = DequantizeLinear(x, s, z)  b = DequantizeLinear(u, t, z)  y = Concat<axis=1>(a, b)
                    }""",
                    "DequantizeLinear 'DequantizeLinear_a' and DequantizeLinear 'DequantizeLinear_b' differ in scale,"
                    " zero point, axis or type",
                ),
                Refusal(
                    """g (uint8[N,3] x) => (float[3,N] y, float[N,3] v) <float s = {0.1}, uint8 z = {3}> {
                        a = DequantizeLinear(x, s, z)  y = Transpose<perm=[1,0]>(a)  v = Neg(a)
                    }""",
                    "Neg 'Neg_v' reads 'a' of DequantizeLinear 'DequantizeLinear_a' too",
                ),
                Refusal(
                    """g (uint8[2,3] x) => (float[6] y)
                        <float[3] s = {0.1, 0.2, 0.3}, uint8[3] z = {1, 2, 3}, int64[1] n = {-1}> {
                        a = DequantizeLinear(x, s, z)  y = Reshape(a, n)
                    }""",
                    "the operand of Reshape 'Reshape_y' has scales along axis 1, which Reshape 'Reshape_y' may change",
                ),
                Refusal(
                    """g (int8[1,2,4] x) => (float[1,2,3] y) <float s = {0.1}, int8 z = {0}> {
                        a = DequantizeLinear(x, s, z)
                        y = MaxPool<kernel_shape=[2], pads=[1,1], strides=[2]>(a)
                    }""",
                    "a window of MaxPool 'MaxPool_y' may hold padding alone, whose float no integer stands for",
                ),
                Refusal(
                    """g (int8[1,2,4] x) => (float[1,2,3] y, int64[1,2,3] i) <float s = {0.1}, int8 z = {0}> {
                        a = DequantizeLinear(x, s, z)  y, i = MaxPool<kernel_shape=[2]>(a)
                    }""",
                    "MaxPool 'MaxPool_y' outputs indices, or the opset is below 12 and MaxPool takes only floats",
                ),
                Refusal(
                    """g (int8[4,2] x, int64[9] i) => (float[9,2] y) <float s = {0.1}, int8 z = {0}> {
                        a = DequantizeLinear(x, s, z)  y = Gather(a, i)
                    }""",
                    "Gather 'Gather_y' is not known to give no more elements than it reads",
                ),
                Refusal(
                    """g (int32[2,3] x) => (float[3,2] y) <float s = {0.1}> {
                        a = DequantizeLinear(x, s)  y = Transpose<perm=[1,0]>(a)
                    }""",
                    "the integers of DequantizeLinear 'DequantizeLinear_a' are int32, not uint8 or int8",
                ),
            ),
            may_match=_reads_dequantized,
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "quantize earlier",
            ("QuantizeLinear",),
            match_earlier,
            Example(
                before="""g (float[N,3,2] x) => (int8[N,6] y) <float s = {0.1}, int8 z = {3}, int64[2] n = {0, 6}> {
                    a = Transpose<perm=[0,2,1]>(x)
                    b = Reshape(a, n)
                    y = QuantizeLinear(b, s, z)
                }""",
                after="""g (float[N,3,2] x) => (int8[N,6] y) <float s = {0.1}, int8 z = {3}, int64[2] n = {0, 6}> {
                    x_integers = QuantizeLinear(x, s, z)
                    a_integers = Transpose<perm=[0,2,1]>(x_integers)
                    y = Reshape(a_integers, n)
                }""",
                sentences=(
                    "Reshape 'Reshape_b' works on int8 now: QuantizeLinear 'QuantizeLinear_y' comes before it",
                    "Transpose 'Transpose_a' works on int8 now: QuantizeLinear 'QuantizeLinear_y' comes before it",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3] x) => (int8[6] y) <float s = {0.1}, int8 z = {3}, int64[1] n = {-1}> {
                        a = Neg(x)  y = QuantizeLinear(a, s, z)
                    }""",
                    "QuantizeLinear 'QuantizeLinear_y' does not follow a Transpose, Reshape, Squeeze, Unsqueeze,"
                    " Flatten, DepthToSpace or SpaceToDepth",
                ),
                Refusal(
                    """g (float[2,3] x) => (int8[2,3] y) <float[3] s = {0.1, 0.2, 0.3}, int8[3] z = {1, 2, 3},
                        int64[2] n = {2, 3}> {
                        a = Reshape(x, n)  y = QuantizeLinear(a, s, z)
                    }""",
                    "QuantizeLinear 'QuantizeLinear_y' has scales along axis 1, which Reshape 'Reshape_a' may change",
                ),
                Refusal(
                    """g (float[2,3] x) => (int8[3,2] y, float[3,2] a) <float s = {0.1}, int8 z = {3}> {
                        a = Transpose<perm=[1,0]>(x)  y = QuantizeLinear(a, s, z)
                    }""",
                    "'a' of Transpose 'Transpose_a' is an output of the graph",
                ),
            ),
            may_match=_quantizes_moved,
            exactness=Exactness.BIT_EXACT,
        ),
    )

    extra_examples = (
        Example(
            before="""g (int8[2,3] x, int8[2,1] u) => (float[2,4] y) <float s = {0.1}, int8 z = {3}> {
                a = DequantizeLinear(x, s, z)
                b = DequantizeLinear(u, s, z)
                y = Concat<axis=1>(a, b)
            }""",
            after="""g (int8[2,3] x, int8[2,1] u) => (float[2,4] y) <float s = {0.1}, int8 z = {3}> {
                y_integers = Concat<axis=1>(x, u)
                y = DequantizeLinear(y_integers, s, z)
            }""",
            sentences=(
                "Concat 'Concat_y' works on int8 now: 2 DequantizeLinear of one scale and zero point become one behind"
                " it",
            ),
        ),
        Example(
            before="""g (uint8[1,2,4,4] x) => (float[1,2,2,2] y) <float s = {0.1}, uint8 z = {3}> {
                a = DequantizeLinear(x, s, z)
                y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a)
            }""",
            after="""g (uint8[1,2,4,4] x) => (float[1,2,2,2] y) <float s = {0.1}, uint8 z = {3}> {
                y_integers = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)
                y = DequantizeLinear(y_integers, s, z)
            }""",
            sentences=(
                "MaxPool 'MaxPool_y' works on uint8 now: DequantizeLinear 'DequantizeLinear_a' comes behind it",
            ),
        ),
        Example(
            before="""g (float[2,3] x) => (int8[3,2] y) <float[3] s = {0.1, 0.2, 0.3}, int8[3] z = {1, 2, 3}> {
                a = Transpose<perm=[1,0]>(x)
                y = QuantizeLinear<axis=0>(a, s, z)
            }""",
            after="""g (float[2,3] x) => (int8[3,2] y) <float[3] s = {0.1, 0.2, 0.3}, int8[3] z = {1, 2, 3}> {
                x_integers = QuantizeLinear<axis=1>(x, s, z)
                y = Transpose<perm=[1,0]>(x_integers)
            }""",
            sentences=("Transpose 'Transpose_a' works on int8 now: QuantizeLinear 'QuantizeLinear_y' comes before it",),
        ),
    )
