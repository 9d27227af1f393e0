"""Recompose LayerNormalization and RMSNormalization from the means, squares and roots that exporters write for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir.types import Shape
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.core.guards import is_same_shape
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import (
    CENTERED,
    UNCENTERED,
    has_negative_zero,
    is_float32,
    recomposed,
    refuse_odd_epsilon,
)

_BIASED = f"""{CENTERED}
    scaled = Mul(n, scale) | n
    y = Add(scaled, bias)
"""
_LAYER = f"""{CENTERED}
    scaled = Mul(n, scale) | n
    y = Add(scaled, bias) | scaled
"""
_RMS = f"""{UNCENTERED}
    y = Mul(n, scale) | n
"""


def normalized(match: Match) -> Shape:
    """The sizes of the normalized axes."""
    return (match.graph.shape(match["x"]) or ())[-len(match.data["axes"]) :]


def refuse_other_axes(match: Match) -> None:
    axes, rank = match.data["axes"], match.graph.rank_of(match["x"]) or 0
    if not axes or axes != tuple(range(rank - len(axes), rank)):
        raise NoMatch(f"{match.node('n')} normalizes over axes {list(axes)} of rank {rank}, which are not the last")


def refuse_other_shapes(match: Match) -> None:
    for value in filter(None, (match.get("scale"), match.get("bias"))):
        if not is_same_shape(match.graph.shape(value), normalized(match)):
            raise NoMatch(f"'{value}' is not known to have the shape of the axes that {match.node('n')} normalizes")


def refuse_negative_zeros(match: Match) -> None:
    if has_negative_zero(match.graph.constants[match["bias"]].numpy()):
        raise NoMatch(f"'{match['bias']}' holds -0.0, so the zeros of a row of -0.0 may change sign")


def refuse_centered(match: Match) -> None:
    difference = match.graph.producer(match["x"])
    mean = None if difference is None or difference.op != "Sub" else match.graph.producer(difference.inputs[1])
    if (
        difference is not None
        and mean is not None
        and mean.op == "ReduceMean"
        and mean.inputs[0] == difference.inputs[0]
    ):
        raise NoMatch(f"{difference} subtracts the mean, which is LayerNormalization")


def first_axis_of_last(match: Match) -> int:
    return -len(match.data["axes"])


def scale_or_ones(match: Match) -> str | np.ndarray:
    """The scale, which both operators require; ones if there is none."""
    sizes = [size for size in normalized(match) or () if isinstance(size, int)]
    if match.get("scale") is None and len(sizes) != len(match.data["axes"]):
        raise NoMatch(f"'{match['x']}' is normalized without a scale, and the size of a scale of ones is not known")
    return match.get("scale") or np.ones(sizes, np.float32)


@dataclass(frozen=True)
class RecomposeLayerNorm(Pass):
    """Three cases, over the last axes of x of float32:

    - (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * scale + bias becomes LayerNormalization;
    - the same without a bias, or with one that may hold -0.0, becomes LayerNormalization except for the sign of zeros;
    - x / sqrt(mean(x ** 2) + epsilon) * scale becomes RMSNormalization.

    The square may be Pow or Mul, the root a divisor or its reciprocal a factor. Without a scale of the shape of the
    last axes, the scale is ones, and other factors stay.

    Does not apply:

    - over other axes than the last;
    - if anything else reads an intermediate value;
    - if the means drop their axes;
    - before the operator's opset.

    Source: ONNX's definitions of LayerNormalization and RMSNormalization; Zhang and Sennrich, "Root Mean Square
    Layer Normalization".
    """

    title = "Recompose LayerNormalization and RMSNormalization"

    rules = (
        graph_rule(
            "layer normalization with bias",
            _BIASED,
            "y = LayerNormalization(x, factors, bias, axis=axis, epsilon=epsilon)",
            recomposed("x"),
            Example(
                before="""g (float[N,3] x) => (float[N,3] y)
                    <int64[1] axes = {-1}, float two = {2}, float e = {0.5}, float[3] s = {1, 2, -1},
                     float[3] b = {0, 1, -1}> {
                    m = ReduceMean(x, axes)
                    d = Sub(x, m)
                    p = Pow(d, two)
                    v = ReduceMean(p, axes)
                    w = Add(v, e)
                    r = Sqrt(w)
                    n = Div(d, r)
                    t = Mul(n, s)
                    y = Add(t, b)
                }""",
                after="""g (float[N,3] x) => (float[N,3] y) <float[3] s = {1, 2, -1}, float[3] b = {0, 1, -1}> {
                    y = LayerNormalization<axis=-1, epsilon=0.5>(x, s, b)
                }""",
                sentences=(
                    "9 nodes, from ReduceMean 'ReduceMean_m' to Add 'Add_y', compute LayerNormalization of 'x'; 8 "
                    "nodes "
                    "fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y)
                        <int64[1] axes = {0}, float e = {0.5}, float[3] s = {1, 2, -1}, float[3] b = {0, 1, -1}> {
                        m = ReduceMean(x, axes)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, axes)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  t = Mul(n, s)  y = Add(t, b)
                    }""",
                    "Div 'Div_n' normalizes over axes [0] of rank 2, which are not the last",
                ),
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y)
                        <int64[1] axes = {-1}, float e = {0.5}, float[3] s = {1, 2, -1}> {
                        m = ReduceMean(x, axes)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, axes)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  y = Mul(n, s)
                    }""",
                    "Add 'Add_w' does not follow a Mul or Div",
                ),
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y)
                        <int64[1] axes = {-1}, float e = {0.5}, float[3] b = {0, 1, -1}> {
                        p = Mul(x, x)  v = ReduceMean(p, axes)  w = Add(v, e)  r = Sqrt(w)  n = Div(x, r)
                        y = Add(n, b)
                    }""",
                    "Div 'Div_n' does not follow a Sub",
                ),
                Refusal(
                    """g (float[2,3] x, float[3] b) => (float[2,3] y) <int64[1] axes = {-1}, float e = {0.5}> {
                        m = ReduceMean(x, axes)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, axes)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  y = Add(n, b)
                    }""",
                    "'b', an operand of Add 'Add_y', is not a constant",
                ),
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y)
                        <int64[1] axes = {-1}, float e = {0.5}, float[3] b = {0, -0.0, -1}> {
                        m = ReduceMean(x, axes)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, axes)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  y = Add(n, b)
                    }""",
                    "'b' holds -0.0, so the zeros of a row of -0.0 may change sign",
                ),
                Refusal(
                    """g (float[2,N] x, float[2,3] z) => (float[2,3] y)
                        <int64[1] axes = {-1}, float e = {0.5}, float[1] b = {1}> {
                        m = ReduceMean(x, axes)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, axes)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  y = Add(n, b)
                    }""",
                    "'b' is not known to have the shape of the axes that Div 'Div_n' normalizes",
                ),
            ),
            constants=("bias",),
            numbers=("epsilon",),
            where=(is_float32("x"), refuse_odd_epsilon, refuse_other_axes, refuse_other_shapes, refuse_negative_zeros),
            computed={"axis": first_axis_of_last, "factors": scale_or_ones},
            exactness=Exactness.ROUNDING,
            law="layer_norm(x) == (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * scale + bias",
        ),
        graph_rule(
            "layer normalization",
            _LAYER,
            "y = LayerNormalization(x, factors, bias, axis=axis, epsilon=epsilon)",
            recomposed("x"),
            Example(
                before="""g (float[N,2] x) => (float[N,2] y)
                    <int64[1] axes = {1}, float e = {0.5}> {
                    m = ReduceMean(x, axes)
                    d = Sub(x, m)
                    p = Mul(d, d)
                    v = ReduceMean(p, axes)
                    w = Add(v, e)
                    r = Sqrt(w)
                    q = Reciprocal(r)
                    y = Mul(d, q)
                }""",
                after="""g (float[N,2] x) => (float[N,2] y) <float[2] y_factors = {1, 1}> {
                    y = LayerNormalization<axis=-1, epsilon=0.5>(x, y_factors)
                }""",
                sentences=(
                    "8 nodes, from ReduceMean 'ReduceMean_m' to Mul 'Mul_y', compute LayerNormalization of 'x'; 7 "
                    "nodes "
                    "fewer",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    """g (float[2,N] x) => (float[2,N] y) <int64[1] axes = {1}, float e = {0.5}> {
                        m = ReduceMean(x, axes)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, axes)  w = Add(v, e)
                        r = Sqrt(w)  y = Div(d, r)
                    }""",
                    "'x' is normalized without a scale, and the size of a scale of ones is not known",
                ),
            ),
            numbers=("epsilon",),
            where=(is_float32("x"), refuse_odd_epsilon, refuse_other_axes, refuse_other_shapes),
            computed={"axis": first_axis_of_last, "factors": scale_or_ones},
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": -0.0}, 0, -0.0, "x minus its mean is 0, not -0"),
            law="layer_norm(x) == (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * scale + bias",
        ),
        graph_rule(
            "rms normalization",
            _RMS,
            "y = RMSNormalization(x, factors, axis=axis, epsilon=epsilon)",
            recomposed("x"),
            Example(
                before="""g (float[N,3] x) => (float[N,3] y)
                    <int64[1] axes = {-1}, float two = {2}, float e = {0.5}, float[3] s = {1, 2, -1}> {
                    p = Pow(x, two)
                    v = ReduceMean(p, axes)
                    w = Add(v, e)
                    r = Sqrt(w)
                    q = Reciprocal(r)
                    n = Mul(x, q)
                    y = Mul(s, n)
                }""",
                after="""g (float[N,3] x) => (float[N,3] y) <float[3] s = {1, 2, -1}> {
                    y = RMSNormalization<axis=-1, epsilon=0.5>(x, s)
                }""",
                sentences=("7 nodes, from Pow 'Pow_p' to Mul 'Mul_y', compute RMSNormalization of 'x'; 6 nodes fewer",),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y) <int64[1] axes = {-1}, float e = {0.5}> {
                        p = Mul(x, x)  v = ReduceMean<keepdims=0>(p, axes)  w = Add(v, e)  r = Sqrt(w)  n = Div(x, r)
                        y = Neg(n)
                    }""",
                    "ReduceMean 'ReduceMean_v' has keepdims=0, not 1",
                ),
            ),
            numbers=("epsilon",),
            where=(refuse_centered, is_float32("x"), refuse_odd_epsilon, refuse_other_axes, refuse_other_shapes),
            computed={"axis": first_axis_of_last, "factors": scale_or_ones},
            exactness=Exactness.ROUNDING,
            law="rms_norm(x) == x / sqrt(mean(x ** 2) + epsilon) * scale",
        ),
    )
