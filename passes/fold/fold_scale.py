"""Fold a scale or shift of each channel after a convolution or matrix product into its weights and bias."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.affine import (
    factor_and_shift,
    per_channel_array,
    require_finite_nonzero,
    require_unobserved_zero_sign,
    split_constant_operand,
)
from workbench.rewrite.analyses.linear import LINEAR, channel_axis, channels, scaled
from workbench.rewrite.core.guards import permutation, require_single_use


def _linear_before(graph: Graph, node: Node, value: str) -> tuple[Node, int]:
    """The linear operator that produces `value`, perhaps through Transposes, and the axis of its channels there."""
    perms = []
    reader, producer = node, graph.producer(value)
    while producer is not None and producer.op == "Transpose":
        require_single_use(graph, reader, producer)
        perms.append(permutation(graph, producer))
        reader, producer = producer, graph.producer(producer.inputs[0])
    if producer is None or producer.op not in LINEAR:
        raise NoMatch(f"{node} does not follow a convolution or a product with a matrix")
    require_single_use(graph, reader, producer)
    axis = channel_axis(graph, producer)
    if axis is None:
        raise NoMatch(f"the rank of the result of {producer} is not known")
    for perm in reversed(perms):
        axis = perm.index(axis)
    return producer, axis


def match_scale_after(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return _folded(graph, node, keeps_signs=True)


def match_sign_change(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    return _folded(graph, node, keeps_signs=False)


def _folded(graph: Graph, node: Node, keeps_signs: bool) -> Rewrite:
    """The rewrite of both rules. keeps_signs: whether the signs of zeros must stay."""
    data, constant_name, constant_is_first = split_constant_operand(graph, node)
    linear, axis = _linear_before(graph, node, data)
    numbers = per_channel_array(graph, node, data, constant_name, axis, channels(graph, linear))
    require_finite_nonzero(node, constant_name, numbers)
    if keeps_signs:
        require_unobserved_zero_sign(graph, node, numbers)
    folded = scaled(graph, linear, *factor_and_shift(node, numbers, constant_is_first))
    edit = Edit(
        remove=(linear.name, node.name),
        insert=(folded.node,),
        replace={node.outputs[0]: data},
        constants=folded.constants,
    )
    verb, parts = ("scales", "weights and the bias") if node.op in ("Mul", "Div") else ("shifts", "bias")
    sentence = f"{node} {verb} {numbers.size:,} channels; folded into the {parts} of {linear}"
    return Rewrite(edit, sentence, (linear.name, node.name))


@dataclass(frozen=True)
class FoldScale(Pass):
    """linear(x) * m + a becomes one linear operator, with

        weight' = weight * m      (for each output channel)
        bias'   = bias * m + a

    for constants of one number per channel, or of one for all. Cases: Mul, Div by a constant, Add and Sub after Conv,
    ConvTranspose, Gemm or MatMul, also with Transposes between, which only move channels. A MatMul of matrices that
    gets a bias becomes Gemm. Computed in double precision, stored in the type of the weights.

    Does not apply:

    - if anything else reads an intermediate value;
    - if a factor is zero or not finite;
    - if a folded number overflows its element type;
    - except in mode "fast", if a factor is negative and a user of the result can distinguish -0.0 from 0.0. A sum with
      a value that holds no -0.0, such as a residual branch, cannot.

    Source: Jacob et al., "Quantization and Training of Neural Networks" (CVPR 2018), 3.2, without the
    normalization; ONNX Runtime's ConvMulFusion and ConvAddFusion.
    """

    title = "Fold scale and shift into convolutions and products"

    rules = (
        Rule(
            "scale or shift",
            ("Mul", "Div", "Add", "Sub"),
            match_scale_after,
            Example(
                before="""g (float[N,1,2,2] x) => (float[N,2,2,2] y)
                    <float[2,1,1,1] w = {1, 2}, float[2,1,1] m = {4, 3}, float[2] a = {1, 3}> {
                    c = Conv(x, w)
                    s = Mul(c, m)
                    t = Transpose<perm=[0,2,3,1]>(s)
                    u = Sub(t, a)
                    y = Transpose<perm=[0,3,1,2]>(u)
                }""",
                after="""g (float[N,1,2,2] x) => (float[N,2,2,2] y)
                    <float[2,1,1,1] w_folded = {4, 6}, float[2] Conv_c_bias_folded_1 = {-1, -3}> {
                    c = Conv(x, w_folded, Conv_c_bias_folded_1)
                    t = Transpose<perm=[0,2,3,1]>(c)
                    y = Transpose<perm=[0,3,1,2]>(t)
                }""",
                sentences=(
                    "Mul 'Mul_s' scales 2 channels; folded into the weights and the bias of Conv 'Conv_c'",
                    "Sub 'Sub_u' shifts 2 channels; folded into the bias of Conv 'Conv_c'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,2] x, float[2] z) => (float[N,2] y) { y = Mul(x, z) }",
                    "Mul 'Mul_y' does not combine one constant and one computed value",
                ),
                Refusal(
                    "g (float[N,2] x) => (float[N,2] y) <float[2] m = {1, 2}> { a = Relu(x)  y = Mul(a, m) }",
                    "Mul 'Mul_y' does not follow a convolution or a product with a matrix",
                ),
                Refusal(
                    """g (float[N,1] x) => (float[N,2] y, float[N,2] c) <float[1,2] w = {1, 2}, float[2] m = {1, 2}> {
                        c = MatMul(x, w)
                        y = Mul(c, m)
                    }""",
                    "'c' of MatMul 'MatMul_c' is an output of the graph",
                ),
                Refusal(
                    """g (float[2,1] x) => (float[2,2] y) <float[1,2] w = {1, 2}, float[2,1] m = {1, 2}> {
                        c = MatMul(x, w)
                        y = Mul(c, m)
                    }""",
                    "'m' of Mul 'Mul_y' is not one number per channel: its shape is [2, 1]",
                ),
                Refusal(
                    """g (float[N,1] x) => (float[1,N,2] y) <float[1,2] w = {1, 2}, float[1,1,2] m = {1, 2}> {
                        c = MatMul(x, w)
                        y = Mul(c, m)
                    }""",
                    "'m' of Mul 'Mul_y' has more axes than the channels it would be folded into",
                ),
                Refusal(
                    """g (float[N,1] x) => (float[N,2] y) <float[1,2] w = {1, 2}, float[2] m = {1, -2}> {
                        c = MatMul(x, w)
                        y = Mul(c, m)
                    }""",
                    "Mul 'Mul_y' turns 0.0 into -0.0, since a factor is negative; folded, the result would be 0.0",
                ),
                Refusal(
                    """g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}, float[2] m = {1, -2}> {
                        c = MatMul(x, w)
                        s = Mul(c, m)
                        y = Add(x, s)
                    }""",
                    "Mul 'Mul_s' turns 0.0 into -0.0, since a factor is negative; folded, the result would be 0.0",
                ),
                Refusal(
                    """g (float[N,1] x) => (float[N,2] y) <float[1,2] w = {1, 2}, float[2] m = {1, 0}> {
                        c = MatMul(x, w)
                        y = Mul(c, m)
                    }""",
                    "'m' of Mul 'Mul_y' holds zero, infinity or NaN, which cannot be folded into weights",
                ),
                Refusal(
                    """g (float[N,1] x) => (float[N,2] y) <float[1,2] w = {1, 2}, float[2] m = {1, 2}> {
                        c = MatMul(x, w)
                        y = Div(m, c)
                    }""",
                    "Div 'Div_y' divides by a computed value",
                ),
                Refusal(
                    """g (float[N,1] x) => (float[N,2] y) <float[1,2] w = {1e30, 2}, float[2] m = {1e30, 2}> {
                        c = MatMul(x, w)
                        y = Mul(c, m)
                    }""",
                    "the weights of MatMul 'MatMul_c' times the factors overflow float",
                ),
                Refusal(
                    """g (float[N,3,1] x) => (float[N,3,2] y) <float[1,2] w = {1, 2}, float[2] m = {1, 2}> {
                        c = MatMul(x, w)
                        y = Add(c, m)
                    }""",
                    "MatMul 'MatMul_c' has no bias, and Gemm, which has one, takes matrices only",
                ),
                Refusal(
                    "g (float[N,1] x, float[1,2] w) => (float[N,2] y) <float[2] m = {1, 2}>"
                    " { c = MatMul(x, w)  y = Mul(c, m) }",
                    "'w' is not a constant",
                ),
                Refusal(
                    """g (float[2,1] x, float[2,2] b) => (float[2,2] y) <float[1,2] w = {1, 2}, float[2] m = {1, 2}> {
                        c = Gemm(x, w, b)
                        y = Mul(c, m)
                    }""",
                    "'b' is not a constant",
                ),
                Refusal(
                    """g (float[2,1] x) => (float[2,2] y)
                        <float[1,2] w = {1, 2}, float[2] m = {1, 2}, float[2,1] b = {1, 2}> {
                        c = Gemm(x, w, b)
                        y = Mul(c, m)
                    }""",
                    "the bias of Gemm 'Gemm_c' differs from row to row",
                ),
                Refusal(
                    """g (float[N,2,1] x) => (float[N,2,2] y) <float[1,1,2] w = {1, 2}, float[2] m = {1, 2}> {
                        c = MatMul(x, w)
                        y = Mul(c, m)
                    }""",
                    "the second operand of MatMul 'MatMul_c' is not a matrix: its shape is [1, 1, 2]",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="(x * w + b) * m + a == x * (w * m) + (b * m + a)",
        ),
        Rule(
            "scale that turns signs",
            ("Mul", "Div"),
            match_sign_change,
            Example(
                before="g (float[N,1] x) => (float[N,2] y) <float[1,2] w = {1, 2}, float[2] m = {1, -2}>"
                " { c = MatMul(x, w)  y = Mul(c, m) }",
                after="g (float[N,1] x) => (float[N,2] y) <float[1,2] w_folded = {1, -4}> { y = MatMul(x, w_folded) }",
                sentences=("Mul 'Mul_y' scales 2 channels; folded into the weights and the bias of MatMul 'MatMul_c'",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,2] x) => (float[N,2] y) <float[2] m = {1, 2}> { a = Relu(x)  y = Mul(a, m) }",
                    "Mul 'Mul_y' does not follow a convolution or a product with a matrix",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 0}, -0.0, 0, "a matrix product turns -0 into 0"),
            law="(x * w + b) * m == x * (w * m) + b * m",
        ),
    )

    extra_examples = (
        Example(
            title="Negative numbers in front of a residual sum, in which the sign of a zero is lost",
            before="""g (float[N,2] x) => (float[2,N] y) <float[2,2] w = {1, 2, 3, 4}, float[2] m = {1, -2}> {
                c = MatMul(x, w)
                s = Mul(c, m)
                t = Transpose(s)
                e = Exp(x)
                r = Transpose(e)
                y = Add(r, t)
            }""",
            after="""g (float[N,2] x) => (float[2,N] y) <float[2,2] w_folded = {1, -4, 3, -8}> {
                c = MatMul(x, w_folded)
                t = Transpose(c)
                e = Exp(x)
                r = Transpose(e)
                y = Add(r, t)
            }""",
            sentences=("Mul 'Mul_s' scales 2 channels; folded into the weights and the bias of MatMul 'MatMul_c'",),
        ),
    )
