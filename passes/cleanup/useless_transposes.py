"""Remove transposes that move no element, and move those before reductions to where they move less."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node, constant
from workbench.ir.permutation import inverse, is_identity, moves_data, permuted
from workbench.layout.conversion.convert import is_only_reader
from workbench.metrics.transpose_cost import no_longer_moved
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.reductions import keeps_axes, reduced_axes, remaining_permutation
from workbench.rewrite.analyses.reshapes import VIEWS, shape_operand
from workbench.rewrite.core.guards import (
    permutation,
    require_float_or_double,
    require_integers,
    require_producer,
    require_single_use,
)

# ---- next to a view -----------------------------------------------------------------------


def _demand_view(graph: Graph, node: Node) -> None:
    """Raises NoMatch for a Transpose that may move elements in memory."""
    if node.op != "Transpose":
        return
    shape = graph.shape(node.inputs[0])
    perm = permutation(graph, node)
    if shape is None or moves_data(perm, shape):
        raise NoMatch(f"{node} permutes axes that are not known to have size 1")


def match_view(graph: Graph, node: Node, options: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], VIEWS if node.op == "Transpose" else ("Transpose",), node)
    require_single_use(graph, node, first)
    _demand_view(graph, first)
    _demand_view(graph, node)
    source, result = first.inputs[0], node.outputs[0]
    dims = shape_operand(graph.shape(source), graph.shape(result))
    if dims is None:
        raise NoMatch(f"the shape of '{result}' cannot be written as a constant operand of Reshape")
    name = graph.fresh(f"{result}_shape")
    reshape = node.replace(op_type="Reshape", inputs=(source, name), attributes={})
    edit = Edit(
        remove=(first.name, node.name),
        insert=(reshape,),
        constants={name: constant(np.array(dims, np.int64), name)},
    )
    sentence = f"{first} and {node} move no element and become one Reshape to {list(dims)}; 1 node less"
    return Rewrite(edit, sentence, (first.name, node.name))


# ---- before a reduction --------------------------------------------------------------------


def _reduced_first(graph: Graph, node: Node) -> Rewrite:
    transpose = require_producer(graph, node.inputs[0], ("Transpose",), node)
    require_single_use(graph, node, transpose)
    perm, axes = permutation(graph, transpose), reduced_axes(graph, node)
    shape = graph.shape(transpose.outputs[0])
    if shape is None or all(shape[axis] == 1 for axis in axes):
        raise NoMatch(f"{node} is not known to leave fewer elements to move")
    source, result = transpose.inputs[0], node.outputs[0]
    own_axes = sorted(perm[axis] for axis in axes)
    name = graph.fresh(f"{result}_axes")
    constants = {name: constant(np.array(own_axes, np.int64), name)}
    matched = (transpose.name, node.name)
    left = remaining_permutation(perm, axes, keeps_axes(node))
    if is_identity(left) or len(axes) == len(perm):
        edit = Edit(
            remove=matched,
            insert=(node.replace(inputs=(source, name)),),
            constants=constants,
        )
        gain = no_longer_moved(graph, transpose)
        return Rewrite(edit, f"{node} reduces axes {own_axes} of '{source}' directly; {gain}", matched)
    value = graph.fresh(f"{result}_reduced", (name,))
    reduced = node.replace(inputs=(source, name), outputs=(value,))
    moved = transpose.replace(inputs=(value,), outputs=(result,), attributes={**transpose.attributes, "perm": left})
    known = graph.tensor_type(result)
    types = {}
    if known is not None:
        types[value] = known.with_shape(None if known.shape is None else permuted(known.shape, inverse(left)))
    edit = Edit(remove=matched, insert=(reduced, moved), constants=constants, types=types)
    sentence = f"{transpose} moves the result of {node} over axes {own_axes}, not its operand"
    return Rewrite(edit, sentence, matched)


def _of_all(graph: Graph, node: Node) -> Rewrite:
    """The reduction of all elements reads the operand of the change of shape before it."""
    view = require_producer(graph, node.inputs[0], VIEWS, node)
    axes, source = reduced_axes(graph, node), view.inputs[0]
    rank, own = len(graph.shape(node.inputs[0]) or ()), graph.rank_of(source)
    if len(axes) < rank:
        raise NoMatch(f"{node} does not reduce all axes")
    if not own or (keeps_axes(node) and own != rank):
        raise NoMatch(f"{node} of '{source}' is not known to give as many axes")
    alone = is_only_reader(graph, node, view.outputs[0])
    attributes = {key: value for key, value in node.attributes.items() if key != "noop_with_empty_axes"}
    whole = node.replace(inputs=(source,), attributes=attributes)
    edit = Edit(remove=(view.name, node.name) if alone else (node.name,), insert=(whole,))
    return Rewrite(
        edit, f"{node} reduces all of '{source}', whatever the shape that {view} gives it", (view.name, node.name)
    )


def match_bound_of_all(graph: Graph, node: Node, options: Pass) -> Rewrite:
    return _of_all(graph, node)


def match_sum_of_all(graph: Graph, node: Node, options: Pass) -> Rewrite:
    require_float_or_double(graph, node.inputs[0], node)
    return _of_all(graph, node)


def match_integer_reduction(graph: Graph, node: Node, options: Pass) -> Rewrite:
    require_integers(graph, node.inputs[0], node)
    return _reduced_first(graph, node)


def match_reduction(graph: Graph, node: Node, options: Pass) -> Rewrite:
    require_float_or_double(graph, node.inputs[0], node)
    return _reduced_first(graph, node)


@dataclass(frozen=True)
class UselessTransposes(Pass):
    """Three cases:

    - a Transpose that moves axes of size 1 only, directly before or after Reshape, Flatten, Squeeze or Unsqueeze,
      becomes one Reshape with it, as when [N,C,1,1] is transposed and then flattened into an output;
    - a Transpose before a reduction: the reduction reads the operand of the Transpose, which is removed if the
      remaining axes keep their order, and otherwise follows the reduction, where it moves fewer elements;
    - a Reshape, Flatten, Squeeze or Unsqueeze before a reduction of all elements is removed.

    Must not act if a symbolic axis would change its place, if anything else reads the value between, on the maximum
    and minimum of floating-point numbers, which may differ in the sign of a zero, on sums of integers, which
    saturate in ONNX Runtime, nor if all reduced axes have size 1.

    Source: buddy plan, "useless place" (docs/references.md); a sum does not depend on the order of its summands.
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
                    " 1 node less",
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
            exactness=Exactness.BITS,
        ),
        Rule(
            "before a bound of integers",
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
                    "Transpose 'Transpose_t' moves the result of ReduceMax 'ReduceMax_y' over axes [1],"
                    " not its operand",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2,3] x) => (float[3] y) <int64[1] i = {1}>"
                    " { t = Transpose(x)  y = ReduceMax<keepdims=0>(t, i) }",
                    "'t', an operand of ReduceMax 'ReduceMax_y', is not known to hold integers",
                ),
            ),
            exactness=Exactness.BITS,
            law="for integers: max(max(x, y), max(z, w)) == max(max(x, z), max(y, w)); "
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
                    "ReduceSum 'ReduceSum_y' is not known to leave fewer elements to move",
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
            "before a bound of all",
            ("ReduceMax", "ReduceMin"),
            match_bound_of_all,
            Example(
                before="""g (float[N,2,3] x) => (float y) <int64[1] s = {-1}> {
                    a = Reshape(x, s)
                    y = ReduceMax<keepdims=0>(a)
                }""",
                after="g (float[N,2,3] x) => (float y) { y = ReduceMax<keepdims=0>(x) }",
                sentences=(
                    "ReduceMax 'ReduceMax_y' reduces all of 'x', whatever the shape that Reshape 'Reshape_a' gives it",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2,3] x) => (float[1] y) <int64[1] s = {-1}> { a = Reshape(x, s)  y = ReduceMax(a) }",
                    "ReduceMax 'ReduceMax_y' of 'x' is not known to give as many axes",
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
            exactness=Exactness.BITS,
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
                    "ReduceSum 'ReduceSum_y' reduces all of 'x', whatever the shape that Reshape 'Reshape_a' gives it",
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

    own_examples = (
        Example(
            title="A sum of all elements, of a Transpose, with axes that are kept",
            before="""g (float[2,3] x) => (float[1,1] y) {
                t = Transpose(x)
                y = ReduceSum(t)
            }""",
            after="g (float[2,3] x) => (float[1,1] y) <int64[2] y_axes = {0, 1}> { y = ReduceSum(x, y_axes) }",
            sentences=("ReduceSum 'ReduceSum_y' reduces axes [0, 1] of 'x' directly; 6 elements no longer moved",),
        ),
    )
