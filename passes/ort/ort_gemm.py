"""A product with a bias and the activation after it become ONNX Runtime's FusedGemm."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, Pass, Refusal, Rule
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.standard import is_float32


def _rule(op: str, call: str, shown: str = "", passed: str = "", given: str = "") -> Rule:
    """The rule of an activation.

    call: of the activation in the pattern; shown: in the examples, if not the same. passed, given: its parameters as
    attributes of the FusedGemm, in the pattern and in the examples.
    """
    shown = shown or call
    return graph_rule(
        op.lower(),
        f"g = Gemm(a, b, c | None, **others)\ny = {call}",
        f"y = com.microsoft.FusedGemm(a, b, c, activation='{op}'{passed}, **others)",
        "{nodes[0]} and {root} become one kernel of ONNX Runtime, {new} of '{a}' and '{b}'; {fewer} fewer",
        Example(
            before=f"""g (float[2,3] a, float[4,3] b, float[4] c) => (float[2,4] y) {{
                g = Gemm<transB=1>(a, b, c)
                y = {shown}
            }}""",
            after=f"""g (float[2,3] a, float[4,3] b, float[4] c) => (float[2,4] y) {{
                y = com.microsoft.FusedGemm<transB=1, activation="{op}"{given}>(a, b, c)
            }}""",
            sentences=(
                f"Gemm 'Gemm_g' and {op} '{op}_y' become one kernel of ONNX Runtime, com.microsoft.FusedGemm of 'a' "
                "and 'b'; 1 node fewer",
            ),
        ),
        refusals=(
            Refusal(
                f"""g (double[2,3] a, double[3,4] b) => (double[2,4] y) {{ g = Gemm(a, b)  y = {shown} }}""",
                "'a' is not known to be float32 of a known rank",
            ),
            Refusal(
                f"""g (float[2,3] a, float[3,4] b) => (float[2,4] y, float[2,4] g) {{ g = Gemm(a, b)  y = {shown} }}""",
                "'g' of Gemm 'Gemm_g' is an output of the graph",
            ),
        ),
        where=(is_float32("a"),),
        exactness=Exactness.ROUNDING,
    )


@dataclass(frozen=True)
class OrtGemm(Pass):
    """Relu, Sigmoid, Tanh, LeakyRelu and HardSigmoid of a Gemm of float32 become com.microsoft.FusedGemm.

    Does not apply if anything else reads the Gemm's result. The file then runs in ONNX Runtime only.

    Source: ONNX Runtime's FusedGemm, https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md; its
    GemmActivationFusion.
    """

    title = "ONNX Runtime: product, bias and activation in one kernel"

    rules = (
        _rule("Relu", "Relu(g)"),
        _rule("Sigmoid", "Sigmoid(g)"),
        _rule("Tanh", "Tanh(g)"),
        _rule(
            "LeakyRelu",
            "LeakyRelu(g, alpha=slope)",
            "LeakyRelu<alpha=0.2>(g)",
            ", activation_alpha=slope",
            ", activation_alpha=0.2",
        ),
        _rule(
            "HardSigmoid",
            "HardSigmoid(g, alpha=slope, beta=shift)",
            "HardSigmoid<alpha=0.2, beta=0.5>(g)",
            ", activation_alpha=slope, activation_beta=shift",
            ", activation_alpha=0.2, activation_beta=0.5",
        ),
    )
