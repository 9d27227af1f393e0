"""Merge two changes of shape across the elementwise operators between them."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.rewrite import Exactness, Example, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.across_views import merged_across
from workbench.rewrite.analyses.reshapes import VIEWS


def match_across(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return merged_across(graph, node)


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
