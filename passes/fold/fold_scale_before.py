"""Fold a scale or shift of each channel before a convolution or matrix product into its weights and bias."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, constant, constant_shape, lazy_constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.affine import factor_and_shift, normalization, per_channel_array, split_constant_operand
from workbench.rewrite.core.guards import require_constant, require_producer, require_single_use

SCALING = ("BatchNormalization", "Mul", "Div", "Add", "Sub")


def _weight(graph: Graph, linear: Node) -> tuple[np.ndarray, int, int]:
    """The weights, the axis of the input channels in the operand, and the number of input channels."""
    weight = require_constant(graph, linear.inputs[1], linear)
    if not np.issubdtype(weight.dtype, np.floating):
        raise NoMatch(f"the weights of {linear} are {weight.dtype}, not floating-point numbers")
    if linear.op == "Conv":
        return weight, 1, weight.shape[1] * linear.attr("group")
    rank = graph.rank_of(linear.inputs[0])
    if weight.ndim != 2 or rank is None or linear.attr("transA"):
        raise NoMatch(f"{linear} has weights that are not 2-D, an input of unknown rank, or transA")
    return weight, rank - 1, weight.shape[1] if linear.attr("transB") else weight.shape[0]


def _per_input_channel(linear: Node, weight: np.ndarray, channel: np.ndarray) -> np.ndarray:
    """One number for each input channel, in a shape that broadcasts to the weights."""
    if linear.op != "Conv":
        return channel if linear.attr("transB") else channel.reshape(-1, 1)
    groups = linear.attr("group")
    by_group = np.repeat(channel.reshape(groups, -1), weight.shape[0] // groups, axis=0)  # [M, C/group]
    return by_group.reshape(*by_group.shape, *(1,) * (weight.ndim - 2))


def _bias_of_shift(linear: Node, weight: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """[output channels]: the bias that a shift before the operator amounts to."""
    product: np.ndarray = weight.astype(np.float64) * _per_input_channel(linear, weight, shift)
    if linear.op == "Conv":
        return np.asarray(product.reshape(weight.shape[0], -1).sum(axis=1))
    alpha = linear.attr("alpha") if linear.op == "Gemm" else 1.0
    return np.asarray(alpha * product.sum(axis=1 if linear.attr("transB") else 0))


def _bias(graph: Graph, linear: Node) -> np.ndarray:
    if len(linear.inputs) < 3 or not linear.inputs[2]:
        return np.zeros(())
    bias = require_constant(graph, linear.inputs[2], linear).astype(np.float64)
    if bias.ndim > 1 and bias.shape[0] > 1:
        raise NoMatch(f"the bias of {linear} differs from row to row")
    return bias.reshape(-1) * (linear.attr("beta") if linear.op == "Gemm" else 1.0)


def match_before(graph: Graph, linear: Node, pass_: Pass) -> Rewrite:
    scale_node = require_producer(graph, linear.inputs[0], SCALING, linear)
    require_single_use(graph, linear, scale_node)
    weight, axis, count = _weight(graph, linear)
    value, factor, shift = _scaling(graph, scale_node, axis, count)
    if not (np.isfinite(factor).all() and np.isfinite(shift).all() and factor.all()):
        raise NoMatch(f"{scale_node} multiplies by zero, infinity or NaN, which cannot be folded into weights")
    padded = any(linear.attr("pads", ())) or linear.attr("auto_pad") not in ("NOTSET", "VALID")
    if linear.op == "Conv" and padded and shift.any():
        raise NoMatch(f"{linear} has zero padding, to which the shift of {scale_node} does not apply")
    if linear.op == "MatMul" and shift.any() and graph.rank_of(value) != 2:
        raise NoMatch(f"{linear} has no bias, and Gemm, which has one, takes matrices only")
    scale = _per_input_channel(linear, weight, factor)
    limit = float(np.finfo(weight.dtype).max)
    new_bias = _bias(graph, linear) + _bias_of_shift(linear, weight, shift)
    if float(np.abs(weight * scale).max(initial=0)) > limit or np.abs(new_bias).max(initial=0) > limit:
        raise NoMatch(f"the weights of {linear} times the factors overflow {weight.dtype}")
    return _folded(graph, scale_node, linear, value, scale, new_bias if shift.any() else None)


def _scaling(graph: Graph, node: Node, axis: int, count: int) -> tuple[str, np.ndarray, np.ndarray]:
    """The scaled value, and the factor and the shift of each channel in double precision."""
    if node.op == "BatchNormalization":
        factor, shift = normalization(graph, node)
        if axis != 1 or factor.size != count:
            raise NoMatch(f"{node} scales an axis that is not the input-channel axis")
        return node.inputs[0], factor, shift
    value, constant_name, constant_is_first = split_constant_operand(graph, node)
    channel = per_channel_array(graph, node, value, constant_name, axis, count)
    shape = graph.shape(value)
    if math.prod(constant_shape(graph.constants[constant_name])) > 1 and (shape is None or shape[axis] != count):
        raise NoMatch(f"{node} may broadcast '{value}', which is not known to have {count} channels")
    return value, *factor_and_shift(node, channel, constant_is_first)


def _folded(graph: Graph, node: Node, linear: Node, value: str, scale: np.ndarray, bias: np.ndarray | None) -> Rewrite:
    weight = graph.constants[linear.inputs[1]]
    name = graph.fresh(f"{linear.inputs[1]}_folded")

    def compute() -> np.ndarray:
        array = weight.numpy()
        scaled: np.ndarray = array * scale
        return scaled.astype(array.dtype)

    constants: dict[str, Constant | None] = {name: lazy_constant(compute, weight.dtype, constant_shape(weight))}
    inputs, op, attributes = (value, name, *linear.inputs[2:]), linear.op, dict(linear.attributes)
    if bias is not None:
        bias_name = graph.fresh(f"{linear.name}_bias_folded", (name,))
        constants[bias_name] = constant(bias.astype(weight.dtype.numpy()))
        inputs, op = (value, name, bias_name), "Gemm" if op == "MatMul" else op
        attributes |= {"beta": 1.0} if op == "Gemm" and "beta" in attributes else {}
    folded = linear.replace(op_type=op, inputs=inputs, attributes=attributes)
    edit = Edit(remove=(node.name, linear.name), insert=(folded,), constants=constants)
    parts = "weights" if bias is None else "weights and the bias"
    sentence = f"{node} scales or shifts the channels that {linear} reads; folded into the {parts} of {linear}"
    return Rewrite(edit, sentence, (node.name, linear.name))


@dataclass(frozen=True)
class FoldScaleBefore(Pass):
    """linear(x * m + a) becomes one linear operator, with

        weight' = weight * m                  (for each input channel)
        bias'   = bias + sum(weight * a)      (over the input channels and the window)

    First operator: BatchNormalization, or Mul, Div, Add or Sub with a constant. Second: Conv (also grouped), Gemm, or
    MatMul with 2-D weights. The new weights are computed in double precision and stored in the type of the old ones.

    Does not apply:

    - if a convolution with padding would get a shift (the padding is not shifted);
    - if a factor is zero or not finite;
    - if anything else reads the scaled value;
    - in training mode.

    Source: Jacob et al., "Quantization and Training of Neural Networks" (CVPR 2018), 3.2, fold a batch normalization
    after the convolution; here it is before.
    """

    title = "Fold scale and shift before convolutions and products"

    rules = (
        Rule(
            "before",
            ("Conv", "Gemm", "MatMul"),
            match_before,
            Example(
                before="""g (float[N,2,2,2] x) => (float[N,1,2,2] y)
                    <float[1,2,1,1] w = {1, 2}, float[1,2,1,1] m = {4, -2}, float[2,1,1] a = {1, 3}> {
                    s = Mul(x, m)
                    t = Add(s, a)
                    y = Conv(t, w)
                }""",
                after="""g (float[N,2,2,2] x) => (float[N,1,2,2] y)
                    <float[1] Conv_y_bias_folded = {7}, float[1,2,1,1] w_folded_folded = {4, -4}> {
                    y = Conv(x, w_folded_folded, Conv_y_bias_folded)
                }""",
                sentences=(
                    "Add 'Add_t' scales or shifts the channels that Conv 'Conv_y' reads; "
                    "folded into the weights and the bias of Conv 'Conv_y'",
                    "Mul 'Mul_s' scales or shifts the channels that Conv 'Conv_y' reads; "
                    "folded into the weights of Conv 'Conv_y'",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[N,1,2,2] x) => (float[N,1,4,4] y) <float[1,1,1,1] w = {1}, float a = {1}> {
                        t = Add(x, a)
                        y = Conv<pads=[1,1,1,1]>(t, w)
                    }""",
                    "Conv 'Conv_y' has zero padding, to which the shift of Add 'Add_t' does not apply",
                ),
                Refusal(
                    """g (float[N,1,2,2] x) => (float[N,1,2,2] y)
                        <float[1,2,1,1] w = {1, 2}, float[1,2,1,1] m = {4, -2}> {
                        t = Mul(x, m)
                        y = Conv(t, w)
                    }""",
                    "Mul 'Mul_t' may broadcast 'x', which is not known to have 2 channels",
                ),
                Refusal(
                    "g (float[N,3,2] x) => (float[N,3,1] y) <float[2,1] w = {1, 2}, float[2] a = {1, 2}>"
                    " { t = Add(x, a)  y = MatMul(t, w) }",
                    "MatMul 'MatMul_y' has no bias, and Gemm, which has one, takes matrices only",
                ),
                Refusal(
                    "g (float[N,2] x) => (float[N,1] y) <float[2,1] w = {1, 2}, float[2] a = {1, 0}>"
                    " { t = Mul(x, a)  y = MatMul(t, w) }",
                    "Mul 'Mul_t' multiplies by zero, infinity or NaN, which cannot be folded into weights",
                ),
                Refusal(
                    "g (float[N,2] x) => (float[N,1] y) <float[2,1] w = {1e30, 2}, float[2] a = {1e30, 1}>"
                    " { t = Mul(x, a)  y = MatMul(t, w) }",
                    "the weights of MatMul 'MatMul_y' times the factors overflow float32",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[3,1] y) <float[2,1] w = {1, 2}, float a = {3}>"
                    " { t = Mul(x, a)  y = Gemm<transA=1>(t, w) }",
                    "Gemm 'Gemm_y' has weights that are not 2-D, an input of unknown rank, or transA",
                ),
                Refusal(
                    "g (float[2,2] x) => (float[2,1] y)"
                    " <float[2,1] w = {1, 2}, float a = {3}, float[2,1] b = {1, 2}>"
                    " { t = Add(x, a)  y = Gemm(t, w, b) }",
                    "the bias of Gemm 'Gemm_y' differs from row to row",
                ),
                Refusal(
                    "g (int32[2,2] x) => (int32[2,1] y) <int32[2,1] w = {1, 2}, int32 a = {3}>"
                    " { t = Mul(x, a)  y = MatMul(t, w) }",
                    "the weights of MatMul 'MatMul_y' are int32, not floating-point numbers",
                ),
                Refusal(
                    """g (float[N,2,2] x) => (float[N,2,1] y) <float[2,1] w = {1, 2}, float[2] s = {1, 1}> {
                        t = BatchNormalization(x, s, s, s, s)
                        y = MatMul(t, w)
                    }""",
                    "BatchNormalization 'BatchNormalization_t' scales an axis that is not the input-channel axis",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="(x * m + a) * w + b == x * (w * m) + (b + w * a)",
        ),
    )
