"""Fuse the Add of a bias and a Dropout in training into one operator, with the mask as an operand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import DataType
from workbench.ops.dropout import scale_of
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rule
from workbench.rewrite.analyses.bias import (
    axes_of_one,
    axis_of_bias,
    bias_of_one_axis,
    is_bias,
    is_computed_with_axes_of_one,
)
from workbench.rewrite.core.counterexamples import WrongLaw
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match

DEFAULT_RATIO = 0.5  # ONNX's
AT_MOST_32_BITS = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)  # `scale` has the 32 bits of ONNX's attributes

_DROPOUT = "Dropout(Add(a, bias), ratio | None, training | None, **seed)"
_MASK = "mask = workbench.random_mask_like(a, rate=rate, **seed)"
_FUSED = "y = workbench.fused_bias_add_mask_scale(a, along, mask, axis=axis, scale=scale)"
_SQUEEZED = "along = Squeeze(bias, ones)"
_SENTENCE = (
    "{nodes[0]} and {root} in training become one pass over '{a}', along axis {axis} and with scale {scale:g}; its "
    "mask is drawn at rate {rate:g} from the shape of '{a}', and the sum is not stored"
)


def in_training(match: Match) -> None:
    training = match.get("training")
    flag = match.graph.constant(training) if training else None
    if flag is None or not flag.numpy().any():
        raise NoMatch(f"{match.root} is not in training mode, so it drops nothing; remove_dropout removes it")


def is_narrow(match: Match) -> None:
    type_ = match.graph.tensor_type(match["a"])
    if type_ is None or type_.dtype not in AT_MOST_32_BITS:
        raise NoMatch(f"'{match['a']}' may have more bits than the scale, which has 32")


def is_share(match: Match) -> None:
    if not 0 <= rate(match) <= 1:
        raise NoMatch(f"the ratio of {match.root} is {rate(match):g}, which is not between 0 and 1")


def rate(match: Match) -> float:
    return float(np.float32(match.data.get("ratio", DEFAULT_RATIO)))


def _rule(
    name: str,
    results: str,
    example: Example,
    refusals: tuple[Refusal, ...],
    wrong_laws: tuple[WrongLaw, ...] = (),
    squeezes: bool = False,
) -> Rule:
    """squeezes: whether the bias is computed and has axes of size 1, which a Squeeze removes while it runs."""
    computed_bias = {"ones": axes_of_one} if squeezes else {"along": bias_of_one_axis}
    return graph_rule(
        name,
        f"{results} = {_DROPOUT}",
        "\n".join((_MASK, *((_SQUEEZED,) if squeezes else ()), _FUSED)),
        _SENTENCE,
        example,
        refusals,
        numbers=("ratio",),
        constants=("training",),
        where=(in_training, is_narrow, is_computed_with_axes_of_one if squeezes else is_bias, is_share),
        computed={"rate": rate, "axis": axis_of_bias, "scale": lambda match: scale_of(rate(match)), **computed_bias},
        exactness=Exactness.ROUNDING,
        law="(x + z) * mask / kept == (x + z) * mask * (1 / kept) if kept > 0",
        wrong_laws=wrong_laws,
    )


def _sum_then(line: str, inputs: str = "float[5] b", ratio: str = "0.5") -> str:
    constants = f"float r = {{{ratio}}}, bool t = {{1}}"
    return f"g (float[2,4,5] x, {inputs}) => (float[2,4,5] y) <{constants}> {{ s = Add(x, b)  {line} }}"


@dataclass(frozen=True)
class FuseBiasDropout(Pass):
    """Dropout(a + bias) in training mode, with the bias along one axis of `a`, becomes two operators of the workbench:

    - mask = random_mask_like(a, rate, seed), bool of the shape of `a`, which depends on that shape and the seed alone;
    - y = fused_bias_add_mask_scale(a, bias, mask, axis, scale), which is (a + bias) * mask * scale.

    The mask is drawn from `a` before the bias is added, so nothing waits for the sum, and the sum is not stored. If
    the Dropout's second result is read, it is the mask. A bias that is computed, with axes of size 1 beside its own, is
    squeezed first. A seed stays; without one each run draws another mask, as before. Both operators are functions of
    standard operators in an exported file.

    The scale is 1 / (1 - rate). OneFlow's rewrite copies `rate` into `scale`, and its test cannot see that: it has
    rate 1, at which everything is zero. At rate 1 the scale is 0 as in PyTorch; ONNX's ratios end before 1, and ONNX
    Runtime refuses a Dropout of ratio 1, but runs what is made of it here.

    The masks are equal to the last bit. The products differ by rounding, since Dropout divides by 1 - rate, except
    where that is a power of two (rates 0, 0.5, 0.75).

    OneFlow's Dropout may add a further operand to its result (`_add_to_output`), and is not fused then, since that sum
    would be lost. ONNX's Dropout has no such operand: a residual Add after it is a node of its own and stays.

    Does not apply:

    - in inference;
    - if ratio or training mode are computed at runtime;
    - if the other summand is not a bias along one axis;
    - if anything else reads the sum;
    - to double, for which the scale's 32 bits are too few.

    Source: OneFlow, https://github.com/Oneflow-Inc/oneflow/pull/7709; Narayanan et al., "Efficient Large-Scale Language
    Model Training on GPU Clusters Using Megatron-LM", SC 2021, section 4.2.
    """

    title = "Fuse bias and Dropout"

    rules = (
        _rule(
            "bias and dropout",
            "y",
            Example(
                before="""g (float[2,3,4,5] x, float[5] b) => (float[2,3,4,5] y) <float r = {0.9}, bool t = {1}> {
                    s = Add(x, b)
                    y = Dropout<seed=7>(s, r, t)
                }""",
                after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                    g (float[2,3,4,5] x, float[5] b) => (float[2,3,4,5] y) {
                        y_random_mask_like = workbench.random_mask_like<seed=7, rate=0.9>(x)
                        y = workbench.fused_bias_add_mask_scale<axis=3, scale=9.999998>(x, b, y_random_mask_like)
                    }""",
                sentences=(
                    "Add 'Add_s' and Dropout 'Dropout_y' in training become one pass over 'x', along axis 3 and with "
                    "scale 10; its mask is drawn at rate 0.9 from the shape of 'x', and the sum is not stored",
                ),
            ),
            refusals=(
                Refusal(
                    _sum_then("y = Dropout(s, r)"),
                    "Dropout 'Dropout_y' is not in training mode, so it drops nothing; remove_dropout removes it",
                ),
                Refusal(
                    _sum_then("y = Dropout(s, r, u)", "float[5] b, bool u"),
                    "'u', an operand of Dropout 'Dropout_y', is not a constant",
                ),
                Refusal(
                    _sum_then("y = Dropout(s, q, t)", "float[5] b, float q"),
                    "'q', an operand of Dropout 'Dropout_y', is not a constant",
                ),
                Refusal(
                    _sum_then("y = Dropout(s, r, t)", ratio="1.5"),
                    "the ratio of Dropout 'Dropout_y' is 1.5, which is not between 0 and 1",
                ),
                Refusal(
                    _sum_then("y = Dropout(s, r, t)", "float[2,4,5] b"),
                    "neither operand of Add 'Add_s' is a bias along one axis of the other",
                ),
                Refusal(
                    _sum_then("y = Dropout(s, r, t)", "float[1] b"),
                    "neither operand of Add 'Add_s' is a bias along one axis of the other",
                ),
                Refusal(
                    _sum_then("y = Dropout(s, r, t)", "float[4,1] b"),
                    "'b' of Add 'Add_s' is computed, and has 2 axes; a bias has one",
                ),
                Refusal(
                    """g (float[2,5] x, float[5] b) => (float[2,5] y, float[2,5] z) <float r = {0.5}, bool t = {1}> {
                        s = Add(x, b)
                        y = Dropout(s, r, t)
                        z = Neg(s)
                    }""",
                    "Neg 'Neg_z' reads 's' of Add 'Add_s' too",
                ),
                Refusal(
                    """g (float[2,5] x, float[5] b) => (float[2,5] y, bool[2,5] m) <float r = {0.5}, bool t = {1}> {
                        s = Add(x, b)
                        y, m = Dropout(s, r, t)
                    }""",
                    "'m' of Dropout 'Dropout_y' is an output of the graph",
                ),
                Refusal(
                    """g (double[2,5] x, double[5] b) => (double[2,5] y) <float r = {0.1}, bool t = {1}> {
                        s = Add(x, b)
                        y = Dropout(s, r, t)
                    }""",
                    "'x' may have more bits than the scale, which has 32",
                ),
                Refusal(
                    """g (float[2,5] x, float[5] b) => (float[2,5] y) <float r = {0.1}, bool t = {1}> {
                        s = Sub(x, b)
                        y = Dropout(s, r, t)
                    }""",
                    "Dropout 'Dropout_y' does not follow an Add",
                ),
            ),
            wrong_laws=(
                WrongLaw(
                    "(x + z) * mask / kept == (x + z) * mask * (1 - kept) if kept > 0",
                    {"x": 2, "z": 1, "mask": 1, "kept": 0.5},
                    (6, 1.5),
                    "OneFlow's rewrite copies the rate, 1 - kept, into the scale; its test at rate 1 has only zeros.",
                ),
            ),
        ),
        _rule(
            "bias and dropout with its mask",
            "y, mask",
            Example(
                before="""g (float[2,3,4] x) => (float[2,3,4] y, bool[2,3,4] m)
                    <float[3,1] b = {1, 2, 3}, float r = {0.5}, bool t = {1}> {
                    s = Add(x, b)
                    y, m = Dropout<seed=7>(s, r, t)
                }""",
                after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                    g (float[2,3,4] x) => (float[2,3,4] y, bool[2,3,4] m) <float[3] y_along = {1, 2, 3}> {
                        m = workbench.random_mask_like<seed=7, rate=0.5>(x)
                        y = workbench.fused_bias_add_mask_scale<axis=1, scale=2.0>(x, y_along, m)
                    }""",
                sentences=(
                    "Add 'Add_s' and Dropout 'Dropout_y' in training become one pass over 'x', along axis 1 and with "
                    "scale 2; its mask is drawn at rate 0.5 from the shape of 'x', and the sum is not stored",
                ),
            ),
            refusals=(Refusal(_sum_then("y = Dropout(s, r, t)"), "Dropout 'Dropout_y' has no result number 2"),),
        ),
        _rule(
            "bias of several axes and dropout",
            "y",
            Example(
                before="""g (float[2,3,4] x, float[3,1] b) => (float[2,3,4] y) <float r = {0.5}, bool t = {1}> {
                    s = Add(x, b)
                    y = Dropout<seed=7>(s, r, t)
                }""",
                after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                    g (float[2,3,4] x, float[3,1] b) => (float[2,3,4] y) <int64[1] y_ones = {1}> {
                        y_squeeze = Squeeze(b, y_ones)
                        y_random_mask_like = workbench.random_mask_like<seed=7, rate=0.5>(x)
                        y = workbench.fused_bias_add_mask_scale<axis=1, scale=2.0>(x, y_squeeze, y_random_mask_like)
                    }""",
                sentences=(
                    "Add 'Add_s' and Dropout 'Dropout_y' in training become one pass over 'x', along axis 1 and with "
                    "scale 2; its mask is drawn at rate 0.5 from the shape of 'x', and the sum is not stored",
                ),
            ),
            refusals=(
                Refusal(
                    _sum_then("y = Dropout(s, r, t)"),
                    "'b' of Add 'Add_s' is a constant or has one axis; another rule covers it",
                ),
            ),
            squeezes=True,
        ),
        _rule(
            "bias of several axes and dropout with its mask",
            "y, mask",
            Example(
                before="""g (float[2,3,4] x, float[2,1,1] b) => (float[2,3,4] y, bool[2,3,4] m)
                    <float r = {0.5}, bool t = {1}> {
                    s = Add(b, x)
                    y, m = Dropout<seed=7>(s, r, t)
                }""",
                after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                    g (float[2,3,4] x, float[2,1,1] b) => (float[2,3,4] y, bool[2,3,4] m) <int64[2] y_ones = {1, 2}> {
                        y_squeeze = Squeeze(b, y_ones)
                        m = workbench.random_mask_like<seed=7, rate=0.5>(x)
                        y = workbench.fused_bias_add_mask_scale<axis=0, scale=2.0>(x, y_squeeze, m)
                    }""",
                sentences=(
                    "Add 'Add_s' and Dropout 'Dropout_y' in training become one pass over 'x', along axis 0 and with "
                    "scale 2; its mask is drawn at rate 0.5 from the shape of 'x', and the sum is not stored",
                ),
            ),
            refusals=(Refusal(_sum_then("y = Dropout(s, r, t)"), "Dropout 'Dropout_y' has no result number 2"),),
            squeezes=True,
        ),
    )

    extra_examples = (
        Example(
            title="A residual sum stays",
            before="""g (float[2,5] x, float[2,5] a, float[5] b) => (float[2,5] y) <float r = {0.1}, bool t = {1}> {
                s = Add(b, a)
                d = Dropout<seed=7>(s, r, t)
                y = Add(d, x)
            }""",
            after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                g (float[2,5] x, float[2,5] a, float[5] b) => (float[2,5] y) {
                    d_random_mask_like = workbench.random_mask_like<seed=7, rate=0.1>(a)
                    d = workbench.fused_bias_add_mask_scale<axis=1, scale=1.1111112>(a, b, d_random_mask_like)
                    y = Add(d, x)
                }""",
            sentences=(
                "Add 'Add_s' and Dropout 'Dropout_d' in training become one pass over 'a', along axis 1 and with "
                "scale 1.11111; its mask is drawn at rate 0.1 from the shape of 'a', and the sum is not stored",
            ),
        ),
    )
