"""A bias and Gelu become ONNX Runtime's BiasGelu or FastGelu."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.graph_rules import graph_rule
from workbench.rewrite.matching import Match
from workbench.rewrite.standard import is_float32

_SAID = "{nodes[0]} and {root} are one kernel of ONNX Runtime, {new} of '{x}'; {fewer} less"


def is_vector_of_last_axis(match: Match) -> None:
    """ONNX Runtime adds a vector to the last axis."""
    shape, bias = match.graph.shape(match["x"]), match.graph.shape(match["bias"])
    if not shape or bias is None or len(bias) != 1 or not isinstance(bias[0], int) or bias[0] != shape[-1]:
        raise NoMatch(f"'{match['bias']}' of {match.node('s')} is no vector as long as the last axis of '{match['x']}'")
    if bias[0] == 0:
        raise NoMatch(f"'{match['bias']}' of {match.node('s')} is empty, which ONNX Runtime's kernel does not accept")


@dataclass(frozen=True)
class OrtGelu(Pass):
    """Two cases, for float32 and a bias that is a constant vector over the last axis:

    - Gelu of a sum with a bias becomes com.microsoft.BiasGelu;
    - its tanh form becomes com.microsoft.FastGelu.

    Must not act if anything else reads the sum. The file then runs in ONNX Runtime only.

    Source: ONNX Runtime's BiasGelu and FastGelu,
    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
    """

    title = "ONNX Runtime: bias and Gelu in one kernel"

    rules = (
        graph_rule(
            "exact",
            "s = Add(x, bias)\ny = Gelu(s)",
            "y = com.microsoft.BiasGelu(x, bias)",
            _SAID,
            Example(
                before="""g (float[2,3,4] x) => (float[2,3,4] y) <float[4] b = {0.5, 1, -1, 2}> {
                    s = Add(x, b)
                    y = Gelu(s)
                }""",
                after="""g (float[2,3,4] x) => (float[2,3,4] y) <float[4] b = {0.5, 1, -1, 2}> {
                    y = com.microsoft.BiasGelu(x, b)
                }""",
                sentences=(
                    "Add 'Add_s' and Gelu 'Gelu_y' are one kernel of ONNX Runtime, com.microsoft.BiasGelu"
                    " of 'x'; 1 less",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3,4] x) => (float[2,3,4] y) <float[3,1] b = {0.5, 1, -1}> {
                        s = Add(x, b)  y = Gelu(s)
                    }""",
                    "'b' of Add 'Add_s' is no vector as long as the last axis of 'x'",
                ),
                Refusal(
                    """g (float[2,3,4] x) => (float[2,3,4] y, float[2,3,4] z) <float[4] b = {0.5, 1, -1, 2}> {
                        s = Add(x, b)  y = Gelu(s)  z = Neg(s)
                    }""",
                    "Neg 'Neg_z' reads 's' of Add 'Add_s' too",
                ),
                Refusal(
                    """g (double[2,4] x) => (double[2,4] y) <double[4] b = {0.5, 1, -1, 2}> {
                        s = Add(x, b)  y = Gelu(s)
                    }""",
                    "'x' is not known to be float32 of a known rank",
                ),
            ),
            constants=("bias",),
            where=(is_vector_of_last_axis, is_float32("x")),
            exactness=Exactness.ROUNDING,
        ),
        graph_rule(
            "tanh",
            "s = Add(x, bias)\ny = Gelu(s, approximate='tanh')",
            "y = com.microsoft.FastGelu(x, bias)",
            _SAID,
            Example(
                before="""g (float[2,3,4] x) => (float[2,3,4] y) <float[4] b = {0.5, 1, -1, 2}> {
                    s = Add(x, b)
                    y = Gelu<approximate="tanh">(s)
                }""",
                after="""g (float[2,3,4] x) => (float[2,3,4] y) <float[4] b = {0.5, 1, -1, 2}> {
                    y = com.microsoft.FastGelu(x, b)
                }""",
                sentences=(
                    "Add 'Add_s' and Gelu 'Gelu_y' are one kernel of ONNX Runtime, com.microsoft.FastGelu"
                    " of 'x'; 1 less",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3,4] x) => (float[2,3,4] y) <float[1] b = {0.5}> {
                        s = Add(x, b)  y = Gelu<approximate="tanh">(s)
                    }""",
                    "'b' of Add 'Add_s' is no vector as long as the last axis of 'x'",
                ),
            ),
            constants=("bias",),
            where=(is_vector_of_last_axis, is_float32("x")),
            exactness=Exactness.ROUNDING,
        ),
    )
