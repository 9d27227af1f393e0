"""Fold a scale or shift of each channel after a batch normalization into the normalization."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.affine import (
    factor_and_shift,
    per_channel_array,
    require_finite_nonzero,
    require_inference_mode,
    require_unobserved_zero_sign,
    split_constant_operand,
)
from workbench.rewrite.core.guards import require_constant, require_producer, require_single_use

_SCALE_INPUT, _SHIFT_INPUT = 1, 2  # indices of BatchNormalization's inputs `scale` and `B`
_CHANNEL_AXIS = 1


def match_scale_of_norm(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    data, constant_name, constant_is_first = split_constant_operand(graph, node)
    norm = require_producer(graph, data, ("BatchNormalization",), node)
    require_inference_mode(norm)
    require_single_use(graph, node, norm)
    scale, shift = (require_constant(graph, norm.inputs[index], norm) for index in (_SCALE_INPUT, _SHIFT_INPUT))
    channel = per_channel_array(graph, node, data, constant_name, _CHANNEL_AXIS, scale.size)
    require_finite_nonzero(node, constant_name, channel)
    require_unobserved_zero_sign(graph, node, channel)
    factor, added = factor_and_shift(node, channel, constant_is_first)
    with np.errstate(over="ignore", invalid="ignore"):
        new_scale = (scale * factor).astype(scale.dtype)
        new_shift = (shift * factor + added).astype(shift.dtype)
    if not (np.isfinite(new_scale).all() and np.isfinite(new_shift).all()):
        raise NoMatch(f"the combined constants of {norm} and {node} overflow {scale.dtype}")
    scaled = graph.fresh(f"{norm.inputs[_SCALE_INPUT]}_scaled")
    shifted = graph.fresh(f"{norm.inputs[_SHIFT_INPUT]}_shifted", (scaled,))
    edit = Edit(
        remove=(norm.name, node.name),
        insert=(norm.replace(inputs=(norm.inputs[0], scaled, shifted, *norm.inputs[3:]), outputs=node.outputs),),
        constants={scaled: constant(new_scale), shifted: constant(new_shift)},
    )
    verb = "scales" if node.op in ("Mul", "Div") else "shifts"
    sentence = f"{node} {verb} {scale.size:,} channels; folded into the scale and the shift of {norm}"
    return Rewrite(edit, sentence, (norm.name, node.name))


@dataclass(frozen=True)
class FoldChannelScale(Pass):
    """(norm(x) * scale + shift) * m + a becomes one batch normalization, with

        scale' = scale * m
        shift' = shift * m + a

    for Mul, Div, Add and Sub with a constant per channel or a scalar constant. The new constants are computed in double
    precision and stored in the type of the normalization. A convolution before it can then absorb the normalization.

    Does not apply:

    - in training mode, or if the constants are computed at runtime;
    - if anything else reads the result of the normalization;
    - if a folded constant overflows its element type;
    - if a factor is zero or not finite;
    - if a factor is negative and a user of the result can distinguish -0.0 from 0.0.

    Source: exports of Caffe models, whose BatchNorm layer is followed by a Scale layer.
    """

    title = "Fold scale and shift of channels into batch normalization"

    rules = (
        Rule(
            "scale or shift",
            ("Mul", "Div", "Add", "Sub"),
            match_scale_of_norm,
            Example(
                before="""g (float[1,2,2,2] x) => (float[1,2,2,2] y)
                    <float[2] s = {2, 3}, float[2] b = {1, 1}, float[2] m = {1, 2}, float[2] v = {4, 9},
                     float[2,1,1] by = {2, 10}, float a = {5}> {
                    n = BatchNormalization(x, s, b, m, v)
                    t = Mul(n, by)
                    y = Add(a, t)
                }""",
                after="""g (float[1,2,2,2] x) => (float[1,2,2,2] y)
                    <float[2] m = {1, 2}, float[2] v = {4, 9},
                     float[2] s_scaled_scaled = {4, 30}, float[2] b_shifted_shifted = {7, 15}> {
                    y = BatchNormalization(x, s_scaled_scaled, b_shifted_shifted, m, v)
                }""",
                sentences=(
                    "Mul 'Mul_t' scales 2 channels; folded into the scale and the shift of "
                    "BatchNormalization 'BatchNormalization_n'",
                    "Add 'Add_y' shifts 2 channels; folded into the scale and the shift of "
                    "BatchNormalization 'BatchNormalization_n'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1] s = {2}> { c = Relu(x)  y = Mul(c, s) }",
                    "Mul 'Mul_y' does not follow a BatchNormalization",
                ),
                Refusal(
                    """g (float[1,2,1,2] x) => (float[1,2,1,2] y) <float[2] s = {2, 3}> {
                        n = BatchNormalization(x, s, s, s, s)
                        y = Mul(n, s)
                    }""",
                    "'s' of Mul 'Mul_y' is not one number per channel: its shape is [2]",
                ),
                Refusal(
                    """g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1] s = {2}, float by = {-1}> {
                        n = BatchNormalization(x, s, s, s, s)
                        y = Mul(n, by)
                    }""",
                    "Mul 'Mul_y' turns 0.0 into -0.0, since a factor is negative; folded, the result would be 0.0",
                ),
                Refusal(
                    """g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1] s = {2}, float by = {0}> {
                        n = BatchNormalization(x, s, s, s, s)
                        y = Mul(n, by)
                    }""",
                    "'by' of Mul 'Mul_y' holds zero, infinity or NaN, which cannot be folded into weights",
                ),
                Refusal(
                    """g (float[1,1,2,2] x, float[1,1,1,1] by) => (float[1,1,2,2] y) <float[1] s = {2}> {
                        n = BatchNormalization(x, s, s, s, s)
                        y = Mul(n, by)
                    }""",
                    "Mul 'Mul_y' does not combine one constant and one computed value",
                ),
                Refusal(
                    """g (float[1,1,2,2] x, float[1] t) => (float[1,1,2,2] y) <float[1] s = {2}> {
                        n = BatchNormalization(x, t, s, s, s)
                        y = Mul(n, s)
                    }""",
                    "'t', an operand of BatchNormalization 'BatchNormalization_n', is not a constant",
                ),
                Refusal(
                    """g (float[1,1,2,2] x) => (float[1,1,2,2] y, float[1,1,2,2] n) <float[1] s = {2}> {
                        n = BatchNormalization(x, s, s, s, s)
                        y = Mul(n, s)
                    }""",
                    "'n' of BatchNormalization 'BatchNormalization_n' is an output of the graph",
                ),
                Refusal(
                    """g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1] s = {2}> {
                        n, m, v = BatchNormalization<training_mode=1>(x, s, s, s, s)
                        y = Add(n, s)
                    }""",
                    "BatchNormalization 'BatchNormalization_n' is in training mode "
                    "and computes its statistics while it runs",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="(x * s + b) * m + a == x * (s * m) + (b * m + a)",
        ),
    )
