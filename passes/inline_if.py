"""An If whose condition is known is the branch that it takes."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.rewrite import Exactness, Example, Found, Pass, Refusal, Rule
from workbench.rewrite.guards import numbers
from workbench.rewrite.inlining import inlined


def match_known_condition(graph: Graph, node: Node, options: Pass) -> Found:
    taken = "then_branch" if numbers(graph, node.inputs[0], node).all() else "else_branch"
    body = node.attributes[taken]
    word = "true" if taken == "then_branch" else "false"
    sentence = f"the condition of {node} is always {word}; its {len(body):,} nodes of {taken} take its place"
    return Found(inlined(graph, node, body, {}), sentence, (node.name,))


@dataclass(frozen=True)
class InlineIf(Pass):
    """One case: the condition is a constant, and the branch that it chooses stands in the place of the If.

    Values and nodes of the branch keep their names where these are free outside.

    Must not act on a condition that is computed while the model runs.

    Source: ONNX's definition of If; onnxscript's optimizer does the same.
    """

    title = "Take the branch of an If that is known"

    rules = (
        Rule(
            "known condition",
            ("If",),
            match_known_condition,
            Example(
                before="""g (float[N] x) => (float[N] y) <bool c = {1}> {
                    a = Relu(x)
                    b = If(c) <
                        then_branch = t () => (float[N] r) { n = Neg(a)  r = Exp(n) },
                        else_branch = e () => (float[N] q) { q = Abs(a) }
                    >
                    y = Tanh(b)
                }""",
                after="""g (float[N] x) => (float[N] y) {
                    a = Relu(x)
                    n = Neg(a)
                    r = Exp(n)
                    y = Tanh(r)
                }""",
                sentences=("the condition of If 'If_b' is always true; its 2 nodes of then_branch take its place",),
            ),
            refusals=(
                Refusal(
                    """g (float[N] x, bool c) => (float[N] y) {
                        y = If(c) <
                            then_branch = t () => (float[N] r) { r = Exp(x) },
                            else_branch = e () => (float[N] q) { q = Abs(x) }
                        >
                    }""",
                    "'c', an operand of If 'If_y', is not a constant",
                ),
            ),
            exactness=Exactness.BITS,
        ),
    )
