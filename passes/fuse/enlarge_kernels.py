"""Enlarge the weights of convolutions by zeros, so that one kernel computes what several computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.analysis.inference.bound_shapes import bound_shape, bytes_of_value
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
    constant_weights,
    merge_edit,
    merge_sentence,
    mergeable_readers,
)


def _zeros_around(graph: Graph, node: Node, larger: Node) -> list[tuple[int, int]]:
    """How many zeros come before and after the weights of `node` along each axis of the window, so that it has the
    window of `larger`.

    Raises NoMatch unless both have the same strides, dilations, and, once enlarged, the same padding.
    """
    window, target = window_of(graph, node), window_of(graph, larger)
    if window.strides != target.strides:
        raise NoMatch(f"{node} and {larger} have different strides: {list(window.strides)} and {list(target.strides)}")
    if any(
        k > 1 and d != target_d
        for k, d, target_d in zip(window.kernel, window.dilations, target.dilations, strict=True)
    ):
        raise NoMatch(
            f"{node} and {larger} have different dilations: {list(window.dilations)} and {list(target.dilations)}"
        )
    zeros = []
    for axis, step in enumerate(target.dilations):
        before, after = target.begins[axis] - window.begins[axis], target.ends[axis] - window.ends[axis]
        fits = min(before, after) >= 0 and before % step == after % step == 0
        if not fits or window.kernel[axis] + (before + after) // step != target.kernel[axis]:
            raise NoMatch(
                f"the window of {node} does not lie inside that of {larger}: windows {list(window.kernel)} and "
                f"{list(target.kernel)}, padding {[*window.begins, *window.ends]} and {[*target.begins, *target.ends]}"
            )
        zeros.append((before // step, after // step))
    return zeros


def _require_window_inside(graph: Graph, larger: Node, node: Node) -> None:
    _zeros_around(graph, node, larger)
    if bool(bias_of(node)) != bool(bias_of(larger)):
        raise NoMatch(f"only one of {node} and {larger} has a bias")


def _require_larger(graph: Graph, node: Node, other: Node) -> None:
    if taps(graph, other) <= taps(graph, node):
        raise NoMatch(f"the window of {other} is not larger than that of {node}")
    _require_window_inside(graph, other, node)


def _flops_of_zeros(graph: Graph, node: Node, larger: Node) -> int | None:
    """FLOPs of the products with zeros, if `node` gets the window of `larger`; None if a size is not known."""
    shape, channels = bound_shape(graph, node.outputs[0]), constant_shape(constant_weights(graph, node))[1]
    return None if shape is None else 2 * math.prod(shape) * channels * (taps(graph, larger) - taps(graph, node))


def _require_gain_of(graph: Graph, node: Node, larger: Node, pass_: Enlarging) -> None:
    require_gain(
        _flops_of_zeros(graph, node, larger), bytes_of_value(graph, node.inputs[0]), f"enlarging {node}", pass_
    )


def match_smaller(graph: Graph, node: Node, pass_: Enlarging) -> Rewrite:
    candidates = mergeable_readers(graph, node, _require_larger, described_as="larger")
    larger = max(candidates, key=lambda other: taps(graph, other))
    _require_gain_of(graph, node, larger, pass_)

    def refuse(graph: Graph, larger: Node, other: Node) -> None:
        _require_window_inside(graph, larger, other)
        _require_gain_of(graph, other, larger, pass_)

    merged = [larger, *mergeable_readers(graph, larger, refuse)]
    merged.sort(key=lambda each: graph.position(each.name))
    weights = [_enlarged(constant_weights(graph, each), _zeros_around(graph, each, larger)) for each in merged]
    edit = merge_edit(graph, merged, larger, weights)
    *first_texts, last_text = (_described(graph, each, larger) for each in merged)
    kernels = f"{', '.join(first_texts)} and {last_text}"
    sentence = merge_sentence(graph, merged, [_channels(weight) for weight in weights], kernels)
    flops = [_flops_of_zeros(graph, each, larger) for each in merged]
    return Rewrite(edit, f"{sentence}, for {more_flops(flops)}", edit.remove)


def _channels(weight: Constant) -> int:
    return constant_shape(weight)[0]


def _described(graph: Graph, node: Node, larger: Node) -> str:
    size, larger_size = (list(constant_shape(constant_weights(graph, each))[2:]) for each in (node, larger))
    return str(node) if size == larger_size else f"{node} (enlarged from {size} to {larger_size})"


def _enlarged(weight: Constant, zeros: Sequence[tuple[int, int]]) -> Constant:
    """The weights with these numbers of zeros before and after each axis of the window."""
    if not any(map(any, zeros)):
        return weight
    pad_width = [(0, 0), (0, 0), *zeros]
    shape = tuple(
        size + sum(zeros_of_axis) for size, zeros_of_axis in zip(constant_shape(weight), pad_width, strict=True)
    )
    return lazy_constant(lambda: np.pad(weight.numpy(), pad_width), weight.dtype, shape)


def _pair(first: str, second: str, channels: int = 2, bias: str = "") -> str:
    """Two convolutions with the same input, y with a window of one element, z with one of nine."""
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
    """One case: convolutions with the same input and windows of different sizes become one with the largest window and
    a Split of its channels. Zeros are put around the weights of the others: a 1x1 window fits into a 3x3 one with
    padding 1. The input is read once.

    It acts where the products with zeros cost at most `flops_per_byte` FLOPs for each byte no longer moved, or
    everywhere with `force`.

    Does not apply:

    - if strides or dilations differ;
    - with groups or non-constant weights;
    - if the smaller window does not lie inside the larger one;
    - if only one of the convolutions has a bias.

    Source: Jia et al., "Optimizing DNN Computation with Relaxed Graph Substitutions", SysML 2019, which rewrites a
    ResNet module in this way.
    """

    title = "Enlarge kernels so that fewer run"

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
                    "2 kernels, Conv 'Conv_y' (enlarged from [1, 1] to [3, 3]) and Conv 'Conv_z', become one "
                    "kernel with 2 (1 + 1) output channels, followed by a Split; 2 reads of 'x' become 1, 64 bytes "
                    "less, for 256 FLOPs more",
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
                    "Conv 'Conv_y' and Conv 'Conv_z' have different strides: [2, 2] and [1, 1]",
                ),
                Refusal(
                    _pair("strides=[1,1]", "strides=[1,1]"),
                    "the window of Conv 'Conv_y' does not lie inside that of Conv 'Conv_z': windows [1, 1] and "
                    "[3, 3], padding [0, 0, 0, 0] and [0, 0, 0, 0]",
                ),
                Refusal(
                    """g (float[1,1,6,6] x) => (float[1,1,5,5] y, float[1,1,4,4] z)
                        <float[1,1,2,2] v = {1,2,3,4}, float[1,1,3,3] w = {1,2,3,4,5,6,7,8,9}> {
                        y = Conv(x, v)
                        z = Conv<dilations=[2,2],pads=[1,1,1,1]>(x, w)
                    }""",
                    "Conv 'Conv_y' and Conv 'Conv_z' have different dilations: [1, 1] and [2, 2]",
                ),
                Refusal(
                    _pair("group=2", "pads=[1,1,1,1]", channels=4),
                    "Conv 'Conv_y' has 2 groups, each of which reads different channels",
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
                    "enlarging Conv 'Conv_y' takes 1,536 FLOPs more and moves 64 bytes less, which is worth at most "
                    "1,280 "
                    "FLOPs; in mode fast the option force does it nevertheless",
                ),
            ),
            exactness=Exactness.FAST_MATH,
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
