"""Merge two changes of shape across the elementwise operators between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, TensorType, constant, constant_shape
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.reshapes import VIEWS, shape_operand
from workbench.rewrite.core.guards import is_same_shape, require_single_use

_ELEMENTWISE = (
    *("Abs", "Cast", "Ceil", "Clip", "Floor", "Neg", "Not", "Relu", "Round", "Sign", "Sqrt", "Reciprocal"),
    *("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"),
    *("Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Selu", "Sigmoid"),
    *("Softplus", "Softsign", "Swish", "Tanh", "Sin", "Cos"),
)
_MAX_NODES = 8  # nodes between two changes of shape


def _operand(graph: Graph, node: Node, rank: int) -> str:
    """The single non-constant operand.

    Raises NoMatch unless every other operand is a one-element constant of rank at most `rank`.
    """
    computed = [value for value in node.inputs if value and graph.constant(value) is None]
    if len(computed) != 1:
        raise NoMatch(f"{node} combines {len(computed)} computed values")
    for value in node.inputs:
        shape = constant_shape(graph.constants[value]) if value in graph.constants else ()
        if len(shape) > rank or any(size != 1 for size in shape):
            raise NoMatch(f"'{value}', an operand of {node}, has more than one element or more axes than the result")
    return computed[0]


def match_across(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    result = graph.shape(node.outputs[0])
    if result is None:
        raise NoMatch(f"the shape of '{node.outputs[0]}' of {node} is not known")
    chain: list[Node] = []
    below, value = node, node.inputs[0]
    while True:
        above = graph.producer(value)
        if above is None or len(chain) > _MAX_NODES or above.op not in (*VIEWS, *_ELEMENTWISE):
            raise NoMatch(f"{node} does not follow a change of shape and elementwise operators")
        require_single_use(graph, below, above)
        if above.op in VIEWS:
            break
        chain.insert(0, above)
        below, value = above, _operand(graph, above, len(result))
    if not chain:
        raise NoMatch(f"{node} follows {above} directly")
    source = above.inputs[0]
    same = is_same_shape(graph.shape(source), result)
    dims = () if same else shape_operand(graph.shape(source), result)
    if dims is None:
        raise NoMatch(f"the shape of '{node.outputs[0]}' cannot be written as a constant operand of Reshape")
    return _merged(graph, above, chain, node, None if same else dims)


def _merged(graph: Graph, first: Node, chain: list[Node], node: Node, entries: tuple[int, ...] | None) -> Rewrite:
    """The elementwise operators on the operand of `first`.

    entries: the new shape of a Reshape inserted before them, or None to insert no Reshape.
    """
    result, new_names = graph.shape(node.outputs[0]), list[str]()
    inserted, types, constants = list[Node](), dict[str, TensorType | None](), dict[str, Constant]()

    def fresh(value: str, suffix: str) -> str:
        new_names.append(graph.fresh(f"{value}_{suffix}", new_names))
        return new_names[-1]

    def reshaped(value: str) -> str:
        name, type_ = fresh(value, "reshaped"), graph.tensor_type(value)
        types[name] = None if type_ is None else type_.with_shape(result)
        return name

    value = first.inputs[0]
    if entries is not None:
        shape = fresh(node.outputs[0], "shape")
        constants[shape] = constant(np.array(entries, np.int64), shape)
        name = reshaped(first.outputs[0])
        inserted.append(node.replace(op_type="Reshape", inputs=(value, shape), outputs=(name,), attributes={}))
        value = name
    read = first.outputs[0]
    for operator in chain:
        name = node.outputs[0] if operator is chain[-1] else reshaped(operator.outputs[0])
        inserted.append(
            operator.replace(inputs=tuple(value if v == read else v for v in operator.inputs), outputs=(name,))
        )
        read, value = operator.outputs[0], name
    removed = (first.name, *(operator.name for operator in chain), node.name)
    edit = Edit(remove=removed, insert=tuple(inserted), constants=constants, types=types)
    verb = "cancel" if entries is None else f"become one Reshape to {list(entries)}"
    nodes = f"{len(chain)} elementwise node{'s' if len(chain) > 1 else ''}"
    return Rewrite(edit, f"{first} and {node} {verb} across {nodes}", removed)


@dataclass(frozen=True)
class PushReshapes(Pass):
    """One case: two of Reshape, Flatten, Squeeze and Unsqueeze with elementwise operators between them become one
    Reshape before these, or no Reshape at all if the final shape equals the original one.

    Does not apply:

    - if another node reads an intermediate value;
    - if an elementwise operator combines two computed values or has a constant with axes;
    - if the final shape cannot be written as a constant.

    Source: an elementwise function does not depend on the shape; the order of the elements in memory stays, so that
    vectorized functions round each element as before.
    """

    title = "Merge reshapes across elementwise operators"

    rules = (
        Rule(
            "across",
            VIEWS,
            match_across,
            Example(
                before="""g (float[N,3,4] x) => (float[N,12] y)
                    <int64[3] s = {0, 4, 3}, float[1] h = {0.5}, int64[2] t = {0, 12}> {
                    a = Reshape(x, s)
                    b = Tanh(a)
                    c = Sub(h, b)
                    y = Reshape(c, t)
                }""",
                after="""g (float[N,3,4] x) => (float[N,12] y) <float[1] h = {0.5}, int64[2] y_shape = {-1, 12}> {
                    a_reshaped = Reshape(x, y_shape)
                    b_reshaped = Tanh(a_reshaped)
                    y = Sub(h, b_reshaped)
                }""",
                sentences=(
                    "Reshape 'Reshape_a' and Reshape 'Reshape_y' become one Reshape to [-1, 12] across 2 elementwise "
                    "nodes",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2,3] x, float[6] z) => (float[2,3] y) <int64[1] s = {6}, int64[2] t = {2, 3}>"
                    " { a = Reshape(x, s)  b = Add(a, z)  y = Reshape(b, t) }",
                    "Add 'Add_b' combines 2 computed values",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y) <float[3] c = {1, 2, 3}, int64[1] i = {0}>"
                    " { a = Unsqueeze(x, i)  b = Add(a, c)  y = Squeeze(b, i) }",
                    "'c', an operand of Add 'Add_b', has more than one element or more axes than the result",
                ),
                Refusal(
                    "g (float[1] x) => (float y) <float[1,1] c = {2}, int64[1] i = {0}, int64[2] j = {0, 1}>"
                    " { a = Unsqueeze(x, i)  b = Add(a, c)  y = Squeeze(b, j) }",
                    "'c', an operand of Add 'Add_b', has more than one element or more axes than the result",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y, float[6] b) <int64[1] s = {6}, int64[2] t = {2, 3}>"
                    " { a = Reshape(x, s)  b = Relu(a)  y = Reshape(b, t) }",
                    "'b' of Relu 'Relu_b' is an output of the graph",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y) <int64[1] s = {6}, int64[2] t = {2, 3}>"
                    " { a = Reshape(x, s)  y = Reshape(a, t) }",
                    "Reshape 'Reshape_y' follows Reshape 'Reshape_a' directly",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y) <int64[1] s = {6}, int64[2] t = {2, 3}>"
                    " { a = Reshape(x, s)  b = Softmax(a)  y = Reshape(b, t) }",
                    "Reshape 'Reshape_y' does not follow a change of shape and elementwise operators",
                ),
                Refusal(
                    "g (float[2,3] x, int64[2] t) => (float[A,B] y) <int64[1] s = {6}>"
                    " { a = Reshape(x, s)  b = Relu(a)  y = Reshape(b, t) }",
                    "the shape of 'y' cannot be written as a constant operand of Reshape",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )

    extra_examples = (
        Example(
            title="The final shape equals the original shape",
            before="""g (float[N,2,3] x) => (float[N,2,3] y) <int64[1] i = {0}> {
                a = Unsqueeze(x, i)
                b = Relu(a)
                y = Squeeze(b, i)
            }""",
            after="g (float[N,2,3] x) => (float[N,2,3] y) { y = Relu(x) }",
            sentences=("Unsqueeze 'Unsqueeze_a' and Squeeze 'Squeeze_y' cancel across 1 elementwise node",),
        ),
    )
