"""Remove Dropout, which does nothing in inference."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import replace_with_operand


def match_dropout(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    ratio, training = (*node.inputs[1:], "", "")[:2]
    training_constant, ratio_constant = graph.constant(training), graph.constant(ratio)
    drops = training and (training_constant is None or training_constant.numpy().any())
    if drops and (ratio_constant is None or ratio_constant.numpy().any()):
        raise NoMatch(f"'{training}' makes {node} drop values, or may do so")
    mask = node.outputs[1] if len(node.outputs) > 1 else ""
    if mask and (graph.users(mask) or graph.is_output(mask)):
        raise NoMatch(f"the mask '{mask}' of {node} is read")
    return replace_with_operand(graph, node, node.inputs[0], f"{node} returns '{node.inputs[0]}' unchanged; removed")


@dataclass(frozen=True)
class RemoveDropout(Pass):
    """A Dropout that is not in training mode, or whose ratio is 0, returns its operand unchanged.

    Does not apply if the ratio is not 0 and training_mode is true or computed at runtime, nor if the mask is read.

    Source: ONNX's definition of Dropout; TVM's SimplifyInference.
    """

    title = "Remove dropout"

    extra_examples = (
        Example(
            title="A ratio of 0",
            before="g (float[2] x, bool t) => (float[2] y) <float r = {0}> { a = Dropout(x, r, t)  y = Neg(a) }",
            after="g (float[2] x, bool t) => (float[2] y) { y = Neg(x) }",
            sentences=("Dropout 'Dropout_a' returns 'x' unchanged; removed",),
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
                sentences=("Dropout 'Dropout_b' returns 'a' unchanged; removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x) => (float[2] y) <float r = {0.5}, bool t = {1}>"
                    " { a = Dropout(x, r, t)  y = Neg(a) }",
                    "'t' makes Dropout 'Dropout_a' drop values, or may do so",
                ),
                Refusal(
                    "g (float[2] x) => (float[2] y, bool[2] m) { a, m = Dropout(x)  y = Neg(a) }",
                    "the mask 'm' of Dropout 'Dropout_a' is read",
                ),
                Refusal(
                    "g (float[2] x) => (float[2] y) { y = Dropout(x) }",
                    "Dropout 'Dropout_y' cannot be removed: input or constant 'x' would become the output 'y'",
                ),
                Refusal(
                    "g (float[2] x) => (float[2] a, float[2] y) { a = Relu(x)  y = Dropout(a) }",
                    "'a' and 'y' of Dropout 'Dropout_y' are both outputs of the graph",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
