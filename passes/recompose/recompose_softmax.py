"""Softmax from the exponentials and the sum that exporters write for it."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.patterns import producer_of, recomposed, reduced

OPSET = 13  # before, Softmax took all axes from its own on as one


def _exponentials(graph: Graph, node: Node) -> tuple[Node, int]:
    """The Exp that is divided by its sum, and the one axis of the sum."""
    exp = producer_of(graph, node.inputs[0], "Exp")
    summed, axes = reduced(graph, node.inputs[1], "ReduceSum")
    if exp is None or summed != exp.outputs[0]:
        raise NoMatch(f"{node} does not divide exponentials by their sum")
    if len(axes) != 1:
        raise NoMatch(f"{node} divides by a sum over {len(axes)} axes, and Softmax has one")
    return exp, axes[0]


def _softmax(graph: Graph, node: Node, x: str, axis: int) -> Rewrite:
    return recomposed(graph, node, (x,), "Softmax", OPSET, {"axis": axis - (graph.rank_of(x) or 0)})


def match_shifted(graph: Graph, node: Node, options: Pass) -> Rewrite:
    exp, axis = _exponentials(graph, node)
    shifted = producer_of(graph, exp.inputs[0], "Sub")
    if shifted is None or reduced(graph, shifted.inputs[1], "ReduceMax") != (shifted.inputs[0], (axis,)):
        raise NoMatch(f"the maximum along axis {axis} is not taken off what {exp} is of, so large numbers overflow")
    return _softmax(graph, node, shifted.inputs[0], axis)


def match_plain(graph: Graph, node: Node, options: Pass) -> Rewrite:
    exp, axis = _exponentials(graph, node)
    return _softmax(graph, node, exp.inputs[0], axis)


@dataclass(frozen=True)
class RecomposeSoftmax(Pass):
    """Two cases, along one axis of an x of float32:

    - exp(x - max(x)) / sum(exp(x - max(x))) is Softmax;
    - exp(x) / sum(exp(x)) is it but where exponentials overflow: Softmax gives numbers there.

    Must not act where the maximum and the sum are along other axes, along more axes than one, where they drop their
    axis, nor where anything else reads a value in between.

    Source: ONNX's definition of Softmax.
    """

    title = "Recompose Softmax"

    rules = (
        Rule(
            "maximum taken off",
            ("Div",),
            match_shifted,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y) <int64[1] axes = {-1}> {
                    m = ReduceMax(x, axes)
                    d = Sub(x, m)
                    e = Exp(d)
                    s = ReduceSum(e, axes)
                    y = Div(e, s)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) { y = Softmax<axis=-1>(x) }",
                sentences=("ReduceMax 'ReduceMax_m' to Div 'Div_y', 5 nodes, compute Softmax of 'x'; 4 less",),
            ),
            refusals=(
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y) <int64[1] a = {1}> { e = Exp(x)  s = ReduceSum(e, a)"
                    "  y = Div(e, s) }",
                    "the maximum along axis 1 is not taken off what Exp 'Exp_e' is of, so large numbers overflow",
                ),
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y) <int64[1] a = {1}, int64[1] b = {0}> {
                        m = ReduceMax(x, b)  d = Sub(x, m)  e = Exp(d)  s = ReduceSum(e, a)  y = Div(e, s)
                    }""",
                    "the maximum along axis 1 is not taken off what Exp 'Exp_e' is of, so large numbers overflow",
                ),
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y) <int64[2] a = {0, 1}> {
                        m = ReduceMax(x, a)  d = Sub(x, m)  e = Exp(d)  s = ReduceSum(e, a)  y = Div(e, s)
                    }""",
                    "Div 'Div_y' divides by a sum over 2 axes, and Softmax has one",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y) <int64[1] a = {1}> { s = ReduceSum(x, a)  y = Div(x, s) }",
                    "Div 'Div_y' does not divide exponentials by their sum",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="exp(x - z) / (exp(x - z) + exp(y - z)) == exp(x) / (exp(x) + exp(y))",
        ),
        Rule(
            "plain",
            ("Div",),
            match_plain,
            Example(
                before="""g (float[N,3,2] x) => (float[N,3,2] y) <int64[1] axes = {1}> {
                    e = Exp(x)
                    s = ReduceSum(e, axes)
                    y = Div(e, s)
                }""",
                after="g (float[N,3,2] x) => (float[N,3,2] y) { y = Softmax<axis=-2>(x) }",
                sentences=("Exp 'Exp_e' to Div 'Div_y', 3 nodes, compute Softmax of 'x'; 2 less",),
                mode="fast",
            ),
            exactness=Exactness.SIGNS,
            law="softmax(x) == exp(x) / sum(exp(x))",
        ),
    )
