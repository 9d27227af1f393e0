"""Slice and gather before elementwise operators, not after them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node, TensorType
from workbench.ir.types import Dim, Shape
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import is_same_shape, require_constant, require_single_use

# Each element of the result is the same to the last bit, however many elements the tensor has.
_BIT_EXACT_ELEMENTWISE = (
    *("Abs", "Cast", "Ceil", "Clip", "Floor", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sign", "Sqrt"),
    *("Add", "Sub", "Mul", "Div", "And", "Or", "Xor"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Where"),
)
# Vectorized: ONNX Runtime computes the last few elements of a tensor by another path, which rounds differently.
_VECTORIZED_ELEMENTWISE = (
    *("Cos", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Pow", "Selu"),
    *("Sigmoid", "Sin", "Softplus", "Softsign", "Tanh"),
)
_AXES_OF_SLICE = 3  # index of the operand


def _elementwise_before(graph: Graph, node: Node, operators: tuple[str, ...]) -> Node:
    operator = graph.producer(node.inputs[0])
    if operator is None or operator.op not in (*_BIT_EXACT_ELEMENTWISE, *_VECTORIZED_ELEMENTWISE):
        raise NoMatch(f"{node} does not follow an elementwise operator")
    if operator.op not in operators:
        depends = "may depend" if operator.op in _VECTORIZED_ELEMENTWISE else "does not depend"
        raise NoMatch(f"another rule handles {operator}, since its rounding {depends} on the number of elements")
    return operator


def _known_shape(graph: Graph, value: str, node: Node) -> tuple[Dim, ...]:
    shape = graph.shape(value)
    if not shape or None in shape:
        raise NoMatch(f"the shape of '{value}' of {node} is not known")
    return shape


def _is_unaffected(shape: Shape, rank: int, axes: frozenset[int], same_rank: bool) -> bool:
    """Whether an operand of this shape needs no slicing: it lacks each selected axis, or has size 1 along it.

    same_rank: whether the selection keeps the number of axes.
    """
    if shape is None:
        return False
    selected_axes = [axis - (rank - len(shape)) for axis in axes if axis >= rank - len(shape)]
    return not selected_axes or (same_rank and all(shape[axis] == 1 for axis in selected_axes))


def _select_before_operator(
    graph: Graph, node: Node, operator: Node, axes: frozenset[int], same_rank: bool, remaining: str
) -> Rewrite:
    """The rewrite in which `node` selects from the only operand of `operator` that has the axes.

    remaining: the elements that `operator` still computes, as text.
    """
    require_single_use(graph, node, operator)
    shape = _known_shape(graph, operator.outputs[0], operator)
    operands = [value for value in operator.inputs if value]
    affected = {value for value in operands if not _is_unaffected(graph.shape(value), len(shape), axes, same_rank)}
    if len(affected) != 1:
        raise NoMatch(f"{node} would have to slice several operands of {operator}, or none")
    source = affected.pop()
    if not is_same_shape(graph.shape(source), shape):
        raise NoMatch(f"'{source}' and the result of {operator} are not known to have the same shape")
    selected = graph.fresh(f"{source}_picked")
    selection = node.replace(inputs=(source, *node.inputs[1:]), outputs=(selected,))
    smaller = operator.replace(
        inputs=tuple(selected if v == source else v for v in operator.inputs), outputs=node.outputs
    )
    source_type = graph.tensor_type(source)
    types = {} if source_type is None else {selected: TensorType(source_type.dtype, graph.shape(node.outputs[0]))}
    edit = Edit(remove=(operator.name, node.name), insert=(selection, smaller), types=types)
    sentence = f"{node} is moved before {operator}, which then computes {remaining}"
    return Rewrite(edit, sentence, (operator.name, node.name))


def match_slice_first(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return _slice_first(graph, node, _elementwise_before(graph, node, _BIT_EXACT_ELEMENTWISE))


def match_slice_of_vectorized(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return _slice_first(graph, node, _elementwise_before(graph, node, _VECTORIZED_ELEMENTWISE))


def match_gather(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return _gather_first(graph, node, _elementwise_before(graph, node, _BIT_EXACT_ELEMENTWISE))


def match_gather_of_vectorized(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return _gather_first(graph, node, _elementwise_before(graph, node, _VECTORIZED_ELEMENTWISE))


def _slice_first(graph: Graph, node: Node, operator: Node) -> Rewrite:
    shape = _known_shape(graph, node.inputs[0], operator)
    sliced = _known_shape(graph, node.outputs[0], node)
    shrunk = [
        (before, after)
        for before, after in zip(shape, sliced, strict=True)
        if isinstance(before, int) and isinstance(after, int) and after < before
    ]
    if not shrunk:
        raise NoMatch(f"{node} is not known to leave fewer elements than {operator} makes")
    if len(node.inputs) > _AXES_OF_SLICE and node.inputs[_AXES_OF_SLICE]:
        axes_constant = require_constant(graph, node.inputs[_AXES_OF_SLICE], node)
        axes = frozenset(int(axis) % len(shape) for axis in axes_constant)
    else:
        axes = frozenset(range(len(shape)))
    before, after = (math.prod(sizes) for sizes in zip(*shrunk, strict=True))
    return _select_before_operator(
        graph, node, operator, axes, True, f"{after:,} of {before:,} elements along the sliced axes"
    )


def _gather_first(graph: Graph, node: Node, operator: Node) -> Rewrite:
    shape = _known_shape(graph, node.inputs[0], operator)
    axis = node.attr("axis") % len(shape)
    indices = graph.tensor_type(node.inputs[1])
    count = None if indices is None else indices.elements
    dim = shape[axis]
    # A symbolic dim counts as 2: if it is 1 at runtime, the rewrite gains nothing, and is still correct.
    if count is None or count >= (dim if isinstance(dim, int) else 2):
        raise NoMatch(f"{node} is not known to leave fewer elements than {operator} makes")
    same_rank = indices is not None and indices.rank == 1
    return _select_before_operator(
        graph, node, operator, frozenset({axis}), same_rank, f"{count:,} of {dim} elements along axis {axis}"
    )


@dataclass(frozen=True)
class ShrinkFirst(Pass):
    """Two cases: a Slice or a Gather moves before the elementwise operator whose result it selects from. The operator
    then computes fewer elements. Operators that runtimes vectorize, such as Exp, have separate rules: the last elements
    of a tensor are rounded differently, so that the last bit may differ (seen in ONNX Runtime 1.31).

    Does not apply:

    - if the result is not known to have fewer elements;
    - if anything else reads the result of the operator;
    - if more than one operand, or an operand that broadcasts, would have to be sliced;
    - to a Slice whose axes are computed.

    Source: an elementwise operator commutes with any selection of elements; XLA and TVM move slices to the front.
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
                sentences=(
                    "Slice 'Slice_y' is moved before Mul 'Mul_w', which then computes 2 of 8 elements along the "
                    "sliced axes",
                ),
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
                    "Slice 'Slice_y' would have to slice several operands of Mul 'Mul_w', or none",
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
            exactness=Exactness.BIT_EXACT,
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
                sentences=(
                    "Gather 'Gather_y' is moved before Add 'Add_w', which then computes 1 of 5 elements along axis 1",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[5] x, int64[9] i) => (float[9] y) { w = Neg(x)  y = Gather(w, i) }",
                    "Gather 'Gather_y' is not known to leave fewer elements than Neg 'Neg_w' makes",
                ),
                Refusal(
                    "g (float[5] x) => (float y) <int64 i = {2}> { w = Exp(x)  y = Gather(w, i) }",
                    "another rule handles Exp 'Exp_w', since its rounding may depend on the number of elements",
                ),
                Refusal(
                    "g (float[N,5] x, float[N,1] z) => (float[N] y) <int64 i = {2}>"
                    " { w = Add(z, x)  y = Gather<axis=1>(w, i) }",
                    "Gather 'Gather_y' would have to slice several operands of Add 'Add_w', or none",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "slice of a vectorized operator",
            ("Slice",),
            match_slice_of_vectorized,
            Example(
                before="""g (float[4,8] x) => (float[4,2] y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {1}> {
                    w = Softplus(x)
                    y = Slice(w, s, e, a)
                }""",
                after="""g (float[4,8] x) => (float[4,2] y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {1}> {
                    x_picked = Slice(x, s, e, a)
                    y = Softplus(x_picked)
                }""",
                sentences=(
                    "Slice 'Slice_y' is moved before Softplus 'Softplus_w', which then computes 2 of 8 elements along "
                    "the "
                    "sliced axes",
                ),
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
            "gather of a vectorized operator",
            ("Gather",),
            match_gather_of_vectorized,
            Example(
                before="""g (float[N,5,3] x) => (float[N,3] y) <int64 i = {2}> {
                    w = Tanh(x)
                    y = Gather<axis=1>(w, i)
                }""",
                after="""g (float[N,5,3] x) => (float[N,3] y) <int64 i = {2}> {
                    x_picked = Gather<axis=1>(x, i)
                    y = Tanh(x_picked)
                }""",
                sentences=(
                    "Gather 'Gather_y' is moved before Tanh 'Tanh_w', which then computes 1 of 5 elements along axis 1",
                ),
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
