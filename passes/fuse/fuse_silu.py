"""Fuse x * sigmoid(x) into one operator."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.schemas import later_opset
from workbench.rewrite.patterns.standard import is_float32


def lacks_swish(match: Match) -> None:
    opset = match.graph.opset_imports.get("", 0)
    if not later_opset("Swish", opset):
        raise NoMatch(f"opset {opset} has Swish, which recompose_activations makes of it")


@dataclass(frozen=True)
class FuseSilu(Pass):
    """One case: x * sigmoid(x), of float32, becomes the workbench's Silu.

    The sigmoid is then not stored. The operator is a function of standard operators in an exported file. fuse_conv and
    fuse_linear take x * sigmoid(x) after a convolution or a product themselves, and run before this pass if both are
    wanted.

    Does not apply if anything else reads the sigmoid, nor from opset 24 on, where ONNX has Swish.

    Source: Elfwing et al., "Sigmoid-Weighted Linear Units for Neural Network Function Approximation", 2017,
    https://arxiv.org/abs/1702.03118
    """

    title = "Fuse x * sigmoid(x)"

    rules = (
        graph_rule(
            "silu",
            "y = Mul(x, Sigmoid(x))",
            "y = workbench.Silu(x)",
            "{nodes[0]} and {root} become {new} of '{x}', in one pass; {fewer} fewer",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) { a = Sigmoid(x)  y = Mul(a, x) }",
                after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                    g (float[N,3] x) => (float[N,3] y) { y = workbench.Silu(x) }""",
                sentences=(
                    "Sigmoid 'Sigmoid_a' and Mul 'Mul_y' become workbench.Silu of 'x', in one pass; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x, float[2] z) => (float[2] y) { a = Sigmoid(x)  y = Mul(a, z) }",
                    "the pattern needs 'z' where Sigmoid 'Sigmoid_a' reads 'x'",
                ),
                Refusal(
                    "g (float[2] x) => (float[2] y, float[2] a) { a = Sigmoid(x)  y = Mul(a, x) }",
                    "'a' of Sigmoid 'Sigmoid_a' is an output of the graph",
                ),
                Refusal(
                    """<ir_version: 10, opset_import: ["": 24]> g (float[2] x) => (float[2] y) {
                        a = Sigmoid(x)  y = Mul(a, x)
                    }""",
                    "opset 24 has Swish, which recompose_activations makes of it",
                ),
                Refusal(
                    "g (double[2] x) => (double[2] y) { a = Sigmoid(x)  y = Mul(a, x) }",
                    "'x' is not known to be float32 of a known rank",
                ),
            ),
            where=(lacks_swish, is_float32("x")),
            exactness=Exactness.BIT_EXACT,
        ),
    )
