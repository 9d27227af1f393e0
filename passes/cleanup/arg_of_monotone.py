"""Take ArgMax and ArgMin before a monotonic function."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import require_floating, require_producer

_INCREASING = ("Exp", "Log", "Sqrt", "Sigmoid", "Tanh", "Erf", "Softplus", "Softsign", "Atan", "Sinh")
_INCREASING_ALONG_AN_AXIS = ("Softmax", "LogSoftmax")


def match_arg(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    function = require_producer(graph, node.inputs[0], (*_INCREASING, *_INCREASING_ALONG_AN_AXIS), node)
    require_floating(graph, node.inputs[0], node)
    rank = graph.rank_of(node.inputs[0])
    has_axis = function.op in _INCREASING_ALONG_AN_AXIS
    if has_axis and (not rank or (function.attr("axis") - node.attr("axis")) % rank):
        raise NoMatch(f"{function} and {node} are not known to be along the same axis")
    edit = Edit(remove=(node.name,), insert=(node.replace(inputs=function.inputs),))
    sentence = f"{node} finds the same index before {function}, which preserves order"
    return Rewrite(edit, sentence, (function.name, node.name))


@dataclass(frozen=True)
class ArgOfMonotone(Pass):
    """ArgMax and ArgMin of a strictly increasing function, or of a Softmax along the same axis, are those of its
    operand. The function stays for other readers, and is dead without them.

    In mode "fast" only: the function may round different numbers to the same one, as Sigmoid does from 17 on. The
    result was then the index of the first of them. Now it is that of the largest, for ArgMin of the smallest.

    Does not apply to a Softmax along another axis.

    Source: a strictly increasing function preserves the order of numbers.
    """

    title = "Take ArgMax before a monotonic function"

    rules = (
        Rule(
            "argument of rising",
            ("ArgMax", "ArgMin"),
            match_arg,
            Example(
                before="g (float[N,3] x) => (int64[N,1] y) { p = Softmax<axis=-1>(x)  y = ArgMax<axis=1>(p) }",
                after="g (float[N,3] x) => (int64[N,1] y) { p = Softmax<axis=-1>(x)  y = ArgMax<axis=1>(x) }",
                sentences=("ArgMax 'ArgMax_y' finds the same index before Softmax 'Softmax_p', which preserves order",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[2,3] x) => (int64[1,3] y) { p = Softmax<axis=-1>(x)  y = ArgMax<axis=0>(p) }",
                    "Softmax 'Softmax_p' and ArgMax 'ArgMax_y' are not known to be along the same axis",
                ),
                Refusal(
                    "g (float[2,3] x) => (int64[1,3] y) { p = Abs(x)  y = ArgMax<axis=0>(p) }",
                    "ArgMax 'ArgMax_y' does not follow an Exp, Log, Sqrt, Sigmoid, Tanh, Erf, Softplus, Softsign, "
                    "Atan, Sinh, Softmax or LogSoftmax",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": [0, 1e-9, 0]}, 0, 1, "Softmax rounds all three to the same number, and ArgMax takes the first"
            ),
        ),
    )
