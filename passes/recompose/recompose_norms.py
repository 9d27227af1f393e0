"""Recompose InstanceNormalization and GroupNormalization from the nodes that exporters write for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.core.guards import is_same_shape
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import CENTERED, has_negative_zero, is_float32, recomposed, refuse_odd_epsilon

_INSTANCE = f"""{CENTERED}
    scaled = Mul(n, scale) | n
    y = Add(scaled, bias)
"""
_GROUP = """
    split = Reshape(x, groups, allowzero=zeros)
    norm = InstanceNormalization(split, ones, nulls, epsilon=epsilon)
    back = Reshape(norm, Shape(x)) | Reshape(norm, shape, allowzero=zeros_back)
    scaled = Mul(back, scale) | back
    y = Add(scaled, bias) | scaled
"""


def refuse_axes_of_channels(match: Match) -> None:
    axes, rank = match.data["axes"], match.graph.rank_of(match["x"]) or 0
    if rank < 3 or axes != tuple(range(2, rank)):
        raise NoMatch(
            f"{match.node('n')} normalizes over axes {list(axes)} of rank {rank}, not over all after the channels"
        )


def refuse_scaled_groups(match: Match) -> None:
    ones, nulls = (match.graph.constants[match[name]].numpy() for name in ("ones", "nulls"))
    if not (ones == 1).all() or nulls.any():
        raise NoMatch(f"{match.node('norm')} has a scale or bias for each group")


def refuse_other_shape(match: Match) -> None:
    shape, back = match.graph.shape(match["x"]), match["back"]
    if match.get("shape") is not None and not is_same_shape(shape, match.graph.shape(back)):
        raise NoMatch(f"{match.node('back')} does not restore the shape of '{match['x']}'")


def count_of_groups(match: Match) -> int:
    """The number of groups into which the first Reshape splits the channels."""
    target, shape = match.graph.constants[match["groups"]].numpy().tolist(), match.graph.shape(match["x"]) or ()
    channels = shape[1] if len(shape) > 2 else None
    keeps_batch = len(target) == 3 and ((target[0] == 0 and not match.data["zeros"]) or target[0] == shape[0])
    if not keeps_batch or not isinstance(channels, int) or target[1] <= 0 or channels % target[1]:
        raise NoMatch(f"{match.node('split')} does not split the channels into groups")
    return int(target[1])


def numbers_by_channel(name: str, default: float) -> Callable[[Match], np.ndarray]:
    """A constant of one number per channel without its other axes; `default` for each if there is no such operand."""

    def numbers(match: Match) -> np.ndarray:
        shape = match.graph.shape(match["x"]) or ()
        value, channels = match.get(name), shape[1]
        if value is None and isinstance(channels, int):
            return np.full(channels, default, np.float32)
        array = np.zeros(()) if value is None else match.graph.constants[value].numpy()
        full = (1,) * (len(shape) - array.ndim) + array.shape
        if value is None or full != (1, channels, *(1,) * (len(shape) - 2)):
            raise NoMatch(f"'{value or match['x']}' does not hold one number for each channel")
        if not np.isfinite(array).all():
            raise NoMatch(f"'{value}' is not finite, and kernels multiply it by the mean too, which makes NaN")
        if has_negative_zero(array) and name == "bias":
            raise NoMatch(f"'{value}' holds -0.0, which may change the sign of zeros")
        return array.reshape(-1)

    return numbers


_BY_CHANNEL = {"factors": numbers_by_channel("scale", 1), "shifts": numbers_by_channel("bias", 0)}


@dataclass(frozen=True)
class RecomposeNorms(Pass):
    """Two cases, for x of float32 with channels on axis 1 and at least one axis after it:

    - (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * scale + bias with means over all axes after the
      channels becomes InstanceNormalization;
    - a Reshape to groups, an InstanceNormalization without scale and bias, and the Reshape back, followed by a scale
      and a bias per channel, become GroupNormalization. ONNX defines it by mean(x ** 2) - mean(x) ** 2, so that digits
      are lost, which the three nodes keep, if a group's mean is ten times its deviation or more: in mode "fast" only.

    Without a Mul by a scale per channel the scale is ones; for groups without an Add the bias is zeros.

    Must not make an InstanceNormalization without a bias per channel, which fixes the sign of zeros; nor act if
    anything else reads an intermediate value, nor before opset 21 for groups.

    Source: ONNX's definitions of InstanceNormalization and GroupNormalization; Wu and He, "Group Normalization".
    """

    title = "Recompose InstanceNormalization and GroupNormalization"

    extra_examples = (
        Example(
            title="Groups without scale and bias",
            before="""g (float[2,4,3] x) => (float[2,4,3] y)
                <int64[3] split = {0, 2, -1}, int64[3] back = {2, 4, 3}, float[2] ones = {1, 1},
                 float[2] zeros = {0, 0}> {
                g = Reshape(x, split)
                n = InstanceNormalization<epsilon=0.5>(g, ones, zeros)
                y = Reshape(n, back)
            }""",
            after="""g (float[2,4,3] x) => (float[2,4,3] y)
                <float[4] y_factors = {1, 1, 1, 1}, float[4] y_shifts = {0, 0, 0, 0}> {
                y = GroupNormalization<epsilon=0.5, num_groups=2>(x, y_factors, y_shifts)
            }""",
            sentences=(
                "3 nodes, from Reshape 'Reshape_g' to Reshape 'Reshape_y', compute GroupNormalization of 'x'; 2 "
                "nodes fewer",
            ),
            mode="fast",
        ),
    )

    rules = (
        graph_rule(
            "instance normalization",
            _INSTANCE,
            "y = InstanceNormalization(x, factors, shifts, epsilon=epsilon)",
            recomposed("x"),
            Example(
                before="""g (float[N,2,3] x) => (float[N,2,3] y)
                    <int64[1] axes = {2}, float two = {2}, float e = {0.5}, float[2,1] s = {1, 2},
                     float[1,2,1] b = {0, 1}> {
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
                after="""g (float[N,2,3] x) => (float[N,2,3] y)
                    <float[2] y_factors = {1, 2}, float[2] y_shifts = {0, 1}> {
                    y = InstanceNormalization<epsilon=0.5>(x, y_factors, y_shifts)
                }""",
                sentences=(
                    "9 nodes, from ReduceMean 'ReduceMean_m' to Add 'Add_y', compute InstanceNormalization of 'x'; "
                    "8 nodes "
                    "fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[1,2,3] x) => (float[1,2,3] y)
                        <int64[1] a = {1}, float e = {0.5}, float[2,1] b = {0, 1}> {
                        m = ReduceMean(x, a)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, a)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  y = Add(n, b)
                    }""",
                    "Div 'Div_n' normalizes over axes [1] of rank 3, not over all after the channels",
                ),
                Refusal(
                    """g (float[1,2,3] x) => (float[1,2,3] y)
                        <int64[1] a = {2}, float e = {0.5}, float[3] b = {0, 1, 2}> {
                        m = ReduceMean(x, a)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, a)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  y = Add(n, b)
                    }""",
                    "'b' does not hold one number for each channel",
                ),
                Refusal(
                    """g (float[1,2,3] x) => (float[1,2,3] y)
                        <int64[1] a = {2}, float e = {0.5}, float[2,1] b = {0, -0.0}> {
                        m = ReduceMean(x, a)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, a)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  y = Add(n, b)
                    }""",
                    "'b' holds -0.0, which may change the sign of zeros",
                ),
                Refusal(
                    "g (float[1,2,3] x) => (float[1,2,3] y) { y = Add(x, x) }",
                    "Add 'Add_y' does not follow a Mul or Div",
                ),
            ),
            constants=("scale", "bias"),
            numbers=("epsilon",),
            where=(is_float32("x"), refuse_odd_epsilon, refuse_axes_of_channels),
            computed=_BY_CHANNEL,
            exactness=Exactness.ROUNDING,
            law="instance_norm(x) == (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * scale + bias",
        ),
        graph_rule(
            "group normalization",
            _GROUP,
            "y = GroupNormalization(x, factors, shifts, epsilon=epsilon, num_groups=count)",
            recomposed("x"),
            Example(
                before="""g (float[N,4,3] x) => (float[N,4,3] y)
                    <int64[3] split = {0, 2, -1}, float[2] ones = {1, 1}, float[2] zeros = {0, 0},
                     float[4,1] s = {1, 2, 1, -1}, float[4,1] b = {0, 1, 0, 2}> {
                    g = Reshape(x, split)
                    n = InstanceNormalization<epsilon=0.5>(g, ones, zeros)
                    h = Shape(x)
                    r = Reshape(n, h)
                    t = Mul(r, s)
                    y = Add(t, b)
                }""",
                after="""g (float[N,4,3] x) => (float[N,4,3] y)
                    <float[4] y_factors = {1, 2, 1, -1}, float[4] y_shifts = {0, 1, 0, 2}> {
                    y = GroupNormalization<epsilon=0.5, num_groups=2>(x, y_factors, y_shifts)
                }""",
                sentences=(
                    "6 nodes, from Reshape 'Reshape_g' to Add 'Add_y', compute GroupNormalization of 'x'; 5 nodes "
                    "fewer",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    """g (float[1,4,3] x) => (float[1,4,3] y)
                        <int64[3] split = {0, 2, -1}, int64[3] back = {1, 4, 3}, float[2] s = {1, 2},
                         float[2] zeros = {0, 0}, float[4,1] b = {0, 1, 0, 2}> {
                        g = Reshape(x, split)  n = InstanceNormalization(g, s, zeros)  r = Reshape(n, back)
                        y = Add(r, b)
                    }""",
                    "InstanceNormalization 'InstanceNormalization_n' has a scale or bias for each group",
                ),
                Refusal(
                    """g (float[2,4,3] x) => (float[2,4,3] y)
                        <int64[3] split = {1, 2, -1}, int64[3] back = {2, 4, 3}, float[2] ones = {1, 1},
                         float[2] zeros = {0, 0}, float[4,1] b = {0, 1, 0, 2}> {
                        g = Reshape(x, split)  n = InstanceNormalization(g, ones, zeros)  r = Reshape(n, back)
                        y = Add(r, b)
                    }""",
                    "Reshape 'Reshape_g' does not split the channels into groups",
                ),
                Refusal(
                    """g (float[1,4,3] x) => (float[1,4,3,1] y)
                        <int64[3] split = {0, 2, -1}, int64[4] back = {1, 4, 3, 1}, float[2] ones = {1, 1},
                         float[2] zeros = {0, 0}, float[4,1,1] b = {0, 1, 0, 2}> {
                        g = Reshape(x, split)  n = InstanceNormalization(g, ones, zeros)  r = Reshape(n, back)
                        y = Add(r, b)
                    }""",
                    "Reshape 'Reshape_r' does not restore the shape of 'x'",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[6] y) <int64[1] s = {6}> { y = Reshape(x, s) }",
                    "Reshape 'Reshape_y' does not follow an InstanceNormalization",
                ),
            ),
            constants=("groups", "ones", "nulls", "scale", "bias"),
            where=(refuse_scaled_groups, refuse_other_shape, is_float32("x")),
            computed={**_BY_CHANNEL, "count": count_of_groups},
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": 1e8}, 0, np.nan, "ONNX defines the variance as a difference of squares, which loses all digits"
            ),
            law="group_norm(x) == (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * scale + bias",
        ),
    )
