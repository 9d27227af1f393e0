"""Slice and gather before elementwise operators, not after them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node, TensorType
from workbench.ir.types import Dim, Shape
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import is_same_shape, require_constant, require_single_use

# One correct result for each element, whatever its neighbours are.
_DETERMINED = (
    *("Abs", "Cast", "Ceil", "Clip", "Floor", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sign", "Sqrt"),
    *("Add", "Sub", "Mul", "Div", "And", "Or", "Xor"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Where"),
)
# Vectorized: ONNX Runtime computes the last few elements of a tensor by another path, which rounds differently.
_APPROXIMATED = (
    *("Cos", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Pow", "Selu"),
    *("Sigmoid", "Sin", "Softplus", "Softsign", "Tanh"),
)
_AXES_OF_SLICE = 3  # the operand


def _work_before(graph: Graph, node: Node, operators: tuple[str, ...]) -> Node:
    work = graph.producer(node.inputs[0])
    if work is None or work.op not in (*_DETERMINED, *_APPROXIMATED):
        raise NoMatch(f"{node} does not follow an elementwise operator")
    if work.op not in operators:
        depends = "may depend" if work.op in _APPROXIMATED else "does not depend"
        raise NoMatch(f"the rounding of {work} {depends} on the number of elements; another rule covers it")
    return work


def _known_shape(graph: Graph, value: str, node: Node) -> tuple[Dim, ...]:
    shape = graph.shape(value)
    if not shape or None in shape:
        raise NoMatch(f"the shape of '{value}' of {node} is not known")
    return shape


def _untouched(shape: Shape, rank: int, axes: frozenset[int], same_rank: bool) -> bool:
    """Whether an operand of this shape is broadcast along every axis that is cut, before and after."""
    if shape is None:
        return False
    reached = [axis - (rank - len(shape)) for axis in axes if axis >= rank - len(shape)]
    return not reached or (same_rank and all(shape[axis] == 1 for axis in reached))


def _moved(graph: Graph, node: Node, work: Node, axes: frozenset[int], same_rank: bool, gain: str) -> Rewrite:
    """The rewrite in which `node` picks from the one operand of `work` that has the axes."""
    require_single_use(graph, node, work)
    shape = _known_shape(graph, work.outputs[0], work)
    operands = [value for value in work.inputs if value]
    whole = {value for value in operands if not _untouched(graph.shape(value), len(shape), axes, same_rank)}
    if len(whole) != 1:
        raise NoMatch(f"not exactly one operand of {work} has the axes that {node} picks from")
    source = whole.pop()
    if not is_same_shape(graph.shape(source), shape):
        raise NoMatch(f"'{source}' and the result of {work} are not known to have the same shape")
    picked = graph.fresh(f"{source}_picked")
    cut = node.replace(inputs=(source, *node.inputs[1:]), outputs=(picked,))
    less = work.replace(inputs=tuple(picked if v == source else v for v in work.inputs), outputs=node.outputs)
    whole_type = graph.tensor_type(source)
    types = {} if whole_type is None else {picked: TensorType(whole_type.dtype, graph.shape(node.outputs[0]))}
    edit = Edit(remove=(work.name, node.name), insert=(cut, less), types=types)
    return Rewrite(edit, f"{node} picks before {work}, which then computes {gain}", (work.name, node.name))


def match_slice_first(graph: Graph, node: Node, options: Pass) -> Rewrite:
    return _slice_first(graph, node, _work_before(graph, node, _DETERMINED))


def match_slice_of_function(graph: Graph, node: Node, options: Pass) -> Rewrite:
    return _slice_first(graph, node, _work_before(graph, node, _APPROXIMATED))


def match_gather(graph: Graph, node: Node, options: Pass) -> Rewrite:
    return _gather_first(graph, node, _work_before(graph, node, _DETERMINED))


def match_gather_of_function(graph: Graph, node: Node, options: Pass) -> Rewrite:
    return _gather_first(graph, node, _work_before(graph, node, _APPROXIMATED))


def _slice_first(graph: Graph, node: Node, work: Node) -> Rewrite:
    shape = _known_shape(graph, node.inputs[0], work)
    left = _known_shape(graph, node.outputs[0], node)
    less = [
        (before, after)
        for before, after in zip(shape, left, strict=True)
        if isinstance(before, int) and isinstance(after, int) and after < before
    ]
    if not less:
        raise NoMatch(f"{node} is not known to leave fewer elements than {work} makes")
    if len(node.inputs) > _AXES_OF_SLICE and node.inputs[_AXES_OF_SLICE]:
        named = require_constant(graph, node.inputs[_AXES_OF_SLICE], node)
        axes = frozenset(int(axis) % len(shape) for axis in named)
    else:
        axes = frozenset(range(len(shape)))
    before, after = (math.prod(sizes) for sizes in zip(*less, strict=True))
    return _moved(graph, node, work, axes, True, f"{after:,} of {before:,} parts")


def _gather_first(graph: Graph, node: Node, work: Node) -> Rewrite:
    shape = _known_shape(graph, node.inputs[0], work)
    axis = node.attr("axis") % len(shape)
    indices = graph.tensor_type(node.inputs[1])
    count = None if indices is None else indices.elements
    dim = shape[axis]
    if count is None or count >= (dim if isinstance(dim, int) else 2):
        raise NoMatch(f"{node} is not known to leave fewer elements than {work} makes")
    same_rank = indices is not None and indices.rank == 1
    return _moved(graph, node, work, frozenset({axis}), same_rank, f"{count:,} of {dim} parts")


@dataclass(frozen=True)
class ShrinkFirst(Pass):
    """Two cases: a Slice or a Gather of the result of an elementwise operator picks from its operand instead, so that
    the operator computes only what is left. Functions such as Exp have separate rules: runtimes vectorize them and
    round the last elements of a tensor differently, so that the last bit may differ (seen in ONNX Runtime 1.31).

    Must not act if it is not known to leave fewer elements, if anything else reads the result of the operator, if two
    operands would have to be picked from, or one that is broadcast, nor on a Slice whose axes are computed.

    Source: an elementwise function commutes with any selection of elements; XLA and TVM move slices to the front.
    """

    title = "Slice and gather first"

    rules = (
        Rule(
            "slice",
            ("Slice",),
            match_slice_first,
            Example(
                before="""g (float[N,8] x, float[N,1] z) => (float[N,2] y)
                    <int64[1] s = {1}, int64[1] e = {3}, int64[1] a = {1}> {
                    w = Mul(x, z)
                    y = Slice(w, s, e, a)
                }""",
                after="""g (float[N,8] x, float[N,1] z) => (float[N,2] y)
                    <int64[1] s = {1}, int64[1] e = {3}, int64[1] a = {1}> {
                    x_picked = Slice(x, s, e, a)
                    y = Mul(x_picked, z)
                }""",
                sentences=("Slice 'Slice_y' picks before Mul 'Mul_w', which then computes 2 of 8 parts",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,8] x) => (float[N,8] y) <int64[1] s = {0}, int64[1] e = {9}, int64[1] a = {1}>"
                    " { w = Neg(x)  y = Slice(w, s, e, a) }",
                    "Slice 'Slice_y' is not known to leave fewer elements than Neg 'Neg_w' makes",
                ),
                Refusal(
                    "g (float[N,8] x, float[N,8] z) => (float[N,2] y)"
                    " <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {1}> { w = Mul(x, z)  y = Slice(w, s, e, a) }",
                    "not exactly one operand of Mul 'Mul_w' has the axes that Slice 'Slice_y' picks from",
                ),
                Refusal(
                    "g (float[1,8] x, float[4,1] z) => (float[4,2] y)"
                    " <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {1}> { w = Mul(x, z)  y = Slice(w, s, e, a) }",
                    "'x' and the result of Mul 'Mul_w' are not known to have the same shape",
                ),
                Refusal(
                    "g (float[4,8] x) => (float[4,2] y, float[4,8] w)"
                    " <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {1}> { w = Neg(x)  y = Slice(w, s, e, a) }",
                    "'w' of Neg 'Neg_w' is an output of the graph",
                ),
                Refusal(
                    "g (float[4,8] x, int64[1] s) => (float[4,M] y)"
                    " <int64[1] e = {2}, int64[1] a = {1}> { w = Neg(x)  y = Slice(w, s, e, a) }",
                    "Slice 'Slice_y' is not known to leave fewer elements than Neg 'Neg_w' makes",
                ),
                Refusal(
                    "g (float[4,8] x) => (float[4,2] y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {1}>"
                    " { y = Slice(x, s, e, a) }",
                    "Slice 'Slice_y' does not follow an elementwise operator",
                ),
                Refusal(
                    "g (int64[1] x) => (int64[0] y) <int64[1] e = {0}> { w = Neg(x)  y = Slice(w, w, e) }",
                    "Slice 'Slice_y' reads 'w' of Neg 'Neg_w' twice",
                ),
                Refusal(
                    "g (float x_) => (float[2] y) <int64[1] s = {0}, int64[1] e = {2}>"
                    " { u = Unknown(x_)  w = Neg(u)  y = Slice(w, s, e) }",
                    "the shape of 'w' of Neg 'Neg_w' is not known",
                ),
            ),
            exactness=Exactness.BITS,
        ),
        Rule(
            "gather",
            ("Gather",),
            match_gather,
            Example(
                before="""g (float[N,5,3] x, float[3] z) => (float[N,3] y) <int64 i = {2}> {
                    w = Add(z, x)
                    y = Gather<axis=1>(w, i)
                }""",
                after="""g (float[N,5,3] x, float[3] z) => (float[N,3] y) <int64 i = {2}> {
                    x_picked = Gather<axis=1>(x, i)
                    y = Add(z, x_picked)
                }""",
                sentences=("Gather 'Gather_y' picks before Add 'Add_w', which then computes 1 of 5 parts",),
            ),
            refusals=(
                Refusal(
                    "g (float[5] x, int64[9] i) => (float[9] y) { w = Neg(x)  y = Gather(w, i) }",
                    "Gather 'Gather_y' is not known to leave fewer elements than Neg 'Neg_w' makes",
                ),
                Refusal(
                    "g (float[5] x) => (float y) <int64 i = {2}> { w = Exp(x)  y = Gather(w, i) }",
                    "the rounding of Exp 'Exp_w' may depend on the number of elements; another rule covers it",
                ),
                Refusal(
                    "g (float[N,5] x, float[N,1] z) => (float[N] y) <int64 i = {2}>"
                    " { w = Add(z, x)  y = Gather<axis=1>(w, i) }",
                    "not exactly one operand of Add 'Add_w' has the axes that Gather 'Gather_y' picks from",
                ),
            ),
            exactness=Exactness.BITS,
        ),
        Rule(
            "slice of a function",
            ("Slice",),
            match_slice_of_function,
            Example(
                before="""g (float[4,8] x) => (float[4,2] y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {1}> {
                    w = Softplus(x)
                    y = Slice(w, s, e, a)
                }""",
                after="""g (float[4,8] x) => (float[4,2] y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {1}> {
                    x_picked = Slice(x, s, e, a)
                    y = Softplus(x_picked)
                }""",
                sentences=("Slice 'Slice_y' picks before Softplus 'Softplus_w', which then computes 2 of 8 parts",),
            ),
            refusals=(
                Refusal(
                    "g (float[4,8] x) => (float[4,8] y) <int64[1] s = {0}, int64[1] e = {9}, int64[1] a = {1}>"
                    " { w = Exp(x)  y = Slice(w, s, e, a) }",
                    "Slice 'Slice_y' is not known to leave fewer elements than Exp 'Exp_w' makes",
                ),
            ),
            exactness=Exactness.ROUNDING,
        ),
        Rule(
            "gather of a function",
            ("Gather",),
            match_gather_of_function,
            Example(
                before="""g (float[N,5,3] x) => (float[N,3] y) <int64 i = {2}> {
                    w = Tanh(x)
                    y = Gather<axis=1>(w, i)
                }""",
                after="""g (float[N,5,3] x) => (float[N,3] y) <int64 i = {2}> {
                    x_picked = Gather<axis=1>(x, i)
                    y = Tanh(x_picked)
                }""",
                sentences=("Gather 'Gather_y' picks before Tanh 'Tanh_w', which then computes 1 of 5 parts",),
            ),
            refusals=(
                Refusal(
                    "g (float[5] x, int64[9] i) => (float[9] y) { w = Exp(x)  y = Gather(w, i) }",
                    "Gather 'Gather_y' is not known to leave fewer elements than Exp 'Exp_w' makes",
                ),
            ),
            exactness=Exactness.ROUNDING,
        ),
    )
