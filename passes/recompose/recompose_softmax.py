"""Recompose Softmax from the exponentials and the sum that exporters write for it."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import is_float32, recomposed

_SHIFTED = """
    e = Exp(Sub(x, ReduceMax(x, axes=axes)))
    y = Div(e, ReduceSum(e, axes=axes))
"""
_PLAIN = """
    e = Exp(x)
    y = Div(e, ReduceSum(e, axes=axes))
"""


def axis_of_sum(match: Match) -> int:
    """The only axis of the sum, counted from the end."""
    axes, rank = match.data["axes"], match.graph.rank_of(match["x"]) or 0
    if len(axes) != 1:
        raise NoMatch(f"{match.root} divides by a sum over {len(axes)} axes, and Softmax has one")
    return int(axes[0]) - rank


@dataclass(frozen=True)
class RecomposeSoftmax(Pass):
    """Two cases, along one axis of x of float32:

    - exp(x - max(x)) / sum(exp(x - max(x))) becomes Softmax;
    - exp(x) / sum(exp(x)) becomes Softmax, in mode "fast" only, since exp(x) may overflow, and Softmax does not.

    Does not apply:

    - if the maximum and the sum are along different axes or along more than one;
    - if they drop their axis;
    - if anything else reads an intermediate value.

    Source: ONNX's definition of Softmax.
    """

    title = "Recompose Softmax"

    rules = (
        graph_rule(
            "maximum taken off",
            _SHIFTED,
            "y = Softmax(x, axis=axis)",
            recomposed("x"),
            Example(
                before="""g (float[N,3] x) => (float[N,3] y) <int64[1] axes = {-1}> {
                    m = ReduceMax(x, axes)
                    d = Sub(x, m)
                    e = Exp(d)
                    s = ReduceSum(e, axes)
                    y = Div(e, s)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) { y = Softmax<axis=-1>(x) }",
                sentences=(
                    "5 nodes, from ReduceMax 'ReduceMax_m' to Div 'Div_y', compute Softmax of 'x'; 4 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y) <int64[1] a = {1}> { e = Exp(x)  s = ReduceSum(e, a)"
                    "  y = Div(e, s) }",
                    "Exp 'Exp_e' does not follow a Sub",
                ),
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y) <int64[1] a = {1}, int64[1] b = {0}> {
                        m = ReduceMax(x, b)  d = Sub(x, m)  e = Exp(d)  s = ReduceSum(e, a)  y = Div(e, s)
                    }""",
                    "ReduceSum 'ReduceSum_s' has axes=[1], not [0]",
                ),
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y) <int64[2] a = {0, 1}> {
                        m = ReduceMax(x, a)  d = Sub(x, m)  e = Exp(d)  s = ReduceSum(e, a)  y = Div(e, s)
                    }""",
                    "Div 'Div_y' divides by a sum over 2 axes, and Softmax has one",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y) <int64[1] a = {1}> { s = ReduceSum(x, a)  y = Div(x, s) }",
                    "Div 'Div_y' does not follow an Exp",
                ),
            ),
            where=(is_float32("x"),),
            computed={"axis": axis_of_sum},
            exactness=Exactness.ROUNDING,
            law="exp(x - z) / (exp(x - z) + exp(y - z)) == exp(x) / (exp(x) + exp(y))",
        ),
        graph_rule(
            "plain",
            _PLAIN,
            "y = Softmax(x, axis=axis)",
            recomposed("x"),
            Example(
                before="""g (float[N,3,2] x) => (float[N,3,2] y) <int64[1] axes = {1}> {
                    e = Exp(x)
                    s = ReduceSum(e, axes)
                    y = Div(e, s)
                }""",
                after="g (float[N,3,2] x) => (float[N,3,2] y) { y = Softmax<axis=-2>(x) }",
                sentences=("3 nodes, from Exp 'Exp_e' to Div 'Div_y', compute Softmax of 'x'; 2 nodes fewer",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,3,2] x) => (float[N,3,2] y) <int64[2] axes = {1, 2}>"
                    " { e = Exp(x)  s = ReduceSum(e, axes)  y = Div(e, s) }",
                    "Div 'Div_y' divides by a sum over 2 axes, and Softmax has one",
                ),
                Refusal(
                    "g (float[N,3,2] x, float[N,3,2] z) => (float[N,3,2] y) <int64[1] axes = {1}>"
                    " { e = Exp(x)  s = ReduceSum(e, axes)  y = Div(z, s) }",
                    "Div 'Div_y' does not follow an Exp",
                ),
            ),
            where=(is_float32("x"),),
            computed={"axis": axis_of_sum},
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 100}, nan, 1 / 3, "Exp overflows"),
            law="softmax(x) == exp(x) / sum(exp(x))",
        ),
    )
