"""Batch normalization at inference is one multiplication and one addition a channel: the convolution can do both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Constant, DataType, Edit, Graph, Node, constant, constant_shape, lazy_constant
from workbench.rewrite import Exactness, Example, Found, NoMatch, Pass, Refusal, Rule


def _scale_and_shift(graph: Graph, norm: Node) -> tuple[np.ndarray, np.ndarray]:
    """What the normalization multiplies by and adds, a number a channel, in double precision."""
    scale, bias, mean, variance = (graph.constants[v].numpy().astype(np.float64) for v in norm.inputs[1:5])
    with np.errstate(invalid="ignore", divide="ignore"):  # the caller refuses what is not finite
        factor = scale / np.sqrt(variance + norm.attr("epsilon", 1e-5))
        return factor, bias - mean * factor


def _folded_weight(weight: Constant, factor: np.ndarray, conv: Node) -> Constant:
    """Each output channel's weights times its factor; computed when read, so it takes no memory until then."""
    shape = constant_shape(weight)
    if conv.op == "Conv":
        channel = factor.reshape(-1, *(1,) * (len(shape) - 1))
    else:  # ConvTranspose: [C, M/group, ...], the channels of a group lie together on the first axis
        groups = conv.attr("group", 1)
        by_group = np.repeat(factor.reshape(groups, -1), shape[0] // groups, axis=0)
        channel = by_group.reshape(*shape[:2], *(1,) * (len(shape) - 2))

    def compute() -> np.ndarray:
        array = weight.numpy()
        with np.errstate(over="ignore"):  # the caller refuses what float16 does not hold
            return (array * channel.astype(np.float64)).astype(array.dtype)

    return lazy_constant(compute, weight.dtype, shape)


def _convolution_before(graph: Graph, norm: Node) -> Node:
    conv = graph.producer(norm.inputs[0])
    if conv is None or conv.op not in ("Conv", "ConvTranspose"):
        raise NoMatch(f"{norm} does not follow a convolution")
    if len(graph.users(conv.outputs[0])) > 1 or graph.is_output(conv.outputs[0]):
        raise NoMatch(f"{conv} has another reader, which needs its result without the normalization")
    return conv


def match_after_convolution(graph: Graph, norm: Node, options: Pass) -> Found:
    conv = _convolution_before(graph, norm)
    if norm.attr("training_mode", 0) or len(norm.outputs) > 1:
        raise NoMatch(f"{norm} is in training mode and computes its statistics while it runs")
    computed = [v for v in (*conv.inputs[1:], *norm.inputs[1:]) if v and v not in graph.constants]
    if computed:
        raise NoMatch(f"'{computed[0]}' is not a constant")
    factor, shift = _scale_and_shift(graph, norm)
    if not (np.isfinite(factor).all() and np.isfinite(shift).all()):
        raise NoMatch(f"{norm} divides by a variance that is not positive")
    weight = graph.constants[conv.inputs[1]]
    old_bias = graph.constants[conv.inputs[2]].numpy() if len(conv.inputs) > 2 and conv.inputs[2] else 0.0
    with np.errstate(over="ignore"):
        bias = (old_bias * factor + shift).astype(weight.dtype.numpy())
    folded_weight = _folded_weight(weight, factor, conv)
    if weight.dtype == DataType.FLOAT16 and not (np.isfinite(bias).all() and np.isfinite(folded_weight.numpy()).all()):
        raise NoMatch(f"the weights of {conv} times the factors of {norm} exceed what float16 holds")

    weight_name = graph.fresh(f"{conv.inputs[1]}_folded")
    bias_name = graph.fresh(f"{conv.name}_bias_folded", (weight_name,))
    folded = conv.replace(inputs=(conv.inputs[0], weight_name, bias_name), outputs=norm.outputs)
    edit = Edit(
        remove=(conv.name, norm.name),
        insert=(folded,),
        constants={
            weight_name: folded_weight,
            bias_name: constant(bias),
        },
    )
    numbers = int(np.prod(constant_shape(weight)))
    sentence = f"{norm} scales {factor.size:,} channels; folded into the {numbers:,} weights and the bias of {conv}"
    return Found(edit, sentence, (conv.name, norm.name))


@dataclass(frozen=True)
class FoldBatchNorm(Pass):
    """y = (conv(x) - mean) * scale / sqrt(variance + epsilon) + bias becomes one convolution, with

        weight' = weight * scale / sqrt(variance + epsilon)        (an output channel at a time)
        bias'   = (bias - mean) * scale / sqrt(variance + epsilon) + shift

    Cases: Conv and ConvTranspose of one, two or three spatial axes, grouped or not, with or
    without a bias. Computed in double precision, stored in the weights' own.

    Must not act in training mode, on weights or statistics that are computed while the model
    runs, where anything else reads the convolution's result, where a variance is not positive, nor
    where float16 does not hold a folded weight.

    Source: Jacob et al., "Quantization and Training of Neural Networks" (CVPR 2018), 3.2;
    the buddy compiler's plan, "constant folding", third kind.
    """

    title = "Fold batch normalization into convolution"

    rules = (
        Rule(
            "after a convolution",
            ("BatchNormalization",),
            match_after_convolution,
            Example(
                before="""g (float[1,1,2,2] x) => (float[1,2,2,2] y)
                    <float[2,1,1,1] w = {1, 2}, float[2] s = {2, 3}, float[2] b = {1, 1},
                     float[2] m = {1, 2}, float[2] v = {4, 9}> {
                    c = Conv(x, w)
                    y = BatchNormalization<epsilon=0.0>(c, s, b, m, v)
                }""",
                after="""g (float[1,1,2,2] x) => (float[1,2,2,2] y)
                    <float[2,1,1,1] w_folded = {1, 2}, float[2] Conv_c_bias_folded = {0, -1}> {
                    y = Conv(x, w_folded, Conv_c_bias_folded)
                }""",
                sentences=(
                    "BatchNormalization 'BatchNormalization_y' scales 2 channels; "
                    "folded into the 2 weights and the bias of Conv 'Conv_c'",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[1,1,2,2] x) => (float[1,1,2,2] y, float[1,1,2,2] c)
                        <float[1,1,1,1] w = {1}, float[1] s = {2}> {
                        c = Conv(x, w)
                        y = BatchNormalization(c, s, s, s, s)
                    }""",
                    "Conv 'Conv_c' has another reader, which needs its result without the normalization",
                ),
                Refusal(
                    """g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1] s = {2}> {
                        c = Relu(x)
                        y = BatchNormalization(c, s, s, s, s)
                    }""",
                    "BatchNormalization 'BatchNormalization_y' does not follow a convolution",
                ),
                Refusal(
                    """g (float[1,1,2,2] x, float[1,1,1,1] w) => (float[1,1,2,2] y) <float[1] s = {2}> {
                        c = Conv(x, w)
                        y = BatchNormalization(c, s, s, s, s)
                    }""",
                    "'w' is not a constant",
                ),
                Refusal(
                    """g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1,1,1,1] w = {1}, float[1] s = {2}> {
                        c = Conv(x, w)
                        y, m, v = BatchNormalization<training_mode=1>(c, s, s, s, s)
                    }""",
                    "BatchNormalization 'BatchNormalization_y' is in training mode "
                    "and computes its statistics while it runs",
                ),
                Refusal(
                    """g (float[1,1,2,2] x) => (float[1,1,2,2] y)
                        <float[1,1,1,1] w = {1}, float[1] s = {2}, float[1] v = {-1}> {
                        c = Conv(x, w)
                        y = BatchNormalization(c, s, s, s, v)
                    }""",
                    "BatchNormalization 'BatchNormalization_y' divides by a variance that is not positive",
                ),
            ),
            exactness=Exactness.ROUNDING,
        ),
    )
