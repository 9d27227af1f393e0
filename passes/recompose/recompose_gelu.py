"""Recompose Gelu from the products, the sum, and the Erf or Tanh that exporters write for it."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, Pass, Refusal
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.standard import GELU_BY_ERF, GELU_BY_TANH, is_float32, recomposed


@dataclass(frozen=True)
class RecomposeGelu(Pass):
    """Two cases, for x of float32, with the operands of sums and products in any order:

    - x * (1 + erf(x / sqrt(2))) / 2 becomes Gelu;
    - x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2 becomes Gelu of the tanh form; the cube may be a Pow
      or products, and x may be factored out of the sum.

    Does not apply:

    - if anything else reads an intermediate value;
    - if a number differs;
    - before opset 20.

    Above 1.7e38, x * (1 + erf(x / sqrt(2))) overflows before it is halved and gives infinity; Gelu gives x.

    Source: ONNX's definition of Gelu; Hendrycks and Gimpel, "Gaussian Error Linear Units".
    """

    title = "Recompose Gelu"

    rules = (
        graph_rule(
            "exact",
            GELU_BY_ERF,
            "y = Gelu(x, approximate='none')",
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
                after='g (float[N,3] x) => (float[N,3] y) { y = Gelu<approximate="none">(x) }',
                sentences=("5 nodes, from Div 'Div_a' to Mul 'Mul_y', compute Gelu of 'x'; 4 nodes fewer",),
            ),
            refusals=(
                Refusal(
                    """g (float[2] x) => (float[2] y)
                        <float r = {1.4}, float one = {1}, float half = {0.5}> {
                        a = Div(x, r)  b = Erf(a)  c = Add(b, one)  d = Mul(x, c)  y = Mul(d, half)
                    }""",
                    "Div 'Div_a' multiplies by 0.714286 in all, not by 0.707107",
                ),
                Refusal(
                    """g (float[2] x) => (float[2] y, float[2] z)
                        <float r = {1.41421356}, float one = {1}, float half = {0.5}> {
                        a = Div(x, r)  b = Erf(a)  c = Add(b, one)  d = Mul(x, c)  y = Mul(d, half)  z = Neg(b)
                    }""",
                    "Neg 'Neg_z' reads 'b' of Erf 'Erf_b' too",
                ),
                Refusal(
                    """g (float[2] x) => (float[2] y, float[2] b)
                        <float r = {1.41421356}, float one = {1}, float half = {0.5}> {
                        a = Div(x, r)  b = Erf(a)  c = Add(b, one)  d = Mul(x, c)  y = Mul(d, half)
                    }""",
                    "'b' of Erf 'Erf_b' is an output of the graph",
                ),
                Refusal(
                    """g (double[2] x) => (double[2] y)
                        <double r = {1.4142135623730951}, double one = {1}, double half = {0.5}> {
                        a = Div(x, r)  b = Erf(a)  c = Add(b, one)  d = Mul(x, c)  y = Mul(d, half)
                    }""",
                    "'x' is not known to be float32 of a known rank",
                ),
                Refusal(
                    """g (float[2] x) => (float[1,2] y)
                        <float[1,1] r = {1.41421356}, float one = {1}, float half = {0.5}> {
                        a = Div(x, r)  b = Erf(a)  c = Add(b, one)  d = Mul(x, c)  y = Mul(d, half)
                    }""",
                    "'y' of Mul 'Mul_y' has more axes than 'x'",
                ),
                Refusal(
                    """<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y)
                        <float r = {1.41421356}, float one = {1}, float half = {0.5}> {
                        a = Div(x, r)  b = Erf(a)  c = Add(b, one)  d = Mul(x, c)  y = Mul(d, half)
                    }""",
                    "Gelu came with opset 20; this model has opset 17",
                ),
            ),
            where=(is_float32("x"),),
            exactness=Exactness.ROUNDING,
            law="gelu(x) == x * (1 + erf(x / sqrt(2))) / 2",
        ),
        graph_rule(
            "tanh",
            GELU_BY_TANH,
            "y = Gelu(x, approximate='tanh')",
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
                after='g (float[N,3] x) => (float[N,3] y) { y = Gelu<approximate="tanh">(x) }',
                sentences=("9 nodes, from Mul 'Mul_a' to Mul 'Mul_y', compute Gelu of 'x'; 8 nodes fewer",),
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
    )
