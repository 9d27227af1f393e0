"""A scale or shift of each channel behind a batch normalization is one that the normalization can do itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, constant, constant_shape
from workbench.rewrite import Exactness, Example, Found, NoMatch, Pass, Refusal, Rule
from workbench.rewrite.scaling import keep_signs_of_zero

SCALE, SHIFT = 1, 2  # operands of BatchNormalization


def _normalization_before(graph: Graph, node: Node) -> tuple[Node, Constant]:
    """The normalization whose result the node scales or shifts, and the constant by which."""
    for value, other in (node.inputs, node.inputs[::-1]):
        norm = graph.producer(value)
        if norm is None or norm.op != "BatchNormalization" or value != norm.outputs[0]:
            continue
        factor = graph.constant(other)
        if factor is None:
            raise NoMatch(f"'{other}' is not a constant")
        return norm, factor
    raise NoMatch(f"{node} does not follow a batch normalization")


def _by_channel(graph: Graph, node: Node, factor: Constant, norm: Node) -> np.ndarray:
    """A number a channel, in double precision."""
    rank, shape = graph.rank_of(norm.outputs[0]), constant_shape(factor)
    channels = constant_shape(graph.constants[norm.inputs[SCALE]])[0]
    full = (1,) * ((rank or 0) - len(shape)) + shape
    if rank is None or rank < 2 or full not in (_channel_shape(rank, n) for n in (1, channels)):
        raise NoMatch(f"the constant of {node} is not one number a channel: its shape is {list(shape)}")
    return np.broadcast_to(factor.numpy().astype(np.float64).reshape(-1), (channels,))


def _channel_shape(rank: int, channels: int) -> tuple[int, ...]:
    return (1, channels, *(1,) * (rank - 2))


def _folded(
    graph: Graph, node: Node, change: Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
) -> Found:
    norm, factor = _normalization_before(graph, node)
    if norm.attr("training_mode", 0) or len(norm.outputs) > 1:
        raise NoMatch(f"{norm} is in training mode and computes its statistics while it runs")
    if len(graph.users(norm.outputs[0])) > 1 or graph.is_output(norm.outputs[0]):
        raise NoMatch(f"{norm} has another reader, which needs its result as it is")
    computed = [value for value in norm.inputs[SCALE : SHIFT + 1] if value not in graph.constants]
    if computed:
        raise NoMatch(f"'{computed[0]}' is not a constant")
    numbers = _by_channel(graph, node, factor, norm)
    keep_signs_of_zero(graph, node, numbers)
    old = [graph.constants[norm.inputs[index]] for index in (SCALE, SHIFT)]
    with np.errstate(over="ignore", invalid="ignore"):
        new = change(old[0].numpy().astype(np.float64), old[1].numpy().astype(np.float64), numbers)
        stored = [array.astype(tensor.dtype.numpy()) for array, tensor in zip(new, old, strict=True)]
    if not all(np.isfinite(array).all() for array in stored):
        raise NoMatch(f"the numbers of {norm} and {node} together exceed what {old[0].dtype.name.lower()} holds")
    names = [graph.fresh(f"{norm.inputs[SCALE]}_scaled")]
    names.append(graph.fresh(f"{norm.inputs[SHIFT]}_shifted", names))
    inputs = (norm.inputs[0], *names, *norm.inputs[SHIFT + 1 :])
    edit = Edit(
        remove=(norm.name, node.name),
        insert=(norm.replace(inputs=inputs, outputs=node.outputs),),
        constants={name: constant(array) for name, array in zip(names, stored, strict=True)},
    )
    verb = "scales" if node.op == "Mul" else "shifts"
    sentence = f"{node} {verb} {len(stored[0]):,} channels; folded into the scale and the shift of {norm}"
    return Found(edit, sentence, (norm.name, node.name))


def match_scale(graph: Graph, node: Node, options: Pass) -> Found:
    return _folded(graph, node, lambda scale, shift, by: (scale * by, shift * by))


def match_shift(graph: Graph, node: Node, options: Pass) -> Found:
    return _folded(graph, node, lambda scale, shift, by: (scale, shift + by))


@dataclass(frozen=True)
class FoldChannelScale(Pass):
    """(norm(x) * scale + shift) * m + a is one batch normalization, with

        scale' = scale * m
        shift' = shift * m + a

    for constants of one number a channel, or one for all. Computed in double precision, stored in
    the normalization's own. A convolution in front can then take the normalization whole.

    Must not act in training mode, on numbers that are computed while the model runs, where anything
    else reads the normalization's result, where its element type does not hold a folded number, nor where
    a negative factor turns the sign of a zero that a reader sees.

    Source: exports of Caffe models, whose BatchNorm layer is followed by a Scale layer.
    """

    title = "Fold scale and shift of channels into batch normalization"

    rules = (
        Rule(
            "scale",
            ("Mul",),
            match_scale,
            Example(
                before="""g (float[1,2,2,2] x) => (float[1,2,2,2] y)
                    <float[2] s = {2, 3}, float[2] b = {1, 1}, float[2] m = {1, 2}, float[2] v = {4, 9},
                     float[2,1,1] by = {2, 10}> {
                    n = BatchNormalization(x, s, b, m, v)
                    y = Mul(n, by)
                }""",
                after="""g (float[1,2,2,2] x) => (float[1,2,2,2] y)
                    <float[2] m = {1, 2}, float[2] v = {4, 9},
                     float[2] s_scaled = {4, 30}, float[2] b_shifted = {2, 10}> {
                    y = BatchNormalization(x, s_scaled, b_shifted, m, v)
                }""",
                sentences=(
                    "Mul 'Mul_y' scales 2 channels; folded into the scale and the shift of "
                    "BatchNormalization 'BatchNormalization_n'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1] s = {2}> { c = Relu(x)  y = Mul(c, s) }",
                    "Mul 'Mul_y' does not follow a batch normalization",
                ),
                Refusal(
                    """g (float[1,2,1,2] x) => (float[1,2,1,2] y) <float[2] s = {2, 3}> {
                        n = BatchNormalization(x, s, s, s, s)
                        y = Mul(n, s)
                    }""",
                    "the constant of Mul 'Mul_y' is not one number a channel: its shape is [2]",
                ),
                Refusal(
                    """g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1] s = {2}, float by = {-1}> {
                        n = BatchNormalization(x, s, s, s, s)
                        y = Mul(n, by)
                    }""",
                    "Mul 'Mul_y' multiplies by negative numbers, which makes -0.0 of 0.0, and weights do not",
                ),
                Refusal(
                    """g (float[1,1,2,2] x, float[1,1,1,1] by) => (float[1,1,2,2] y) <float[1] s = {2}> {
                        n = BatchNormalization(x, s, s, s, s)
                        y = Mul(n, by)
                    }""",
                    "'by' is not a constant",
                ),
                Refusal(
                    """g (float[1,1,2,2] x) => (float[1,1,2,2] y, float[1,1,2,2] n) <float[1] s = {2}> {
                        n = BatchNormalization(x, s, s, s, s)
                        y = Mul(n, s)
                    }""",
                    "BatchNormalization 'BatchNormalization_n' has another reader, which needs its result as it is",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="(x * s + b) * m == x * (s * m) + b * m",
        ),
        Rule(
            "shift",
            ("Add",),
            match_shift,
            Example(
                before="""g (float[1,2,2,2] x) => (float[1,2,2,2] y)
                    <float[2] s = {2, 3}, float[2] b = {1, 1}, float[2] m = {1, 2}, float[2] v = {4, 9},
                     float a = {5}> {
                    n = BatchNormalization(x, s, b, m, v)
                    y = Add(a, n)
                }""",
                after="""g (float[1,2,2,2] x) => (float[1,2,2,2] y)
                    <float[2] m = {1, 2}, float[2] v = {4, 9},
                     float[2] s_scaled = {2, 3}, float[2] b_shifted = {6, 6}> {
                    y = BatchNormalization(x, s_scaled, b_shifted, m, v)
                }""",
                sentences=(
                    "Add 'Add_y' shifts 2 channels; folded into the scale and the shift of "
                    "BatchNormalization 'BatchNormalization_n'",
                ),
            ),
            refusals=(
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
            law="(x * s + b) + a == x * s + (b + a)",
        ),
    )
