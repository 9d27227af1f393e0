"""Remove transposes that move no data, and move a transpose from before a reduction to after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.analysis.metrics.transpose_cost import elements_saved
from workbench.ir import Edit, Graph, Node, constant
from workbench.ir.permutation import inverse, is_identity, permuted
from workbench.planning.layout.conversion.convert import is_only_reader
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.across_views import merged_with_view, transposed_between_views
from workbench.rewrite.analyses.reductions import keeps_axes, reduced_axes, remaining_permutation
from workbench.rewrite.analyses.reshapes import VIEWS
from workbench.rewrite.core.guards import (
    permutation,
    require_float_or_double,
    require_floating,
    require_integers,
    require_producer,
    require_single_use,
)

# ---- next to a view -----------------------------------------------------------------------


def match_view(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return merged_with_view(graph, node)


def match_between_views(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return transposed_between_views(graph, node)


# ---- before a reduction --------------------------------------------------------------------


def _reduce_before_transpose(graph: Graph, node: Node) -> Rewrite:
    transpose = require_producer(graph, node.inputs[0], ("Transpose",), node)
    require_single_use(graph, node, transpose)
    perm, axes = permutation(graph, transpose), reduced_axes(graph, node)
    shape = graph.shape(transpose.outputs[0])
    if shape is None or all(shape[axis] == 1 for axis in axes):
        raise NoMatch(f"{node} may reduce only axes of size 1: moving {transpose} would save nothing")
    source, result = transpose.inputs[0], node.outputs[0]
    source_axes = sorted(perm[axis] for axis in axes)
    name = graph.fresh(f"{result}_axes")
    constants = {name: constant(np.array(source_axes, np.int64), name)}
    names = (transpose.name, node.name)
    remaining_perm = remaining_permutation(perm, axes, keeps_axes(node))
    others_stay = all(perm[axis] == axis for axis in range(len(perm)) if axis not in axes)
    if is_identity(remaining_perm) or (keeps_axes(node) and others_stay):
        edit = Edit(
            remove=names,
            insert=(node.replace(inputs=(source, name)),),
            constants=constants,
        )
        gain = elements_saved(graph, transpose)
        return Rewrite(edit, f"{node} reduces axes {source_axes} of '{source}' directly; {gain}", names)
    value = graph.fresh(f"{result}_reduced", (name,))
    reduction = node.replace(inputs=(source, name), outputs=(value,))
    transpose_after = transpose.replace(
        inputs=(value,), outputs=(result,), attributes={**transpose.attributes, "perm": remaining_perm}
    )
    type_ = graph.tensor_type(result)
    types = {}
    if type_ is not None:
        types[value] = type_.with_shape(None if type_.shape is None else permuted(type_.shape, inverse(remaining_perm)))
    edit = Edit(remove=names, insert=(reduction, transpose_after), constants=constants, types=types)
    sentence = f"{transpose} is now after {node}, which reduces axes {source_axes} of '{source}'"
    return Rewrite(edit, sentence, names)


def _reduce_without_view(graph: Graph, node: Node) -> Rewrite:
    """A reduction over all axes bypasses the Reshape, Flatten, Squeeze or Unsqueeze before it."""
    view = require_producer(graph, node.inputs[0], VIEWS, node)
    axes, source = reduced_axes(graph, node), view.inputs[0]
    rank, source_rank = len(graph.shape(node.inputs[0]) or ()), graph.rank_of(source)
    if len(axes) < rank:
        raise NoMatch(f"{node} does not reduce all axes")
    if not source_rank or (keeps_axes(node) and source_rank != rank):
        raise NoMatch(f"{node} applied to '{source}' may give a result of another rank")
    removes_view = is_only_reader(graph, node, view.outputs[0])
    attributes = {key: value for key, value in node.attributes.items() if key != "noop_with_empty_axes"}
    reduction = node.replace(inputs=(source,), attributes=attributes)
    edit = Edit(remove=(view.name, node.name) if removes_view else (node.name,), insert=(reduction,))
    sentence = f"{node} reduces all elements of '{source}', so that {view} is not needed"
    return Rewrite(edit, sentence, (view.name, node.name))


def match_max_min_of_all(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return _reduce_without_view(graph, node)


def match_sum_of_all(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    require_float_or_double(graph, node.inputs[0], node)
    return _reduce_without_view(graph, node)


def match_integer_reduction(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    require_integers(graph, node.inputs[0], node)
    return _reduce_before_transpose(graph, node)


def match_floating_max_min(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    require_floating(graph, node.inputs[0], node)
    return _reduce_before_transpose(graph, node)


def match_reduction(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    require_float_or_double(graph, node.inputs[0], node)
    return _reduce_before_transpose(graph, node)


@dataclass(frozen=True)
class UselessTransposes(Pass):
    """Four cases:

    - a Transpose that moves only axes of size 1 merges with an adjacent Reshape, Flatten, Squeeze or Unsqueeze into
      one Reshape;
    - a Transpose between two of these that only add and remove axes of size 1 becomes a Transpose of their operand;
    - a reduction after a Transpose reads the operand of the Transpose. If the remaining axes keep their order, the
      Transpose is removed. Otherwise it moves to after the reduction, where it moves fewer elements;
    - a Reshape, Flatten, Squeeze or Unsqueeze before a reduction of all elements is removed.

    Does not apply:

    - if a symbolic axis would move, or if anything else reads the intermediate value;
    - to a floating-point max or min after a Transpose, except in mode "fast": it may differ in the sign of a zero, and
      ONNX Runtime loses a NaN or not, depending on its place;
    - to sums of integers, which saturate in ONNX Runtime;
    - if all reduced axes have size 1.

    Source: the unpublished plan of graph optimizations for buddy-compiler, "useless place"
    (docs/references.md, "buddy plan"); a sum does not depend on the order of its summands.
    """

    title = "Remove transposes next to views and before reductions"

    rules = (
        Rule(
            "beside a view",
            ("Transpose", *VIEWS),
            match_view,
            Example(
                before="""g (float[N,1,1,8] x) => (float[N,8] y) {
                    t = Transpose<perm=[0,3,1,2]>(x)
                    y = Flatten(t)
                }""",
                after="g (float[N,1,1,8] x) => (float[N,8] y) <int64[2] y_shape = {-1, 8}> { y = Reshape(x, y_shape) }",
                sentences=(
                    "Transpose 'Transpose_t' and Flatten 'Flatten_y' move no element and become one Reshape to [-1, 8];"
                    " 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,2,1,8] x) => (float[N,16] y) { t = Transpose<perm=[0,3,1,2]>(x)  y = Flatten(t) }",
                    "Transpose 'Transpose_t' permutes axes that are not known to have size 1",
                ),
                Refusal(
                    "g (float[N,1,8] x) => (float[1,N,8] y) { a = Relu(x)  y = Transpose<perm=[1,0,2]>(a) }",
                    "Transpose 'Transpose_y' does not follow a Reshape, Flatten, Squeeze or Unsqueeze",
                ),
                Refusal(
                    """g (float[N,M,1] x) => (float[N,1,M,1] y) <int64[1] i = {3}> {
                        t = Transpose<perm=[0,2,1]>(x)
                        y = Unsqueeze(t, i)
                    }""",
                    "the shape of 'y' cannot be written as a constant operand of Reshape",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "between views",
            ("Transpose",),
            match_between_views,
            Example(
                before="""g (float[1,N,3,8] x) => (float[1,3,8,N] y) <int64[1] first = {0}> {
                    a = Squeeze(x, first)
                    b = Transpose<perm=[1,2,0]>(a)
                    y = Unsqueeze(b, first)
                }""",
                after="g (float[1,N,3,8] x) => (float[1,3,8,N] y) { y = Transpose<perm=[0,2,3,1]>(x) }",
                sentences=(
                    "Squeeze 'Squeeze_a' and Unsqueeze 'Unsqueeze_y' only change axes of size 1 around Transpose "
                    "'Transpose_b': perm [0, 2, 3, 1] of 'x'; 2 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[1,6,4] x) => (float[1,4,2,3] y) <int64[1] first = {0}, int64[4] s = {1, 4, 2, 3}> {
                        a = Squeeze(x, first)
                        b = Transpose<perm=[1,0]>(a)
                        y = Reshape(b, s)
                    }""",
                    "Reshape 'Reshape_y' does not give 'x' with its axes in another order",
                ),
                Refusal(
                    """g (float[2,3,4] x) => (float[4,6,1] y) <int64[2] s = {6, 4}, int64[1] last = {2}> {
                        a = Reshape(x, s)
                        b = Transpose<perm=[1,0]>(a)
                        y = Unsqueeze(b, last)
                    }""",
                    "Reshape 'Reshape_a' does more than add and remove axes of size 1",
                ),
                Refusal(
                    """g (float[1,6,4] x) => (float[4,6] y) <int64[1] first = {0}> {
                        a = Squeeze(x, first)
                        b = Transpose<perm=[1,0]>(a)
                        y = Relu(b)
                    }""",
                    "what reads Transpose 'Transpose_b' is no Reshape, Flatten, Squeeze or Unsqueeze",
                ),
                Refusal(
                    """g (float[1,6,1] x) => (float[1,1,6] y) <int64[1] first = {0}> {
                        a = Squeeze(x, first)
                        b = Transpose<perm=[1,0]>(a)
                        y = Unsqueeze(b, first)
                    }""",
                    "Transpose 'Transpose_b' moves no element, or its shape is not known",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "before an integer max or min",
            ("ReduceMax", "ReduceMin"),
            match_integer_reduction,
            Example(
                before="""g (int64[N,2,3] x) => (int64[3,N] y) <int64[1] i = {2}> {
                    t = Transpose<perm=[2,0,1]>(x)
                    y = ReduceMax<keepdims=0>(t, i)
                }""",
                after="""g (int64[N,2,3] x) => (int64[3,N] y) <int64[1] y_axes = {1}> {
                    y_reduced = ReduceMax<keepdims=0>(x, y_axes)
                    y = Transpose<perm=[1,0]>(y_reduced)
                }""",
                sentences=(
                    "Transpose 'Transpose_t' is now after ReduceMax 'ReduceMax_y', which reduces axes [1] of 'x'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2,3] x) => (float[3] y) <int64[1] i = {1}>"
                    " { t = Transpose(x)  y = ReduceMax<keepdims=0>(t, i) }",
                    "'t', an operand of ReduceMax 'ReduceMax_y', is not known to hold integers",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for integers: max(max(x, y), max(z, w)) == max(max(x, z), max(y, w)); "
            "min(min(x, y), min(z, w)) == min(min(x, z), min(y, w))",
        ),
        Rule(
            "before a floating-point max or min",
            ("ReduceMax", "ReduceMin"),
            match_floating_max_min,
            Example(
                before="""g (float[2,4,4,8] x) => (float[2,8] y) <int64[2] i = {2, 3}> {
                    t = Transpose<perm=[0,3,1,2]>(x)
                    y = ReduceMax<keepdims=0>(t, i)
                }""",
                after="""g (float[2,4,4,8] x) => (float[2,8] y) <int64[2] y_axes = {1, 2}> {
                    y = ReduceMax<keepdims=0>(x, y_axes)
                }""",
                sentences=(
                    "ReduceMax 'ReduceMax_y' reduces axes [1, 2] of 'x' directly; 256 elements no longer moved",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (int64[2,3] x) => (int64[3] y) <int64[1] i = {1}>"
                    " { t = Transpose(x)  y = ReduceMax<keepdims=0>(t, i) }",
                    "'t', an operand of ReduceMax 'ReduceMax_y', is not known to hold floating-point numbers",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": [-1, 0.0, -0.0]},
                0.0,
                -0.0,
                "of 0.0 and -0.0 the one is taken that ONNX Runtime meets first",
                "g (float[2,3] x) => (float y) { t = Transpose(x)  y = ReduceMax<keepdims=0>(t) }",
            ),
            law="max(max(x, y), max(z, w)) == max(max(x, z), max(y, w)); "
            "min(min(x, y), min(z, w)) == min(min(x, z), min(y, w))",
        ),
        Rule(
            "before a sum",
            ("ReduceSum", "ReduceMean"),
            match_reduction,
            Example(
                before="""g (float[2,4,4,8] x) => (float[2,8] y) <int64[2] i = {2, 3}> {
                    t = Transpose<perm=[0,3,1,2]>(x)
                    y = ReduceMean<keepdims=0>(t, i)
                }""",
                after="""g (float[2,4,4,8] x) => (float[2,8] y) <int64[2] y_axes = {1, 2}> {
                    y = ReduceMean<keepdims=0>(x, y_axes)
                }""",
                sentences=(
                    "ReduceMean 'ReduceMean_y' reduces axes [1, 2] of 'x' directly; 256 elements no longer moved",
                ),
            ),
            refusals=(
                Refusal(
                    "g (int64[2,3] x) => (int64[3] y) <int64[1] i = {1}>"
                    " { t = Transpose(x)  y = ReduceSum<keepdims=0>(t, i) }",
                    "'t', an operand of ReduceSum 'ReduceSum_y', is not known to be float or double",
                ),
                Refusal(
                    "g (float[1,3] x) => (float[3] y) <int64[1] i = {1}>"
                    " { t = Transpose(x)  y = ReduceSum<keepdims=0>(t, i) }",
                    "ReduceSum 'ReduceSum_y' may reduce only axes of size 1: moving Transpose 'Transpose_t' would "
                    "save nothing",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[3] y, float[3,2] t) <int64[1] i = {1}>"
                    " { t = Transpose(x)  y = ReduceSum<keepdims=0>(t, i) }",
                    "'t' of Transpose 'Transpose_t' is an output of the graph",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="(x + y) + (z + w) == (x + z) + (y + w)",
        ),
        Rule(
            "before a max or min of all",
            ("ReduceMax", "ReduceMin"),
            match_max_min_of_all,
            Example(
                before="""g (float[N,2,3] x) => (float y) <int64[1] s = {-1}> {
                    a = Reshape(x, s)
                    y = ReduceMax<keepdims=0>(a)
                }""",
                after="g (float[N,2,3] x) => (float y) { y = ReduceMax<keepdims=0>(x) }",
                sentences=(
                    "ReduceMax 'ReduceMax_y' reduces all elements of 'x', so that Reshape 'Reshape_a' is not needed",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2,3] x) => (float[1] y) <int64[1] s = {-1}> { a = Reshape(x, s)  y = ReduceMax(a) }",
                    "ReduceMax 'ReduceMax_y' applied to 'x' may give a result of another rank",
                ),
                Refusal(
                    "g (float[2,2,3] x) => (float[2] y) <int64[1] i = {1}>"
                    " { a = Flatten(x)  y = ReduceMax<keepdims=0>(a, i) }",
                    "ReduceMax 'ReduceMax_y' does not reduce all axes",
                ),
                Refusal(
                    "g (float[2,3] x) => (float y) { a = Relu(x)  y = ReduceMax<keepdims=0>(a) }",
                    "ReduceMax 'ReduceMax_y' does not follow a Reshape, Flatten, Squeeze or Unsqueeze",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "before a sum of all",
            ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"),
            match_sum_of_all,
            Example(
                before="""g (float[N,2,3] x) => (float[1,1,1] y) <int64[3] s = {3, 0, -1}, int64[3] i = {0, 1, 2}> {
                    a = Reshape(x, s)
                    y = ReduceSum(a, i)
                }""",
                after="g (float[N,2,3] x) => (float[1,1,1] y) { y = ReduceSum(x) }",
                sentences=(
                    "ReduceSum 'ReduceSum_y' reduces all elements of 'x', so that Reshape 'Reshape_a' is not needed",
                ),
            ),
            refusals=(
                Refusal(
                    "g (int64[2,3] x) => (int64 y) { a = Flatten(x)  y = ReduceSum<keepdims=0>(a) }",
                    "'a', an operand of ReduceSum 'ReduceSum_y', is not known to be float or double",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="(x + y) + (z + w) == (x + z) + (y + w)",
        ),
    )

    extra_examples = (
        Example(
            title="A sum of all elements, of a Transpose, with axes that are kept",
            before="""g (float[2,3] x) => (float[1,1] y) {
                t = Transpose(x)
                y = ReduceSum(t)
            }""",
            after="g (float[2,3] x) => (float[1,1] y) <int64[2] y_axes = {0, 1}> { y = ReduceSum(x, y_axes) }",
            sentences=("ReduceSum 'ReduceSum_y' reduces axes [0, 1] of 'x' directly; 6 elements no longer moved",),
        ),
        Example(
            title="A Transpose of the reduced axes alone",
            before="""g (int64[2,3,4] x) => (int64[2,1,1] y) <int64[2] i = {1, 2}> {
                t = Transpose<perm=[0,2,1]>(x)
                y = ReduceMax(t, i)
            }""",
            after="g (int64[2,3,4] x) => (int64[2,1,1] y) <int64[2] y_axes = {1, 2}> { y = ReduceMax(x, y_axes) }",
            sentences=("ReduceMax 'ReduceMax_y' reduces axes [1, 2] of 'x' directly; 24 elements no longer moved",),
        ),
    )
