"""Remove Dropout, which does nothing when a network is used."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.guards import forward_operand


def match_dropout(graph: Graph, node: Node, options: Pass) -> Rewrite:
    ratio, training = (*node.inputs[1:], "", "")[:2]
    mode, share = graph.constant(training), graph.constant(ratio)
    drops = training and (mode is None or mode.numpy().any())
    if drops and (share is None or share.numpy().any()):
        raise NoMatch(f"{node} is told to drop values, or may be, by '{training}'")
    mask = node.outputs[1] if len(node.outputs) > 1 else ""
    if mask and (graph.users(mask) or graph.is_output(mask)):
        raise NoMatch(f"the mask '{mask}' of {node} is read")
    return forward_operand(graph, node, node.inputs[0], f"{node} passes '{node.inputs[0]}' on as it is; removed")


@dataclass(frozen=True)
class DropDropout(Pass):
    """A Dropout that is not told to train, or to drop none, gives what it is given.

    Must not act where training_mode is true or comes while the model runs and the ratio is not 0, nor where the mask is
    read.

    Source: ONNX's definition of Dropout; TVM's SimplifyInference.
    """

    title = "Remove dropout"

    own_examples = (
        Example(
            title="A rate of 0",
            before="g (float[2] x, bool t) => (float[2] y) <float r = {0}> { a = Dropout(x, r, t)  y = Neg(a) }",
            after="g (float[2] x, bool t) => (float[2] y) { y = Neg(x) }",
            sentences=("Dropout 'Dropout_a' passes 'x' on as it is; removed",),
        ),
    )

    rules = (
        Rule(
            "dropout",
            ("Dropout",),
            match_dropout,
            Example(
                before="g (float[2] x) => (float[2] y) { a = Relu(x)  b = Dropout(a)  y = Neg(b) }",
                after="g (float[2] x) => (float[2] y) { a = Relu(x)  y = Neg(a) }",
                sentences=("Dropout 'Dropout_b' passes 'a' on as it is; removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x) => (float[2] y) <float r = {0.5}, bool t = {1}>"
                    " { a = Dropout(x, r, t)  y = Neg(a) }",
                    "Dropout 'Dropout_a' is told to drop values, or may be, by 't'",
                ),
                Refusal(
                    "g (float[2] x) => (float[2] y, bool[2] m) { a, m = Dropout(x)  y = Neg(a) }",
                    "the mask 'm' of Dropout 'Dropout_a' is read",
                ),
                Refusal(
                    "g (float[2] x) => (float[2] y) { y = Dropout(x) }",
                    "Dropout 'Dropout_y' is all that is between 'x' and the output 'y'",
                ),
                Refusal(
                    "g (float[2] x) => (float[2] a, float[2] y) { a = Relu(x)  y = Dropout(a) }",
                    "'a' and 'y' of Dropout 'Dropout_y' are both outputs of the graph",
                ),
            ),
            exactness=Exactness.BITS,
        ),
    )
