"""Gelu, with a bias or written out, becomes ONNX Runtime's Gelu, BiasGelu or FastGelu."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import GELU_BY_ERF, GELU_BY_TANH, is_float32, recomposed

_SENTENCE = "{nodes[0]} and {root} become one kernel of ONNX Runtime, {new} of '{x}'; {fewer} fewer"


def is_vector_of_last_axis(match: Match) -> None:
    """Raises NoMatch unless the bias is a vector of the last axis, which ONNX Runtime's kernel requires."""
    shape, bias = match.graph.shape(match["x"]), match.graph.shape(match["bias"])
    if not shape or bias is None or len(bias) != 1 or not isinstance(bias[0], int) or bias[0] != shape[-1]:
        raise NoMatch(
            f"'{match['bias']}' of {match.node('s')} is not a vector as long as the last axis of '{match['x']}'"
        )
    if bias[0] == 0:
        raise NoMatch(f"'{match['bias']}' of {match.node('s')} is empty, which ONNX Runtime's kernel does not accept")


def is_not_halved(match: Match) -> None:
    """Raises NoMatch if the factor 1/2 follows: the whole is Gelu. It does not where it is folded into weights."""
    for reader in match.graph.users(match.root.outputs[0]):
        if reader.op in ("Mul", "Div") and any(value in match.graph.constants for value in reader.inputs):
            raise NoMatch(f"{reader} may halve the result of {match.root}")


@dataclass(frozen=True)
class OrtGelu(Pass):
    """Five cases, for float32; a bias is a constant vector over the last axis:

    - Gelu of a sum with a bias becomes com.microsoft.BiasGelu;
    - its tanh form becomes com.microsoft.FastGelu;
    - x * (1 + erf(x / sqrt(2))) / 2, which stays where the file's opset is kept below 20 and has no Gelu, becomes
      com.microsoft.Gelu;
    - its tanh form becomes com.microsoft.FastGelu;
    - x * (1 + erf(x / sqrt(2))), whose half was folded into weights after it, becomes com.microsoft.Gelu times two.

    Does not apply if anything else reads the sum or an intermediate value. Above 1.7e38, x * (1 + erf(x / sqrt(2)))
    overflows before it is halved and gives infinity; Gelu gives x. The file then runs in ONNX Runtime only.

    Source: ONNX Runtime's Gelu, BiasGelu and FastGelu,
    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md; its GeluFusion and FastGeluFusion.
    """

    title = "ONNX Runtime: Gelu, also with a bias, in one kernel"

    rules = (
        graph_rule(
            "exact",
            "s = Add(x, bias)\ny = Gelu(s) | com.microsoft.Gelu(s)",
            "y = com.microsoft.BiasGelu(x, bias)",
            _SENTENCE,
            Example(
                before="""g (float[2,3,4] x) => (float[2,3,4] y) <float[4] b = {0.5, 1, -1, 2}> {
                    s = Add(x, b)
                    y = Gelu(s)
                }""",
                after="""g (float[2,3,4] x) => (float[2,3,4] y) <float[4] b = {0.5, 1, -1, 2}> {
                    y = com.microsoft.BiasGelu(x, b)
                }""",
                sentences=(
                    "Add 'Add_s' and Gelu 'Gelu_y' become one kernel of ONNX Runtime, com.microsoft.BiasGelu"
                    " of 'x'; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3,4] x) => (float[2,3,4] y) <float[3,1] b = {0.5, 1, -1}> {
                        s = Add(x, b)  y = Gelu(s)
                    }""",
                    "'b' of Add 'Add_s' is not a vector as long as the last axis of 'x'",
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
            "s = Add(x, bias)\ny = Gelu(s, approximate='tanh') | com.microsoft.FastGelu(s)",
            "y = com.microsoft.FastGelu(x, bias)",
            _SENTENCE,
            Example(
                before="""g (float[2,3,4] x) => (float[2,3,4] y) <float[4] b = {0.5, 1, -1, 2}> {
                    s = Add(x, b)
                    y = Gelu<approximate="tanh">(s)
                }""",
                after="""g (float[2,3,4] x) => (float[2,3,4] y) <float[4] b = {0.5, 1, -1, 2}> {
                    y = com.microsoft.FastGelu(x, b)
                }""",
                sentences=(
                    "Add 'Add_s' and Gelu 'Gelu_y' become one kernel of ONNX Runtime, com.microsoft.FastGelu"
                    " of 'x'; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3,4] x) => (float[2,3,4] y) <float[1] b = {0.5}> {
                        s = Add(x, b)  y = Gelu<approximate="tanh">(s)
                    }""",
                    "'b' of Add 'Add_s' is not a vector as long as the last axis of 'x'",
                ),
            ),
            constants=("bias",),
            where=(is_vector_of_last_axis, is_float32("x")),
            exactness=Exactness.ROUNDING,
        ),
        graph_rule(
            "exact, written out",
            GELU_BY_ERF,
            "y = com.microsoft.Gelu(x)",
            recomposed("x"),
            Example(
                before="""g (float[N,3] x) => (float[N,3] y)
                    <float r = {1.41421356}, float one = {1}, float half = {0.5}> {
                    a = Div(x, r)
                    b = Erf(a)
                    c = Add(b, one)
                    d = Mul(x, c)
                    y = Mul(d, half)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) { y = com.microsoft.Gelu(x) }",
                sentences=(
                    "5 nodes, from Div 'Div_a' to Mul 'Mul_y', compute com.microsoft.Gelu of 'x'; 4 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2] x) => (float[2] y, float[2] z)
                        <float r = {1.41421356}, float one = {1}, float half = {0.5}> {
                        a = Div(x, r)  b = Erf(a)  c = Add(b, one)  d = Mul(x, c)  y = Mul(d, half)  z = Neg(b)
                    }""",
                    "Neg 'Neg_z' reads 'b' of Erf 'Erf_b' too",
                ),
            ),
            where=(is_float32("x"),),
            exactness=Exactness.ROUNDING,
            law="gelu(x) == x * (1 + erf(x / sqrt(2))) / 2",
        ),
        graph_rule(
            "tanh, written out",
            GELU_BY_TANH,
            "y = com.microsoft.FastGelu(x)",
            recomposed("x"),
            Example(
                before="""g (float[N,3] x) => (float[N,3] y)
                    <float k = {0.044715}, float s = {0.7978845608}, float one = {1}, float half = {0.5}> {
                    a = Mul(k, x)
                    b = Mul(x, a)
                    c = Mul(x, b)
                    d = Add(x, c)
                    e = Mul(s, d)
                    f = Tanh(e)
                    h = Add(one, f)
                    i = Mul(half, h)
                    y = Mul(x, i)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) { y = com.microsoft.FastGelu(x) }",
                sentences=(
                    "9 nodes, from Mul 'Mul_a' to Mul 'Mul_y', compute com.microsoft.FastGelu of 'x'; 8 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2] x) => (float[2] y)
                        <float k = {0.044}, float s = {0.7978845608}, float one = {1}, float half = {0.5}> {
                        a = Mul(k, x)  b = Mul(x, a)  c = Mul(x, b)  d = Add(x, c)  e = Mul(s, d)
                        f = Tanh(e)  h = Add(one, f)  i = Mul(half, h)  y = Mul(x, i)
                    }""",
                    "Mul 'Mul_c' multiplies by 0.044 in all, not by 0.044715",
                ),
            ),
            where=(is_float32("x"),),
            exactness=Exactness.ROUNDING,
            law="gelu(x) == x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2",
        ),
        graph_rule(
            "doubled",
            GELU_BY_ERF.replace("0.5 * ", ""),
            "y = Mul(com.microsoft.Gelu(x), 2.0)",
            "{count} nodes, from {nodes[0]} to {root}, compute com.microsoft.Gelu of '{x}', doubled; {fewer} fewer",
            Example(
                before="""g (float[N,3] x) => (float[N,3] y) <float r = {1.41421356}, float one = {1}> {
                    a = Div(x, r)
                    b = Erf(a)
                    c = Add(b, one)
                    y = Mul(x, c)
                }""",
                after="""g (float[N,3] x) => (float[N,3] y) <float y_number = {2}> {
                    y_gelu = com.microsoft.Gelu(x)
                    y = Mul(y_gelu, y_number)
                }""",
                sentences=(
                    "4 nodes, from Div 'Div_a' to Mul 'Mul_y', compute com.microsoft.Gelu of 'x', doubled; 2 nodes "
                    "fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2] x) => (float[2] y)
                        <float r = {1.41421356}, float one = {1}, float half = {0.5}> {
                        a = Div(x, r)  b = Erf(a)  c = Add(b, one)  d = Mul(x, c)  y = Mul(d, half)
                    }""",
                    "Mul 'Mul_y' may halve the result of Mul 'Mul_d'",
                ),
            ),
            where=(is_not_halved, is_float32("x")),
            exactness=Exactness.ROUNDING,
            law="2 * gelu(x) == x * (1 + erf(x / sqrt(2)))",
        ),
    )
