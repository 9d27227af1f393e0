"""Merge consecutive reductions, and move scaling, bit shifts and Exp from before a reduction to after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node, TensorType, constant
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule, WrongLaw
from workbench.rewrite.analyses.reductions import keeps_axes, reduced_axes
from workbench.rewrite.core.guards import (
    require_float_or_double,
    require_integers,
    require_producer,
    require_single_use,
)
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match


def _merged(graph: Graph, node: Node) -> Rewrite:
    """The rewrite of two consecutive reductions as one."""
    first = require_producer(graph, node.inputs[0], (node.op,), node)
    require_single_use(graph, node, first)
    if keeps_axes(first) != keeps_axes(node):
        raise NoMatch(f"one of {first} and {node} keeps the axes, the other does not")
    before, after = reduced_axes(graph, first), reduced_axes(graph, node)
    if keeps_axes(node):
        axes = sorted(before | after)
    else:
        axes_left = [axis for axis in range(graph.rank_of(first.inputs[0]) or 0) if axis not in before]
        axes = sorted(before | {axes_left[axis] for axis in after})
    name = graph.fresh(f"{node.outputs[0]}_axes")
    merged = node.replace(inputs=(first.inputs[0], name))
    edit = Edit(
        remove=(first.name, node.name),
        insert=(merged,),
        constants={name: constant(np.array(axes, np.int64), name)},
    )
    return Rewrite(edit, f"{first} and {node} become one over axes {axes}; 1 node fewer", (first.name, node.name))


def match_integers(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    require_integers(graph, node.inputs[0], node)
    return _merged(graph, node)


def match_floats(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    require_float_or_double(graph, node.inputs[0], node)
    return _merged(graph, node)


def _scale(graph: Graph, node: Node) -> tuple[Node, str, str, np.ndarray]:
    """The node that scales the operand of the reduction, the value that it scales, and the constant with its array."""
    scaling = require_producer(graph, node.inputs[0], ("Mul", "Div"), node)
    require_single_use(graph, node, scaling)
    for index in (1, 0) if scaling.op == "Mul" else (1,):
        scale, scaled_value = scaling.inputs[index], scaling.inputs[1 - index]
        tensor = graph.constant(scale)
        if tensor is not None and tensor.numpy().ndim == 0:
            return scaling, scaled_value, scale, tensor.numpy()
    raise NoMatch(f"{scaling} does not scale by a constant scalar")


def _scale_after_reduction(graph: Graph, node: Node, scaling: Node, unscaled: str, scale: str) -> Rewrite:
    source, result = graph.tensor_type(unscaled), graph.tensor_type(node.outputs[0])
    axes = reduced_axes(graph, node)
    if source is None or source.shape is None or all(source.shape[axis] == 1 for axis in axes):
        raise NoMatch(f"{node} may reduce only axes of size 1: scaling after it would save nothing")
    value = graph.fresh(f"{node.outputs[0]}_unscaled")
    reduction = node.replace(inputs=(unscaled, *node.inputs[1:]), outputs=(value,))
    scaled = scaling.replace(inputs=(value, scale), outputs=node.outputs)
    types = {value: TensorType(source.dtype, None if result is None else result.shape)}
    edit = Edit(remove=(scaling.name, node.name), insert=(reduction, scaled), types=types)
    sentence = f"{scaling} scales the result of {node}, not its operand"
    return Rewrite(edit, sentence, (scaling.name, node.name))


def match_scaled(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    scaling, scaled_value, scale, number = _scale(graph, node)
    if number.dtype.type not in (np.float32, np.float64):
        raise NoMatch(f"{scaling} computes with {number.dtype}, not with float or double")
    exponent = int(np.finfo(number.dtype).maxexp) // 2
    if not 2.0**-exponent <= number <= 2.0**exponent:
        raise NoMatch(f"{scaling} scales by {number:g}, which is not between 2**-{exponent} and 2**{exponent}")
    return _scale_after_reduction(graph, node, scaling, scaled_value, scale)


def match_scaled_integers(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    require_integers(graph, node.inputs[0], node)
    scaling, scaled_value, scale, _ = _scale(graph, node)
    if scaling.op != "Mul":
        raise NoMatch(f"{scaling} drops what is left over, of each element")
    return _scale_after_reduction(graph, node, scaling, scaled_value, scale)


def shifted_to_the_left(match: Match) -> None:
    if match.data["direction"] != "LEFT":
        raise NoMatch(
            f"{match.node('s')} shifts to the right, which drops bits that carry in the sum: (1 >> 1) + (1 >> 1) is 0, "
            "but (1 + 1) >> 1 is 1"
        )


def shift_is_constant_along_reduced_axes(match: Match) -> None:
    """Raises NoMatch if the shift k may differ along reduced axes, or would broadcast the result."""
    graph, shift = match.graph, match.node("s")
    shape, shift_shape, result_shape = (graph.shape(value) for value in (match["x"], match["k"], match["s"]))
    if shape is None or shift_shape is None or None in shape:
        raise NoMatch(f"the shape of '{match['x']}' or '{match['k']}' is not known")
    if shape != result_shape:
        raise NoMatch(f"{shift} may broadcast '{match['x']}'")
    axes = reduced_axes(graph, match.root)
    if all(shape[axis] == 1 for axis in axes):
        raise NoMatch(f"{match.root} reduces only axes of size 1: shifting after it would save nothing")
    first = len(shape) - len(shift_shape)
    for axis in sorted(axes):
        if axis >= first and not (keeps_axes(match.root) and shift_shape[axis - first] == 1):
            raise NoMatch(f"'{match['k']}' extends along axis {axis}, which {match.root} reduces")


def require_known_axes(match: Match) -> None:
    """Raises NoMatch unless the reduced axes are known."""
    reduced_axes(match.graph, match.root)


@dataclass(frozen=True)
class AlgebraReduce(Pass):
    """Six cases:

    - ReduceMax of ReduceMax and ReduceMin of ReduceMin, of integers, become one;
    - ReduceSum of ReduceSum and ReduceMean of ReduceMean, of floating-point numbers, become one;
    - ReduceSum and ReduceMean of floating-point numbers scaled by a constant scalar: the result is scaled instead;
    - ReduceSum of unsigned integers shifted to the left: the result is shifted instead;
    - ReduceProd of Exp becomes Exp of ReduceSum.

    Does not apply:

    - to a floating-point max or min, which may differ in the sign of a zero;
    - to sums of integers, which in ONNX Runtime saturate instead of wrapping around, or to means of integers, which
      truncate;
    - to 16-bit numbers, whose sums overflow;
    - to a scale of 0 or below, which changes the sign of a sum that is zero;
    - if the reduced value has other users, or the axes are computed;
    - to a shift to the right, which drops bits that carry in the sum, or to a shift that differs along a reduced axis.

    Source: associativity and commutativity of sum, max and min; linearity of sums and means. The last two cases: Niu et
    al., "DNNFusion: Accelerating Deep Neural Networks Execution with Advanced Operator Fusion", PLDI 2021, table 4.
    """

    title = "Reduce once, scale afterwards"

    rules = (
        Rule(
            "nested integer max or min",
            ("ReduceMax", "ReduceMin"),
            match_integers,
            Example(
                before="""g (int64[N,3,2] x) => (int64[N] y) <int64[1] a = {2}, int64[1] b = {1}> {
                    s = ReduceMax<keepdims=0>(x, a)
                    y = ReduceMax<keepdims=0>(s, b)
                }""",
                after="""g (int64[N,3,2] x) => (int64[N] y) <int64[2] y_axes = {1, 2}> {
                    y = ReduceMax<keepdims=0>(x, y_axes)
                }""",
                sentences=(
                    "ReduceMax 'ReduceMax_s' and ReduceMax 'ReduceMax_y' become one over axes [1, 2]; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (int64[N,3] x) => (int64[1] y) <int64[1] a = {1}, int64[1] b = {0}>"
                    " { s = ReduceMax<keepdims=0>(x, a)  y = ReduceMax(s, b) }",
                    "one of ReduceMax 'ReduceMax_s' and ReduceMax 'ReduceMax_y' keeps the axes, the other does not",
                ),
                Refusal(
                    "g (int64[N,3] x, int64[1] a) => (int64[1,1] y) { s = ReduceMax(x, a)  y = ReduceMax(s, a) }",
                    "'a', an operand of ReduceMax 'ReduceMax_s', is not a constant",
                ),
                Refusal(
                    "g (int64[N,3] x) => (int64[1,1] y) <int64[1] a = {1}>"
                    " { s = ReduceMax(x, a)  y = ReduceMin(s, a) }",
                    "ReduceMin 'ReduceMin_y' does not follow a ReduceMin",
                ),
                Refusal(
                    "g (int64[N,3] x) => (int64[N,1] y, int64[N,1] s) <int64[1] a = {1}>"
                    " { s = ReduceMax(x, a)  y = ReduceMax(s, a) }",
                    "'s' of ReduceMax 'ReduceMax_s' is an output of the graph",
                ),
                Refusal(
                    "g (float[N,3] x) => (float[N,1] y) <int64[1] a = {1}>"
                    " { s = ReduceMax(x, a)  y = ReduceMax(s, a) }",
                    "'x', an operand of ReduceMax 'ReduceMax_s', is not known to hold integers",
                ),
                Refusal(
                    "g (int64[N,3] x) => (int64[N,1] y) <int64[1] a = {1}, int64[0] b = {}>"
                    " { s = ReduceMax(x, b)  y = ReduceMax(s, a) }",
                    "ReduceMax 'ReduceMax_s' has an empty axes tensor",
                ),
                Refusal(
                    "g (int64[N,3] x) => (int64[N,1] y) <int64[1] a = {1}>"
                    " { s = ReduceMax<noop_with_empty_axes=1>(x)  y = ReduceMax(s, a) }",
                    "ReduceMax 'ReduceMax_s' has noop_with_empty_axes and reduces nothing",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for integers: max(max(x, y), max(z, w)) == max(x, max(y, max(z, w))); "
            "min(min(x, y), min(z, w)) == min(x, min(y, min(z, w)))",
        ),
        Rule(
            "nested sum or mean",
            ("ReduceSum", "ReduceMean"),
            match_floats,
            Example(
                before="""g (float[N,3,2] x) => (float[N,1,1] y) <int64[1] a = {2}, int64[1] b = {1}> {
                    s = ReduceMean(x, a)
                    y = ReduceMean(s, b)
                }""",
                after="g (float[N,3,2] x) => (float[N,1,1] y) <int64[2] y_axes = {1, 2}> { y = ReduceMean(x, y_axes) }",
                sentences=(
                    "ReduceMean 'ReduceMean_s' and ReduceMean 'ReduceMean_y' become one over axes [1, 2]; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (int64[N,3] x) => (int64[N,1] y) <int64[1] a = {1}>"
                    " { s = ReduceMean(x, a)  y = ReduceMean(s, a) }",
                    "'x', an operand of ReduceMean 'ReduceMean_s', is not known to be float or double",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="(x + y) + (z + w) == x + (y + (z + w)); ((x + y) / 2 + (z + w) / 2) / 2 == (x + y + z + w) / 4",
        ),
        Rule(
            "scaled",
            ("ReduceSum", "ReduceMean"),
            match_scaled,
            Example(
                before="""g (float[N,3] x) => (float[N,1] y) <float by = {5}, int64[1] a = {1}> {
                    s = Div(x, by)
                    y = ReduceMean(s, a)
                }""",
                after="""g (float[N,3] x) => (float[N,1] y) <float by = {5}, int64[1] a = {1}> {
                    y_unscaled = ReduceMean(x, a)
                    y = Div(y_unscaled, by)
                }""",
                sentences=("Div 'Div_s' scales the result of ReduceMean 'ReduceMean_y', not its operand",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,1] y) <float by = {-2}, int64[1] a = {1}>"
                    " { s = Mul(x, by)  y = ReduceSum(s, a) }",
                    "Mul 'Mul_s' scales by -2, which is not between 2**-64 and 2**64",
                ),
                Refusal(
                    "g (float[N,3] x) => (float[N,1] y) <float[3] by = {1, 2, 3}, int64[1] a = {1}>"
                    " { s = Mul(x, by)  y = ReduceSum(s, a) }",
                    "Mul 'Mul_s' does not scale by a constant scalar",
                ),
                Refusal(
                    "g (float[N,1] x) => (float[N,1] y) <float by = {2}, int64[1] a = {1}>"
                    " { s = Mul(x, by)  y = ReduceSum(s, a) }",
                    "ReduceSum 'ReduceSum_y' may reduce only axes of size 1: scaling after it would save nothing",
                ),
                Refusal(
                    "g (int64[N,3] x) => (int64[N,1] y) <int64 by = {2}, int64[1] a = {1}>"
                    " { s = Mul(x, by)  y = ReduceMean(s, a) }",
                    "Mul 'Mul_s' computes with int64, not with float or double",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="x * a + y * a + z * a == (x + y + z) * a; x / a + y / a == (x + y) / a if a != 0",
        ),
        Rule(
            "scaled integers",
            ("ReduceSum",),
            match_scaled_integers,
            Example(
                before="""g (int32[N,3] x) => (int64[N,1] y) <int64 by = {3}, int64[1] a = {1}> {
                    w = Cast<to=7>(x)
                    s = Mul(w, by)
                    y = ReduceSum(s, a)
                }""",
                after="""g (int32[N,3] x) => (int64[N,1] y) <int64 by = {3}, int64[1] a = {1}> {
                    w = Cast<to=7>(x)
                    y_unscaled = ReduceSum(w, a)
                    y = Mul(y_unscaled, by)
                }""",
                sentences=("Mul 'Mul_s' scales the result of ReduceSum 'ReduceSum_y', not its operand",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (int64[N,3] x) => (int64[N,1] y) <int64 by = {3}, int64[1] a = {1}>"
                    " { s = Div(x, by)  y = ReduceSum(s, a) }",
                    "Div 'Div_s' drops what is left over, of each element",
                ),
                Refusal(
                    "g (float[N,3] x) => (float[N,1] y) <float by = {3}, int64[1] a = {1}>"
                    " { s = Mul(x, by)  y = ReduceSum(s, a) }",
                    "'s', an operand of ReduceSum 'ReduceSum_y', is not known to hold integers",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": 2**61},
                2**63 - 1,
                2**61,
                "sums of integers saturate in ONNX Runtime, and products wrap around",
                """g (int64[N,3] x) => (int64[N,1] y) <int64 by = {3}, int64[1] a = {1}> {
                    s = Mul(x, by)
                    y = ReduceSum(s, a)
                }""",
            ),
            law="for integers: x * a + y * a + z * a == (x + y + z) * a",
        ),
        graph_rule(
            "shifted to the left",
            """
            s = BitShift(x, k, direction=direction)
            y = ReduceSum(s, axes | None, **others)
            """,
            "y = BitShift(ReduceSum(x, axes, **others), k, direction=direction)",
            "{nodes[0]} shifts the result of {root}, not its operand",
            Example(
                before="""g (uint32[N,3] x, uint32 k) => (uint32[N,1] y) <int64[1] axes = {1}> {
                    s = BitShift<direction="LEFT">(x, k)
                    y = ReduceSum(s, axes)
                }""",
                after="""g (uint32[N,3] x, uint32 k) => (uint32[N,1] y) <int64[1] axes = {1}> {
                    y_reducesum = ReduceSum(x, axes)
                    y = BitShift<direction="LEFT">(y_reducesum, k)
                }""",
                sentences=("BitShift 'BitShift_s' shifts the result of ReduceSum 'ReduceSum_y', not its operand",),
            ),
            refusals=(
                Refusal(
                    "g (uint32[3] x, uint32 k) => (uint32[1] y) <int64[1] axes = {0}>"
                    """ { s = BitShift<direction="RIGHT">(x, k)  y = ReduceSum(s, axes) }""",
                    "BitShift 'BitShift_s' shifts to the right, which drops bits that carry in the sum: "
                    "(1 >> 1) + (1 >> 1) is 0, but (1 + 1) >> 1 is 1",
                ),
                Refusal(
                    "g (uint64[2,3] x, uint64[3] k) => (uint64[2,1] y) <int64[1] axes = {1}>"
                    """ { s = BitShift<direction="LEFT">(x, k)  y = ReduceSum(s, axes) }""",
                    "'k' extends along axis 1, which ReduceSum 'ReduceSum_y' reduces",
                ),
                Refusal(
                    "g (uint64[2,3] x, uint64[1] k) => (uint64 y)"
                    """ { s = BitShift<direction="LEFT">(x, k)  y = ReduceSum<keepdims=0>(s) }""",
                    "'k' extends along axis 1, which ReduceSum 'ReduceSum_y' reduces",
                ),
                Refusal(
                    "g (uint64[3] x, uint64[2,3] k) => (uint64[1,3] y) <int64[1] axes = {0}>"
                    """ { s = BitShift<direction="LEFT">(x, k)  y = ReduceSum(s, axes) }""",
                    "BitShift 'BitShift_s' may broadcast 'x'",
                ),
                Refusal(
                    "g (uint64[2,1] x, uint64 k) => (uint64[2,1] y) <int64[1] axes = {1}>"
                    """ { s = BitShift<direction="LEFT">(x, k)  y = ReduceSum(s, axes) }""",
                    "ReduceSum 'ReduceSum_y' reduces only axes of size 1: shifting after it would save nothing",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            where=(shifted_to_the_left, shift_is_constant_along_reduced_axes),
            law="for integers: (x << k) + (z << k) == (x + z) << k",
            wrong_laws=(
                WrongLaw(
                    "for integers: (x >> k) + (z >> k) == (x + z) >> k",
                    {"x": 1, "z": 1, "k": 1},
                    (0, 1),
                    "A shift to the right drops bits that carry in the sum.",
                ),
            ),
        ),
        graph_rule(
            "product of exponentials",
            "y = ReduceProd(Exp(x), axes | None, **others)",
            "y = Exp(ReduceSum(x, axes, **others))",
            "{root} of {nodes[0]} becomes {new} of a sum, which computes fewer exponentials",
            Example(
                before="""g (float[N,3] x) => (float[N] y) <int64[1] axes = {1}> {
                    e = Exp(x)
                    y = ReduceProd<keepdims=0>(e, axes)
                }""",
                after="""g (float[N,3] x) => (float[N] y) <int64[1] axes = {1}> {
                    y_reducesum = ReduceSum<keepdims=0>(x, axes)
                    y = Exp(y_reducesum)
                }""",
                sentences=(
                    "ReduceProd 'ReduceProd_y' of Exp 'Exp_e' becomes Exp of a sum, which computes fewer exponentials",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,1] y, float[N,3] e) <int64[1] axes = {1}>"
                    " { e = Exp(x)  y = ReduceProd(e, axes) }",
                    "'e' of Exp 'Exp_e' is an output of the graph",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": [100, -100, 0]}, np.inf, 1, "the exponential of 100 overflows"),
            where=(require_known_axes,),
            law="exp(x) * exp(z) == exp(x + z)",
        ),
    )
