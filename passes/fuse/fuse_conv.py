"""Fuse a convolution with the residual sum and the activation after it."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ops.channels_last import fused_conv_op
from workbench.ops.fused_activations import (
    HARD_SIGMOID,
    HARD_SWISH,
    LEAKY_RELU,
    RELU,
    RELU_6,
    SIGMOID,
    SILU,
    FusedActivation,
)
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rule
from workbench.rewrite.analyses.residual import has_shape_of
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import is_float32

_FORMS = ("", "_NHWC", "_NHWC_OHWI", "_NHWC_HWIO", "_NHWC_HWOI")  # the layouts of images, and the orders of weights
_SENTENCE = (
    "{count} nodes, from {nodes[0]} to {root}, become {new} of '{x}', which stores the result of the convolution once, "
    "activated; {fewer} fewer"
)
_HEADER = '<ir_version: 11, opset_import: ["": 23, "workbench": 1]>'


def is_normalized_already(match: Match) -> None:
    normalization = match.graph.producer(match.get("n") or "")
    if normalization is not None and normalization.op == "BatchNormalization":
        raise NoMatch(
            f"{normalization} is between {match.node('c')} and its activation; fold_batchnorm folds it into the "
            "weights, if it runs before"
        )


def _pair(form: str, adds: bool, activation: FusedActivation, ending: str, attributes: str) -> tuple[str, str]:
    """Both graphs for one form of Conv. ending: y of s. attributes: of the activation."""
    conv = f"workbench.Conv{form}" if form else "Conv"
    normalized = "BatchNormalization(c, scale, shift, mean, variance, **norm) | c" if not form else "c"
    summed = "Add(n, z)" if adds else "n"
    before = f"c = {conv}(x, w, b | None, **others)\nn = {normalized}\ns = {summed}\ny = {ending}"
    after = (
        f"y = workbench.{fused_conv_op(activation, adds)}{form}(x, w, b, {'z, ' if adds else ''}{attributes}**others)"
    )
    return before, after


def _rule(
    activation: FusedActivation, ending: str, written: str, refusals: tuple[Refusal, ...], attributes: str = ""
) -> Rule:
    """written: the activation of s in the example. attributes: of the activation, in the pattern."""
    first, *others = (_pair(form, adds, activation, ending, attributes) for form in _FORMS for adds in (True, False))
    op = fused_conv_op(activation, True)
    last = "Mul" if ending.startswith("Mul") else ending.partition("(")[0]
    numbers = ", alpha=0.25, beta=0.5" if "beta" in attributes else ", alpha=0.25" if attributes else ""
    constants = "<float zero = {0}, float six = {6}> " if "six" in written else ""
    matched = 4 if "g =" in written else 3
    return graph_rule(
        activation.name,
        *first,
        _SENTENCE,
        Example(
            before=f"""g (float[1,2,4,4] x, float[3,2,3,3] w, float[3] b, float[1,3,4,4] z) => (float[1,3,4,4] y)
                {constants}{{
                c = Conv<pads=[1,1,1,1]>(x, w, b)
                s = Add(z, c)
                {written}
            }}""",
            after=f"""{_HEADER}
                g (float[1,2,4,4] x, float[3,2,3,3] w, float[3] b, float[1,3,4,4] z) => (float[1,3,4,4] y) {{
                    y = workbench.{op}<pads=[1,1,1,1]{numbers}>(x, w, b, z)
                }}""",
            sentences=(
                f"{matched} nodes, from Conv 'Conv_c' to {last} '{last}_y', become workbench.{op} of 'x', "
                f"which stores the result of the convolution once, activated; {matched - 1} nodes fewer",
            ),
        ),
        refusals,
        further=others,
        where=(is_float32("x"), is_normalized_already, has_shape_of("z", "n")),
        exactness=Exactness.BIT_EXACT,
    )


def _activated(line: str, inputs: str = "", outputs: str = "") -> str:
    """The convolution c of float[1,2,4,4] x, and what is after it."""
    return f"""g (float[1,2,4,4] x, float[3,2,3,3] w{inputs}) => (float[1,3,2,2] y{outputs})
        <float zero = {{0}}, float six = {{6}}, float one = {{1}}> {{ c = Conv(x, w)  {line} }}"""


def _after_another_operator(op: str) -> Refusal:
    return Refusal(
        f"g (float[1,2,4,4] x, float[2,3,3,3] w) => (float[1,3,6,6] y) {{ c = ConvTranspose(x, w)  y = {op}(c) }}",
        f"{op} '{op}_y' does not follow an Add, BatchNormalization, Conv, workbench.Conv_NHWC, "
        "workbench.Conv_NHWC_OHWI, workbench.Conv_NHWC_HWIO or workbench.Conv_NHWC_HWOI",
    )


@dataclass(frozen=True)
class FuseConv(Pass):
    """activation(Conv(x, w, bias) + residual), the residual and the bias optional, becomes one operator of the
    workbench, named after what it does: ConvRelu, ConvAddRelu, ConvRelu6, ConvAddSilu. Activations, one rule each:

    - Relu; Clip from 0 to 6; LeakyRelu; Sigmoid; HardSigmoid; HardSwish; x * sigmoid(x), which is SiLU.

    The result of the convolution is then stored once, activated. The operators are functions of standard operators in
    an exported file, and have channels-last forms: the pass may run before the layout or after it, where it takes
    Conv_NHWC with its weights in any order. Profiles demand a layout of Conv, not of these, so after it is better.

    Does not apply:

    - if anything else reads the result of the convolution or the sum;
    - if either is an output of the graph;
    - if the residual has another shape;
    - to other elements than float32;
    - where a BatchNormalization was not folded into the weights.

    Source: oneDNN's post-operations, https://uxlfoundation.github.io/oneDNN/dev_guide_convolution.html; ONNX Runtime's
    FusedConv.
    """

    title = "Fuse convolution, residual sum and activation"

    rules = (
        _rule(
            RELU,
            "Relu(s)",
            "y = Relu(s)",
            (
                Refusal(
                    _activated("y = Relu(c)", outputs=", float[1,3,2,2] c"),
                    "'c' of Conv 'Conv_c' is an output of the graph",
                ),
                Refusal(
                    _activated("y = Relu(c)  z = Neg(c)", outputs=", float[1,3,2,2] z"),
                    "Neg 'Neg_z' reads 'c' of Conv 'Conv_c' too",
                ),
                Refusal(
                    _activated("s = Add(c, z)  y = Relu(s)", ", float[3,1,1] z"),
                    "'z' is not known to have the shape of 'c', to which it is added",
                ),
                Refusal(
                    _activated("n = BatchNormalization(c, b, b, b, b)  y = Relu(n)", ", float[3] b"),
                    "BatchNormalization 'BatchNormalization_n' is between Conv 'Conv_c' and its activation; "
                    "fold_batchnorm folds it into the weights, if it runs before",
                ),
                Refusal(
                    "g (double[1,2,4] x, double[3,2,3] w) => (double[1,3,2] y) { c = Conv(x, w)  y = Relu(c) }",
                    "'x' is not known to be float32 of a known rank",
                ),
            ),
        ),
        _rule(
            RELU_6,
            "Clip(s, 0, 6)",
            "y = Clip(s, zero, six)",
            (
                Refusal(
                    _activated("y = Clip(c, zero, one)"),
                    "'one' of Clip 'Clip_y' is 1, not 6",
                ),
            ),
        ),
        _rule(
            LEAKY_RELU,
            "LeakyRelu(s, alpha=alpha)",
            "y = LeakyRelu<alpha=0.25>(s)",
            (_after_another_operator("LeakyRelu"),),
            "alpha=alpha, ",
        ),
        _rule(SIGMOID, "Sigmoid(s)", "y = Sigmoid(s)", (_after_another_operator("Sigmoid"),)),
        _rule(
            HARD_SIGMOID,
            "HardSigmoid(s, alpha=alpha, beta=beta)",
            "y = HardSigmoid<alpha=0.25, beta=0.5>(s)",
            (_after_another_operator("HardSigmoid"),),
            "alpha=alpha, beta=beta, ",
        ),
        _rule(HARD_SWISH, "HardSwish(s)", "y = HardSwish(s)", (_after_another_operator("HardSwish"),)),
        _rule(
            SILU,
            "Mul(s, Sigmoid(s))",
            "g = Sigmoid(s)  y = Mul(s, g)",
            (
                Refusal(
                    _activated("g = Sigmoid(z)  y = Mul(c, g)", ", float[1,3,2,2] z"),
                    "the pattern needs 'c' where Sigmoid 'Sigmoid_g' reads 'z'",
                ),
                Refusal(
                    _activated("g = Sigmoid(c)  y = Mul(c, g)  z = Neg(g)", outputs=", float[1,3,2,2] z"),
                    "Neg 'Neg_z' reads 'g' of Sigmoid 'Sigmoid_g' too",
                ),
            ),
        ),
    )

    extra_examples = (
        Example(
            title="Channels last, without a residual",
            before="""g (float[1,4,4,2] x, float[3,3,3,2] w) => (float[1,2,2,3] y) {
                c = workbench.Conv_NHWC_HWOI(x, w)
                y = Relu(c)
            }""",
            after=f"""{_HEADER}
                g (float[1,4,4,2] x, float[3,3,3,2] w) => (float[1,2,2,3] y) {{
                    y = workbench.ConvRelu_NHWC_HWOI(x, w)
                }}""",
            sentences=(
                "2 nodes, from workbench.Conv_NHWC_HWOI 'Conv_NHWC_HWOI_c' to Relu 'Relu_y', become "
                "workbench.ConvRelu_NHWC_HWOI of 'x', which stores the result of the convolution once, activated; 1 "
                "node fewer",
            ),
        ),
    )
