"""Fold batch normalization, in inference a factor and a summand per channel, into the convolution before it."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.affine import normalization
from workbench.rewrite.analyses.linear import LINEAR, channel_axis, channels, scaled


def _convolution_before(graph: Graph, norm: Node) -> Node:
    conv = graph.producer(norm.inputs[0])
    if conv is None or conv.op not in LINEAR:
        raise NoMatch(f"{norm} does not follow a convolution or a product with a matrix")
    if len(graph.users(conv.outputs[0])) > 1 or graph.is_output(conv.outputs[0]):
        raise NoMatch(f"{conv} has another reader, which needs its result without the normalization")
    return conv


def match_after_convolution(graph: Graph, norm: Node, pass_: Pass) -> Rewrite:
    conv = _convolution_before(graph, norm)
    factor, shift = normalization(graph, norm)
    if channel_axis(graph, conv) != 1 or channels(graph, conv) != factor.size:
        raise NoMatch(f"{norm} scales another axis than the channels of {conv}")
    folded = scaled(graph, conv, factor, shift)
    edit = Edit(
        remove=(conv.name, norm.name),
        insert=(folded.node.replace(outputs=norm.outputs),),
        constants=folded.constants,
    )
    sentence = (
        f"{norm} scales {factor.size:,} channels; "
        f"folded into the {folded.weight_count:,} weights and the bias of {conv}"
    )
    return Rewrite(edit, sentence, (conv.name, norm.name))


@dataclass(frozen=True)
class FoldBatchNorm(Pass):
    """y = (conv(x) - mean) * scale / sqrt(variance + epsilon) + shift becomes one convolution, with

        weight' = weight * scale / sqrt(variance + epsilon)        (for each output channel)
        bias'   = (bias - mean) * scale / sqrt(variance + epsilon) + shift

    Cases: Conv and ConvTranspose of one, two or three spatial axes, grouped or not, Gemm, and MatMul of
    matrices; with or without a bias. Computed in double precision, stored in the type of the weights.

    Does not apply:

    - in training mode;
    - to weights or statistics that are computed at runtime;
    - if anything else reads the convolution's result;
    - if a variance is not positive;
    - if a folded weight overflows its element type.

    `bias` is the convolution's, 0 if it has none; `shift` is the last parameter of the normalization, B.

    Source: Jacob et al., "Quantization and Training of Neural Networks" (CVPR 2018), 3.2; the unpublished plan of
    graph optimizations for buddy-compiler, "constant folding", third kind (docs/references.md, "buddy plan").
    """

    title = "Fold batch normalization into convolution"

    rules = (
        Rule(
            "after a convolution",
            ("BatchNormalization",),
            match_after_convolution,
            Example(
                before="""g (float[1,1,2,2] x) => (float[1,2,2,2] y)
                    <float[2,1,1,1] w = {1, 2}, float[2] s = {4, 9}, float[2] b = {1, 1},
                     float[2] m = {1, 2}, float[2] v = {4, 9}> {
                    c = Conv(x, w)
                    y = BatchNormalization<epsilon=0.0>(c, s, b, m, v)
                }""",
                after="""g (float[1,1,2,2] x) => (float[1,2,2,2] y)
                    <float[2,1,1,1] w_folded = {2, 6}, float[2] Conv_c_bias_folded = {-1, -5}> {
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
                    "BatchNormalization 'BatchNormalization_y' does not follow a convolution "
                    "or a product with a matrix",
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
            law="((x * w) - m) * s + b == x * (w * s) + (b - m * s)",
        ),
    )
