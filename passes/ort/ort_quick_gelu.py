"""A value times its Sigmoid becomes ONNX Runtime's QuickGelu."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, Pass, Refusal
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.standard import is_float32

_SENTENCE = "{nodes[0]} and {root} become one kernel of ONNX Runtime, {new} of '{x}'; {fewer} fewer"


@dataclass(frozen=True)
class OrtQuickGelu(Pass):
    """Two cases, for float32:

    - x * sigmoid(x), which is SiLU, becomes com.microsoft.QuickGelu with alpha 1;
    - x * sigmoid(k * x), with a number k, becomes it with alpha k.

    Does not apply if anything else reads the Sigmoid. The file then runs in ONNX Runtime only.

    Source: ONNX Runtime's QuickGelu, https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md;
    its QuickGeluFusion.
    """

    title = "ONNX Runtime: a value times its Sigmoid in one kernel"

    rules = (
        graph_rule(
            "scaled",
            "a = Mul(x, k)\ns = Sigmoid(a)\ny = Mul(x, s)",
            "y = com.microsoft.QuickGelu(x, alpha=k)",
            _SENTENCE,
            Example(
                before="""g (float[2,3] x) => (float[2,3] y) <float k = {1.5}> {
                    a = Mul(x, k)
                    s = Sigmoid(a)
                    y = Mul(x, s)
                }""",
                after="""g (float[2,3] x) => (float[2,3] y) {
                    y = com.microsoft.QuickGelu<alpha=1.5>(x)
                }""",
                sentences=(
                    "Mul 'Mul_a' and Mul 'Mul_y' become one kernel of ONNX Runtime, com.microsoft.QuickGelu of 'x';"
                    " 2 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y, float[2,3] z) <float k = {1.5}> {
                        a = Mul(x, k)  s = Sigmoid(a)  y = Mul(x, s)  z = Neg(s)
                    }""",
                    "Neg 'Neg_z' reads 's' of Sigmoid 'Sigmoid_s' too",
                ),
            ),
            numbers=("k",),
            where=(is_float32("x"),),
            exactness=Exactness.ROUNDING,
        ),
        graph_rule(
            "plain",
            "s = Sigmoid(x)\ny = Mul(x, s)",
            "y = com.microsoft.QuickGelu(x, alpha=1.0)",
            _SENTENCE,
            Example(
                before="""g (float[2,3] x) => (float[2,3] y) {
                    s = Sigmoid(x)
                    y = Mul(x, s)
                }""",
                after="""g (float[2,3] x) => (float[2,3] y) {
                    y = com.microsoft.QuickGelu<alpha=1.0>(x)
                }""",
                sentences=(
                    "Sigmoid 'Sigmoid_s' and Mul 'Mul_y' become one kernel of ONNX Runtime, com.microsoft.QuickGelu of"
                    " 'x'; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (double[2,3] x) => (double[2,3] y) { s = Sigmoid(x)  y = Mul(x, s) }""",
                    "'x' is not known to be float32 of a known rank",
                ),
            ),
            where=(is_float32("x"),),
            exactness=Exactness.ROUNDING,
        ),
    )
