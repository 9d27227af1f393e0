"""Gelu from the products, the sum, and the Erf or Tanh that exporters write for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.patterns import (
    added,
    either_order,
    factors,
    is_near,
    is_power,
    is_scaled,
    producer_of,
    recomposed,
)

OPSET = 20
_CUBIC = 0.044715
_OUTSIDE = math.sqrt(2 / math.pi)


def match_exact(graph: Graph, node: Node, options: Pass) -> Rewrite:
    x = _gated(graph, node, "Erf", lambda graph, value, x: is_scaled(graph, value, math.sqrt(0.5), x))
    if not x:
        raise NoMatch(f"{node} is not x * (1 + erf(x / sqrt(2))) / 2")
    return recomposed(graph, node, (x,), "Gelu", OPSET, {"approximate": "none"})


def match_tanh(graph: Graph, node: Node, options: Pass) -> Rewrite:
    x = _gated(graph, node, "Tanh", _is_cubic)
    if not x:
        raise NoMatch(f"{node} is not x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2")
    return recomposed(graph, node, (x,), "Gelu", OPSET, {"approximate": "tanh"})


def _gated(graph: Graph, node: Node, operator: str, is_argument) -> str:
    """x of x / 2 * (1 + operator(argument)); "" where the node is no such product."""
    number, values = factors(graph, node)
    if not is_near(number, 0.5):
        return ""
    for x, gate in either_order(values):
        curve, one = added(graph, gate)
        inner = producer_of(graph, curve, operator)
        if is_near(one, 1.0) and inner is not None and is_argument(graph, inner.inputs[0], x):
            return x
    return ""


def _is_cubic(graph: Graph, value: str, x: str) -> bool:
    """Is it sqrt(2 / pi) * (x + 0.044715 * x ** 3), or with x in front as x * (1 + 0.044715 * x ** 2)?"""
    node = producer_of(graph, value, "Mul", "Div")
    number, values = (0.0, []) if node is None else factors(graph, node)
    if not is_near(number, _OUTSIDE):
        return False
    if len(values) == 1:
        total = producer_of(graph, values[0], "Add")
        terms = either_order(total.inputs if total else ())
        return any(a == x and _is_power(graph, b, x, 3) for a, b in terms)
    for a, total_value in either_order(values):
        square, one = added(graph, total_value)
        if a == x and is_near(one, 1.0) and _is_power(graph, square, x, 2):
            return True
    return False


def _is_power(graph: Graph, value: str, x: str, power: int) -> bool:
    """Is it 0.044715 * x ** power, the power written as Pow or as products?"""
    if is_scaled(graph, value, _CUBIC, *[x] * power):
        return True
    node = producer_of(graph, value, "Mul", "Div")
    number, values = (0.0, []) if node is None else factors(graph, node)
    raised = producer_of(graph, values[0], "Pow") if len(values) == 1 else None
    return is_near(number, _CUBIC) and raised is not None and raised.inputs[0] == x and is_power(graph, raised, power)


@dataclass(frozen=True)
class RecomposeGelu(Pass):
    """Two cases, x of float32, operands of sums and products in any order, the half anywhere in the product:

    - x * (1 + erf(x / sqrt(2))) / 2 is Gelu;
    - x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2 is Gelu of the tanh form, the cube as Pow or as
      products, and x in front of the sum too.

    Must not act where anything else reads a value in between, where a number is another, nor before opset 20.
    Beyond 1.7e38 x * (1 + erf(x / sqrt(2))) overflows before it is halved, and gives infinity; Gelu gives x.

    Source: ONNX's definition of Gelu; Hendrycks and Gimpel, "Gaussian Error Linear Units".
    """

    title = "Recompose Gelu"

    rules = (
        Rule(
            "exact",
            ("Mul", "Div"),
            match_exact,
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
                sentences=("Div 'Div_a' to Mul 'Mul_y', 5 nodes, compute Gelu of 'x'; 4 less",),
            ),
            refusals=(
                Refusal(
                    """g (float[2] x) => (float[2] y)
                        <float r = {1.4}, float one = {1}, float half = {0.5}> {
                        a = Div(x, r)  b = Erf(a)  c = Add(b, one)  d = Mul(x, c)  y = Mul(d, half)
                    }""",
                    "Mul 'Mul_y' is not x * (1 + erf(x / sqrt(2))) / 2",
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
                    "Gelu came with opset 20; this model is of opset 17",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="gelu(x) == x * (1 + erf(x / sqrt(2))) / 2",
        ),
        Rule(
            "tanh",
            ("Mul", "Div"),
            match_tanh,
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
                sentences=("Mul 'Mul_a' to Mul 'Mul_y', 9 nodes, compute Gelu of 'x'; 8 less",),
            ),
            refusals=(
                Refusal(
                    """g (float[2] x) => (float[2] y)
                        <float k = {0.044}, float s = {0.7978845608}, float one = {1}, float half = {0.5}> {
                        a = Mul(k, x)  b = Mul(x, a)  c = Mul(x, b)  d = Add(x, c)  e = Mul(s, d)
                        f = Tanh(e)  h = Add(one, f)  i = Mul(half, h)  y = Mul(x, i)
                    }""",
                    "Mul 'Mul_y' is not x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="gelu(x) == x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2",
        ),
    )
