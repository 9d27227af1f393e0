"""Remove pairs of operators that undo each other."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from workbench.ir import DataType, Edit, Graph, Node
from workbench.planning.layout.conversion.convert import is_only_reader
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.casts import keeps_numbers
from workbench.rewrite.analyses.reductions import reduced_axes
from workbench.rewrite.analyses.reshapes import VIEWS, axes_of
from workbench.rewrite.core.guards import (
    is_same_axis,
    is_same_shape,
    replace_with_operand,
    require_constant,
    require_floating,
    require_producer,
)

_QUANTIZED = (DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16)


def _removed(graph: Graph, first: Node, node: Node) -> tuple[str, ...]:
    """The nodes to remove: the first too if only the second reads it."""
    is_first_unread = all(is_only_reader(graph, node, value) for value in first.outputs if value)
    return (first.name, node.name) if is_first_unread else (node.name,)


def _cancelled(graph: Graph, first: Node, node: Node, source: str, reason: str) -> Rewrite:
    sentence = f"{node} undoes {first}: {reason}; replaced by '{source}'"
    rewrite = replace_with_operand(graph, node, source, sentence, (first,))
    return dataclasses.replace(rewrite, edit=dataclasses.replace(rewrite.edit, remove=_removed(graph, first, node)))


def match_view_and_back(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], VIEWS, node)
    source, result = first.inputs[0], node.outputs[0]
    shape = graph.shape(source)
    if shape is not None and is_same_shape(shape, graph.shape(result)):
        return _cancelled(graph, first, node, source, f"the shape is [{','.join(map(str, shape))}] again")
    if {first.op, node.op} != {"Squeeze", "Unsqueeze"}:
        raise NoMatch(f"{node} is not known to restore the shape of '{source}'")
    axes = axes_of(graph, first)
    if axes != axes_of(graph, node):
        raise NoMatch(f"{first} and {node} have different axes")
    return _cancelled(graph, first, node, source, f"axes {list(axes)} in both")


def match_casts(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], ("Cast",), node)
    source = graph.tensor_type(first.inputs[0])
    if source is None or source.dtype != DataType(node.attr("to")):
        raise NoMatch(f"{node} is not known to cast back to the type from which {first} casts")
    intermediate = DataType(first.attr("to"))
    type_names = (source.dtype.name.lower(), intermediate.name.lower())
    if not keeps_numbers(source.dtype, intermediate):
        raise NoMatch(f"{type_names[1]}, to which {first} casts, does not represent every {type_names[0]}")
    return _cancelled(graph, first, node, first.inputs[0], f"{type_names[1]} represents every {type_names[0]}")


def _along_same_axis(graph: Graph, first: Node, node: Node) -> int:
    """The axis, counted from the front if the rank is known. Raises NoMatch if the two may differ."""
    rank = graph.rank_of(node.inputs[0])
    axes = (first.attr("axis"), node.attr("axis"))
    if not is_same_axis(*axes, rank):
        raise NoMatch(f"{first} and {node} are not known to be along the same axis")
    return int(axes[0] % rank if rank else axes[0])


def _pieces(graph: Graph, split: Node, whole: int) -> list[int]:
    """The lengths of the results of a Split; the last may be shorter."""
    if len(split.inputs) > 1 and split.inputs[1]:
        return [int(n) for n in require_constant(graph, split.inputs[1], split)]
    count = len(split.outputs)
    piece = -(-whole // count)
    return [piece] * (count - 1) + [whole - piece * (count - 1)]


def match_concat_split(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], ("Concat",), node)
    axis = _along_same_axis(graph, first, node)
    shapes = [graph.shape(value) for value in first.inputs]
    sizes = [s[axis] for s in shapes if s is not None and len(s) == graph.rank_of(node.inputs[0])]
    lengths = [size for size in sizes if isinstance(size, int)]
    if len(lengths) != len(first.inputs):
        raise NoMatch(f"the lengths of the operands of {first} are not known")
    pieces = _pieces(graph, node, sum(lengths))
    if pieces != lengths:
        raise NoMatch(f"{first} joins lengths {lengths}, and {node} makes {pieces}")
    output = next((value for value in node.outputs if graph.is_output(value)), None)
    if output is not None:
        raise NoMatch(f"'{output}' of {node} is an output of the graph")
    replace = {piece: source for piece, source in zip(node.outputs, first.inputs, strict=True) if piece}
    sentence = f"{node} undoes {first}: {lengths} along axis {axis} in both; replaced by its operands"
    return Rewrite(Edit(remove=_removed(graph, first, node), replace=replace), sentence, (first.name, node.name))


def match_split_concat(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], ("Split",), node)
    if node.inputs != first.outputs:
        raise NoMatch(f"{node} does not join all pieces of {first} in order")
    axis = _along_same_axis(graph, first, node)
    reason = f"all {len(node.inputs)} pieces in order along axis {axis}"
    return _cancelled(graph, first, node, first.inputs[0], reason)


def match_expand_bound(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """A reduction over exactly the axes along which an Expand repeats."""
    first = require_producer(graph, node.inputs[0], ("Expand",), node)
    source, expanded = graph.shape(first.inputs[0]), graph.shape(first.outputs[0])
    if source is None or expanded is None:
        raise NoMatch(f"the shapes of the operand and the result of {first} are not known")
    padded = (*(1,) * (len(expanded) - len(source)), *source)
    axes = reduced_axes(graph, node)
    for axis, (before, after) in enumerate(zip(padded, expanded, strict=True)):
        if axis not in axes and not is_same_shape((before,), (after,)):
            raise NoMatch(f"{first} may repeat along axis {axis}, which {node} keeps")
        if axis in axes and not (before == 1 and isinstance(after, int) and after > 0):
            raise NoMatch(f"{first} is not known to repeat along axis {axis}, which {node} reduces")
    if not is_same_shape(source, graph.shape(node.outputs[0])):
        raise NoMatch(f"'{node.outputs[0]}' has other axes than '{first.inputs[0]}'")
    return _cancelled(graph, first, node, first.inputs[0], f"all elements along axes {sorted(axes)} are the same")


def match_expand_mean(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    require_floating(graph, node.inputs[0], node)
    return match_expand_bound(graph, node, pass_)


def _scale_and_zero(graph: Graph, node: Node) -> tuple[np.ndarray, np.ndarray]:
    scale = require_constant(graph, node.inputs[1], node)
    zero = node.inputs[2] if len(node.inputs) > 2 else ""
    return scale, require_constant(graph, zero, node) if zero else np.zeros(scale.shape)


def match_quantized(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """(n * s) / s rounds to n again: n has at most 16 bits, and product and quotient have an error in the 24th."""
    first = require_producer(graph, node.inputs[0], ("DequantizeLinear",), node)
    values = (first.inputs[0], node.outputs[0], first.outputs[0], first.inputs[1])
    types = (graph.tensor_type(value) for value in values)
    source, result, intermediate, scale_type = (None if t is None else t.dtype for t in types)
    if source not in _QUANTIZED or source != result or {intermediate, scale_type} != {DataType.FLOAT}:
        raise NoMatch(f"{first} and {node} do not convert an integer type to float and back to the same type")
    scale, zero = _scale_and_zero(graph, first)
    second_scale, second_zero = _scale_and_zero(graph, node)
    parameters_of_axis = [(n.attr("axis"), n.attr("block_size")) for n in (first, node)]
    has_same_axis = scale.ndim == 0 or parameters_of_axis[0] == parameters_of_axis[1]
    if not (has_same_axis and np.array_equal(scale, second_scale) and np.array_equal(zero, second_zero)):
        raise NoMatch(f"{first} and {node} differ in scale, zero point or axis")
    if ((scale < 2.0**-100) | (scale > 2.0**100)).any() or node.attr("precision") not in (0, DataType.FLOAT):
        raise NoMatch(f"the scale of {first} or the precision of {node} may make the quotient inexact")
    return _cancelled(graph, first, node, first.inputs[0], "scale and zero point are the same")


@dataclass(frozen=True)
class CancelPairs(Pass):
    """The second of two operators undoes the first; the first is removed too if nothing else reads it:

    - two of Reshape, Flatten, Squeeze and Unsqueeze, after which the shape is as before, or whose axes are the same;
    - a Cast to a type that represents every number, and back;
    - Concat and then Split into the same pieces; Split and then Concat of all pieces in order;
    - Expand and then ReduceMax, ReduceMin or ReduceMean over exactly the axes along which it repeats;
    - DequantizeLinear and then QuantizeLinear with the same scale, zero point and type.

    Does not apply to casts that round, as float to an integer type or to float16 and back, nor to QuantizeLinear and
    then DequantizeLinear, which rounds.

    Source: ONNX's definitions of these operators; DoubleQDQPairsRemover in ONNX Runtime for the last.
    """

    title = "Cancel pairs that undo each other"

    rules = (
        Rule(
            "shape and back",
            VIEWS,
            match_view_and_back,
            Example(
                before="""g (float[N,3,2] x, float[M,1] z) => (float[N,3,2] y, float[M,1] w)
                    <int64[1] i = {1}, int64[1] j = {-1}> {
                    a = Unsqueeze(x, i)
                    b = Squeeze(a, i)
                    y = Neg(b)
                    c = Squeeze(z, i)
                    d = Unsqueeze(c, j)
                    w = Neg(d)
                }""",
                after="g (float[N,3,2] x, float[M,1] z) => (float[N,3,2] y, float[M,1] w) { y = Neg(x)  w = Neg(z) }",
                sentences=(
                    "Squeeze 'Squeeze_b' undoes Unsqueeze 'Unsqueeze_a': the shape is [N,3,2] again; replaced by 'x'",
                    "Unsqueeze 'Unsqueeze_d' undoes Squeeze 'Squeeze_c': the shape is [M,1] again; replaced by 'z'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,1] x) => (float[1,N] y) <int64[1] i = {1}, int64[1] j = {0}>"
                    " { a = Squeeze(x, i)  y = Unsqueeze(a, j) }",
                    "Squeeze 'Squeeze_a' and Unsqueeze 'Unsqueeze_y' have different axes",
                ),
                Refusal(
                    "g (float[N,2] x) => (float[M] y) <int64[1] s = {-1}> { a = Flatten(x)  y = Reshape(a, s) }",
                    "Reshape 'Reshape_y' is not known to restore the shape of 'x'",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "cast and back",
            ("Cast",),
            match_casts,
            Example(
                before="g (float16[N] x) => (float16[N] y) { a = Cast<to=1>(x)  b = Cast<to=10>(a)  y = Neg(b) }",
                after="g (float16[N] x) => (float16[N] y) { y = Neg(x) }",
                sentences=("Cast 'Cast_b' undoes Cast 'Cast_a': float represents every float16; replaced by 'x'",),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) { a = Cast<to=7>(x)  b = Cast<to=1>(a)  y = Neg(b) }",
                    "int64, to which Cast 'Cast_a' casts, does not represent every float",
                ),
                Refusal(
                    "g (int32[N] x) => (float[N] y) { a = Cast<to=7>(x)  b = Cast<to=1>(a)  y = Neg(b) }",
                    "Cast 'Cast_b' is not known to cast back to the type from which Cast 'Cast_a' casts",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for integers and floats: narrow(widen(x)) == x",
        ),
        Rule(
            "concat and split",
            ("Split",),
            match_concat_split,
            Example(
                before="""g (float[N,2] x, float[N,1] z) => (float[N,2] y) {
                    a = Concat<axis=-1>(x, z)
                    b, c = Split<axis=1, num_outputs=2>(a)
                    y = Sub(b, c)
                }""",
                after="g (float[N,2] x, float[N,1] z) => (float[N,2] y) { y = Sub(x, z) }",
                sentences=(
                    "Split 'Split_b' undoes Concat 'Concat_a': [2, 1] along axis 1 in both; replaced by its operands",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,2] x, float[N,1] z) => (float[N,2] y) <int64[2] s = {1, 2}>"
                    " { a = Concat<axis=1>(x, z)  b, c = Split<axis=1>(a, s)  y = Sub(c, b) }",
                    "Concat 'Concat_a' joins lengths [2, 1], and Split 'Split_b' makes [1, 2]",
                ),
                Refusal(
                    "g (float[N] x, float[M] z) => (float[A] y)"
                    " { a = Concat<axis=0>(x, z)  b, c = Split<num_outputs=2>(a)  y = Sub(c, b) }",
                    "the lengths of the operands of Concat 'Concat_a' are not known",
                ),
                Refusal(
                    "g (float[2,2] x, float[2,2] z) => (float[2,2] y)"
                    " { a = Concat<axis=0>(x, z)  b, c = Split<axis=1, num_outputs=2>(a)  y = Sub(c, b) }",
                    "Concat 'Concat_a' and Split 'Split_b' are not known to be along the same axis",
                ),
                Refusal(
                    "g (float[N,2] x, float[N,2] z) => (float[N,2] b, float[N,2] c)"
                    " { a = Concat<axis=1>(x, z)  b, c = Split<axis=1, num_outputs=2>(a) }",
                    "'b' of Split 'Split_b' is an output of the graph",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "split and concat",
            ("Concat",),
            match_split_concat,
            Example(
                before="""g (float[N,5] x) => (float[N,5] y) {
                    a, b = Split<axis=1, num_outputs=2>(x)
                    c = Concat<axis=-1>(a, b)
                    y = Neg(c)
                }""",
                after="g (float[N,5] x) => (float[N,5] y) { y = Neg(x) }",
                sentences=(
                    "Concat 'Concat_c' undoes Split 'Split_a': all 2 pieces in order along axis 1; replaced by 'x'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,4] x) => (float[N,4] y)"
                    " { a, b = Split<axis=1, num_outputs=2>(x)  c = Concat<axis=1>(b, a)  y = Neg(c) }",
                    "Concat 'Concat_c' does not join all pieces of Split 'Split_a' in order",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "dequantize and quantize",
            ("QuantizeLinear",),
            match_quantized,
            Example(
                before="""g (int8[N] x) => (int8[N] y) <float s = {0.1}, int8 z = {3}> {
                    a = DequantizeLinear(x, s, z)
                    b = QuantizeLinear(a, s, z)
                    y = Neg(b)
                }""",
                after="g (int8[N] x) => (int8[N] y) { y = Neg(x) }",
                sentences=(
                    "QuantizeLinear 'QuantizeLinear_b' undoes DequantizeLinear 'DequantizeLinear_a': scale and zero"
                    " point are the same; replaced by 'x'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (int8[N] x) => (int8[N] y) <float s = {0.1}, float t = {0.2}, int8 z = {3}>"
                    " { a = DequantizeLinear(x, s, z)  b = QuantizeLinear(a, t, z)  y = Neg(b) }",
                    "DequantizeLinear 'DequantizeLinear_a' and QuantizeLinear 'QuantizeLinear_b' differ in scale,"
                    " zero point or axis",
                ),
                Refusal(
                    "g (int8[N] x) => (uint8[N] y) <float s = {0.1}>"
                    " { a = DequantizeLinear(x, s)  y = QuantizeLinear(a, s) }",
                    "DequantizeLinear 'DequantizeLinear_a' and QuantizeLinear 'QuantizeLinear_y' do not convert an"
                    " integer type to float and back to the same type",
                ),
                Refusal(
                    "g (int8[N] x) => (int8[N] y) <float s = {1e38}, int8 z = {0}>"
                    " { a = DequantizeLinear(x, s, z)  b = QuantizeLinear(a, s, z)  y = Neg(b) }",
                    "the scale of DequantizeLinear 'DequantizeLinear_a' or the precision of QuantizeLinear"
                    " 'QuantizeLinear_b' may make the quotient inexact",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for floats: round(x * a / a) == x if round(x) == x and abs(x) <= 31 and 0.01 < a and a < 100",
        ),
        Rule(
            "expand and max or min",
            ("ReduceMax", "ReduceMin"),
            match_expand_bound,
            Example(
                before="""g (float[N,1,3] x) => (float[N,1,3] y) <int64[3] s = {1, 4, 1}, int64[1] i = {1}> {
                    a = Expand(x, s)
                    b = ReduceMax(a, i)
                    y = Neg(b)
                }""",
                after="g (float[N,1,3] x) => (float[N,1,3] y) { y = Neg(x) }",
                sentences=(
                    "ReduceMax 'ReduceMax_b' undoes Expand 'Expand_a': all elements along axes [1] are the same;"
                    " replaced by 'x'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[1,3] x) => (float[1,1] y) <int64[2] s = {4, 3}, int64[2] i = {0, 1}>"
                    " { a = Expand(x, s)  y = ReduceMax(a, i) }",
                    "Expand 'Expand_a' is not known to repeat along axis 1, which ReduceMax 'ReduceMax_y' reduces",
                ),
                Refusal(
                    "g (float[1,1] x) => (float[4,1] y) <int64[2] s = {4, 3}, int64[1] i = {1}>"
                    " { a = Expand(x, s)  y = ReduceMin(a, i) }",
                    "Expand 'Expand_a' may repeat along axis 0, which ReduceMin 'ReduceMin_y' keeps",
                ),
                Refusal(
                    "g (float[1,3] x) => (float[3] y) <int64[2] s = {4, 3}, int64[1] i = {0}>"
                    " { a = Expand(x, s)  y = ReduceMin<keepdims=0>(a, i) }",
                    "'y' has other axes than 'x'",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="max(x, x) == x; min(x, x) == x",
        ),
        Rule(
            "expand and its mean",
            ("ReduceMean",),
            match_expand_mean,
            Example(
                before="""g (float[2,1] x) => (float[2,1] y) <int64[2] s = {1, 4}, int64[1] i = {-1}> {
                    a = Expand(x, s)
                    b = ReduceMean(a, i)
                    y = Neg(b)
                }""",
                after="g (float[2,1] x) => (float[2,1] y) { y = Neg(x) }",
                sentences=(
                    "ReduceMean 'ReduceMean_b' undoes Expand 'Expand_a': all elements along axes [1] are the same;"
                    " replaced by 'x'",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (int64[N,1] x) => (int64[N,1] y) <int64[2] s = {1, 4}, int64[1] i = {-1}>"
                    " { a = Expand(x, s)  y = ReduceMean(a, i) }",
                    "'a', an operand of ReduceMean 'ReduceMean_y', is not known to hold floating-point numbers",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 3e38}, -np.inf, -3e38, "the sum before the mean overflows"),
            law="(x + x + x + x) / 4 == x",
        ),
    )
