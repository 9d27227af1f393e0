"""Enlarge the weights of convolutions by zeros, so that one kernel computes what several computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.inference.bound_shapes import bound_shape
from workbench.ir import Constant, Graph, Node, constant_shape, lazy_constant
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.enlarging import (
    ZERO_TIMES_INFINITY,
    Enlarging,
    more_flops,
    require_gain,
    taps,
    window_of,
)
from workbench.rewrite.analyses.parallel import (
    bias_of,
    bytes_of_value,
    constant_weights,
    merge_edit,
    merge_sentence,
    readers_alike,
)


def _zeros_around(graph: Graph, node: Node, larger: Node) -> list[tuple[int, int]]:
    """How many zeros come before and after the weights of `node` along each axis of the window, so that it has the
    window of `larger`.

    Raises NoMatch unless both have the same strides, dilations, and, once enlarged, the same padding.
    """
    own, other = window_of(graph, node), window_of(graph, larger)
    if own.strides != other.strides:
        raise NoMatch(f"{node} and {larger} have other strides: {list(own.strides)} and {list(other.strides)}")
    if any(k > 1 and d != other_d for k, d, other_d in zip(own.kernel, own.dilations, other.dilations, strict=True)):
        raise NoMatch(f"{node} and {larger} have other dilations: {list(own.dilations)} and {list(other.dilations)}")
    zeros = []
    for axis, step in enumerate(other.dilations):
        before, after = other.begins[axis] - own.begins[axis], other.ends[axis] - own.ends[axis]
        fits = min(before, after) >= 0 and before % step == after % step == 0
        if not fits or own.kernel[axis] + (before + after) // step != other.kernel[axis]:
            raise NoMatch(
                f"{node} does not look at the elements in the window of {larger}: windows {list(own.kernel)} and "
                f"{list(other.kernel)}, padding {[*own.begins, *own.ends]} and {[*other.begins, *other.ends]}"
            )
        zeros.append((before // step, after // step))
    return zeros


def _refuse_outside(graph: Graph, larger: Node, node: Node) -> None:
    _zeros_around(graph, node, larger)
    if bool(bias_of(node)) != bool(bias_of(larger)):
        raise NoMatch(f"only one of {node} and {larger} has a bias")


def _refuse_not_larger(graph: Graph, node: Node, other: Node) -> None:
    if taps(graph, other) <= taps(graph, node):
        raise NoMatch(f"the window of {other} is not larger than that of {node}")
    _refuse_outside(graph, other, node)


def _flops_of_zeros(graph: Graph, node: Node, larger: Node) -> int | None:
    """FLOPs of the products with zeros, if `node` gets the window of `larger`; None if a size is not known."""
    shape, channels = bound_shape(graph, node.outputs[0]), constant_shape(constant_weights(graph, node))[1]
    return None if shape is None else 2 * math.prod(shape) * channels * (taps(graph, larger) - taps(graph, node))


def _pays(graph: Graph, node: Node, larger: Node, options: Enlarging) -> None:
    require_gain(
        _flops_of_zeros(graph, node, larger), bytes_of_value(graph, node.inputs[0]), f"enlarging {node}", options
    )


def match_smaller(graph: Graph, node: Node, options: Enlarging) -> Rewrite:
    larger = max(readers_alike(graph, node, _refuse_not_larger, "larger"), key=lambda other: taps(graph, other))
    _pays(graph, node, larger, options)

    def refuse(graph: Graph, larger: Node, other: Node) -> None:
        _refuse_outside(graph, larger, other)
        _pays(graph, other, larger, options)

    merged = [larger, *readers_alike(graph, larger, refuse)]
    merged.sort(key=lambda each: graph.position(each.name))
    weights = [_enlarged(constant_weights(graph, each), _zeros_around(graph, each, larger)) for each in merged]
    edit = merge_edit(graph, merged, larger, weights)
    *most, last = (_described(graph, each, larger) for each in merged)
    saving = merge_sentence(graph, merged, [_channels(weight) for weight in weights], f"{', '.join(most)} and {last}")
    flops = [_flops_of_zeros(graph, each, larger) for each in merged]
    return Rewrite(edit, f"{saving}, for {more_flops(flops)}", edit.remove)


def _channels(weight: Constant) -> int:
    return constant_shape(weight)[0]


def _described(graph: Graph, node: Node, larger: Node) -> str:
    own, other = (list(constant_shape(constant_weights(graph, each))[2:]) for each in (node, larger))
    return str(node) if own == other else f"{node}, enlarged from {own} to {other},"


def _enlarged(weight: Constant, zeros: Sequence[tuple[int, int]]) -> Constant:
    """The weights with zeros around each window."""
    if not any(map(any, zeros)):
        return weight
    around = [(0, 0), (0, 0), *zeros]
    shape = tuple(size + sum(more) for size, more in zip(constant_shape(weight), around, strict=True))
    return lazy_constant(lambda: np.pad(weight.numpy(), around), weight.dtype, shape)


def _pair(first: str, second: str, channels: int = 2, bias: str = "") -> str:
    """Two convolutions of one image, y with a window of one element, z with one of nine."""
    ones = ",".join(["1"] * 36)
    return f"""g (float[1,{channels},4,4] x) => (float[1,1,P,Q] y, float[1,2,R,S] z)
        <float[1,2,1,1] v = {{1,2}}, float[2,2,3,3] w = {{{ones}}}, float[1] bias = {{3}}> {{
            y = Conv<{first}>(x, v{bias})
            z = Conv<{second}>(x, w)
        }}"""


_ONES = ",".join(["1"] * 9)
_FIVE = "0,0,0,0,5,0,0,0,0"


@dataclass(frozen=True)
class EnlargeKernels(Enlarging):
    """One case: convolutions of one image with windows of different sizes become one with the largest window and a
    Split of its channels. Zeros are put around the weights of the others: a 1x1 window fits into a 3x3 one with
    padding 1. The image is read once.

    It acts where the FLOPs of the products with zeros number at most `flops_per_byte` times the bytes that are not
    moved any more, or everywhere with `force`.

    Must not act with other strides, dilations, groups or computed weights, where the windows lie around other
    elements, nor if only one of the convolutions has a bias.

    Source: Jia et al., "Optimizing DNN Computation with Relaxed Graph Substitutions", SysML 2019, which rewrites a
    module of ResNet so.
    """

    title = "Enlarge kernels, to run fewer"

    rules = (
        Rule(
            "smaller window",
            ("Conv",),
            match_smaller,
            Example(
                before=f"""g (float[1,1,4,4] x) => (float[1,1,4,4] y, float[1,1,4,4] z)
                    <float[1,1,1,1] v = {{5}}, float[1,1,3,3] w = {{{_ONES}}}> {{
                    y = Conv(x, v)
                    z = Conv<pads=[1,1,1,1]>(x, w)
                }}""",
                after=f"""g (float[1,1,4,4] x) => (float[1,1,4,4] y, float[1,1,4,4] z)
                    <float[2,1,3,3] v_merged = {{{_FIVE},{_ONES}}}, int64[2] Conv_y_sizes = {{1,1}}> {{
                    y_merged = Conv<pads=[1,1,1,1]>(x, v_merged)
                    y, z = Split<axis=1>(y_merged, Conv_y_sizes)
                }}""",
                sentences=(
                    "2 kernels, Conv 'Conv_y', enlarged from [1, 1] to [3, 3], and Conv 'Conv_z', become 1 of 1 + 1 = "
                    "2 output channels with a Split after it; 2 reads of 'x' become 1, 64 bytes less, for 256 FLOPs "
                    "more",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[1,2,4,4] x, float[1,2,1,1] w) => (float[1,1,4,4] y) { y = Conv(x, w) }",
                    "no larger Conv reads 'x'",
                ),
                Refusal(
                    """g (float[1,2,4,4] x, float[1,2,1,1] v, float[1,2,3,3] w)
                        => (float[1,1,4,4] y, float[1,1,4,4] z) {
                        y = Conv(x, v)
                        z = Conv<pads=[1,1,1,1]>(x, w)
                    }""",
                    "'v', an operand of Conv 'Conv_y', is not a constant",
                ),
                Refusal(
                    """g (float[1,1,4,4] x) => (float[1,1,4,4] y, float[1,1,4,4] z)
                        <float[1,1,1,1] v = {5}, float[1,1,1,1] w = {6}> {
                        y = Conv(x, v)
                        z = Conv(x, w)
                    }""",
                    "the window of Conv 'Conv_z' is not larger than that of Conv 'Conv_y'",
                ),
                Refusal(
                    _pair("strides=[2,2]", "pads=[1,1,1,1]"),
                    "Conv 'Conv_y' and Conv 'Conv_z' have other strides: [2, 2] and [1, 1]",
                ),
                Refusal(
                    _pair("strides=[1,1]", "strides=[1,1]"),
                    "Conv 'Conv_y' does not look at the elements in the window of Conv 'Conv_z': windows [1, 1] and "
                    "[3, 3], padding [0, 0, 0, 0] and [0, 0, 0, 0]",
                ),
                Refusal(
                    """g (float[1,1,6,6] x) => (float[1,1,5,5] y, float[1,1,4,4] z)
                        <float[1,1,2,2] v = {1,2,3,4}, float[1,1,3,3] w = {1,2,3,4,5,6,7,8,9}> {
                        y = Conv(x, v)
                        z = Conv<dilations=[2,2],pads=[1,1,1,1]>(x, w)
                    }""",
                    "Conv 'Conv_y' and Conv 'Conv_z' have other dilations: [1, 1] and [2, 2]",
                ),
                Refusal(
                    _pair("group=2", "pads=[1,1,1,1]", channels=4),
                    "Conv 'Conv_y' has 2 groups, each of which reads other channels",
                ),
                Refusal(
                    _pair("strides=[1,1]", "pads=[1,1,1,1]", bias=", bias"),
                    "only one of Conv 'Conv_y' and Conv 'Conv_z' has a bias",
                ),
                Refusal(
                    """g (float[1,1,N,4] x) => (float[1,1,N,4] y, float[1,1,N,4] z)
                        <float[1,1,1,1] v = {5}, float[1,1,3,3] w = {1,2,3,4,5,6,7,8,9}> {
                        y = Conv(x, v)
                        z = Conv<auto_pad="SAME_UPPER">(x, w)
                    }""",
                    "Conv 'Conv_z' computes its padding from the size of the image, which is not known",
                ),
                Refusal(
                    """g (float[1,1,4,4] x) => (float[1,6,4,4] y, float[1,1,4,4] z)
                        <float[6,1,1,1] v = {1,2,3,4,5,6}, float[1,1,3,3] w = {1,2,3,4,5,6,7,8,9}> {
                        y = Conv(x, v)
                        z = Conv<pads=[1,1,1,1]>(x, w)
                    }""",
                    "enlarging Conv 'Conv_y' takes 1,536 FLOPs more and moves 64 bytes less, which pays up to 1,280 "
                    "FLOPs; the option force does it nevertheless",
                ),
            ),
            exactness=Exactness.SIGNS,
            counterexample=Counterexample(
                {"x": np.inf},
                np.inf,
                np.nan,
                ZERO_TIMES_INFINITY,
                graph="""g (float[1,1,4,4] x) => (float[1,1,4,4] s)
                    <float[1,1,1,1] v = {5}, float[1,1,3,3] w = {1,1,1,1,1,1,1,1,1}> {
                    y = Conv(x, v)
                    z = Conv<pads=[1,1,1,1]>(x, w)
                    s = Add(y, z)
                }""",
            ),
        ),
    )
