"""A convolution with the sum and the activation after it becomes ONNX Runtime's FusedConv."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rule
from workbench.rewrite.analyses.residual import has_shape_of
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import is_float32

_SENTENCE = "{count} nodes, from {nodes[0]} to {root}, become one kernel of ONNX Runtime, {new} of '{x}'; {fewer} fewer"


def is_image(match: Match) -> None:
    if match.graph.rank_of(match["x"]) != 4:
        raise NoMatch(f"'{match['x']}' is not known to have four axes")


def has_few_axes(match: Match) -> None:
    if match.graph.rank_of(match["x"]) not in (3, 4, 5):
        raise NoMatch(f"'{match['x']}' is not known to have one to three axes besides batch and channels")


def _rule(op: str, call: str, shown: str = "", parameters: str = "", **reads: Any) -> Rule:
    """The rule of an activation.

    call: of the activation in the pattern; shown: in the examples, if not the same; parameters: there, as text.
    reads: further arguments of `graph_rule`, which compute `parameters`.
    """
    passed = ", activation_params=parameters" if reads else ""
    given = f", activation_params={parameters}" if parameters else ""
    constants = "<float low = {0}, float high = {6}>" if op == "Clip" else ""
    shown = shown or call
    return graph_rule(
        op.lower(),
        f"c = Conv(x, w, b | None, **others)\ny = {call}",
        f"y = com.microsoft.FusedConv(x, w, b, activation='{op}'{passed}, **others)",
        _SENTENCE,
        Example(
            before=f"""g (float[1,2,4,4] x, float[3,2,3,3] w) => (float[1,3,4,4] y) {constants} {{
                c = Conv<pads=[1,1,1,1]>(x, w)
                y = {shown}
            }}""",
            after=f"""g (float[1,2,4,4] x, float[3,2,3,3] w) => (float[1,3,4,4] y) {constants} {{
                y = com.microsoft.FusedConv<pads=[1,1,1,1], activation="{op}"{given}>(x, w)
            }}""",
            sentences=(
                f"2 nodes, from Conv 'Conv_c' to {op} '{op}_y', become one kernel of ONNX Runtime, "
                "com.microsoft.FusedConv of 'x'; 1 node fewer",
            ),
        ),
        refusals=(
            Refusal(
                f"""g (float x, float[3,2,3] w) => (y) {constants} {{ c = Conv(x, w)  y = {shown} }}""",
                "'x' is not known to have one to three axes besides batch and channels",
            ),
            Refusal(
                f"""g (float[1,2,4,4] x, float[3,2,3,3] w) => (float[1,3,2,2] y, float[1,3,2,2] c) {constants} {{
                    c = Conv(x, w)  y = {shown}
                }}""",
                "'c' of Conv 'Conv_c' is an output of the graph",
            ),
        ),
        where=(has_few_axes, is_float32("x")),
        exactness=Exactness.ROUNDING,
        **reads,
    )


@dataclass(frozen=True)
class OrtConv(Pass):
    """Two cases, for float32, that become com.microsoft.FusedConv:

    - Relu of the sum of a convolution of images and a value of its shape;
    - Relu, Sigmoid, Tanh, LeakyRelu, HardSigmoid and Clip of a convolution in one to three dimensions.

    Does not apply if anything else reads an intermediate value, nor if the sum broadcasts, nor to a Clip without one of
    its bounds, which keeps an infinity. The file then runs in ONNX Runtime only.

    Source: ONNX Runtime's FusedConv, https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
    """

    title = "ONNX Runtime: convolution, sum and activation in one kernel"

    rules = (
        graph_rule(
            "sum",
            "c = Conv(x, w, b, **others)\ny = Relu(Add(c, z) | Sum(c, z))",
            "y = com.microsoft.FusedConv(x, w, b, z, activation='Relu', **others)",
            _SENTENCE,
            Example(
                before="""g (float[1,2,4,4] x, float[3,2,3,3] w, float[3] b, float[1,3,4,4] z) => (float[1,3,4,4] y) {
                    c = Conv<pads=[1,1,1,1]>(x, w, b)
                    s = Add(c, z)
                    y = Relu(s)
                }""",
                after="""g (float[1,2,4,4] x, float[3,2,3,3] w, float[3] b, float[1,3,4,4] z) => (float[1,3,4,4] y) {
                    y = com.microsoft.FusedConv<pads=[1,1,1,1], activation="Relu">(x, w, b, z)
                }""",
                sentences=(
                    "3 nodes, from Conv 'Conv_c' to Relu 'Relu_y', become one kernel of ONNX Runtime, "
                    "com.microsoft.FusedConv"
                    " of 'x'; 2 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[1,2,4,4] x, float[3,2,3,3] w, float[3] b, float[1] z) => (float[1,3,2,2] y) {
                        c = Conv(x, w, b)  s = Add(c, z)  y = Relu(s)
                    }""",
                    "'z' is not known to have the shape of 'c', to which it is added",
                ),
            ),
            where=(is_image, has_shape_of("z", "c"), is_float32("x")),
            exactness=Exactness.ROUNDING,
        ),
        _rule("Relu", "Relu(c)"),
        _rule("Sigmoid", "Sigmoid(c)"),
        _rule("Tanh", "Tanh(c)"),
        _rule(
            "LeakyRelu",
            "LeakyRelu(c, alpha=slope)",
            "LeakyRelu<alpha=0.2>(c)",
            "[0.2]",
            computed={"parameters": lambda slope: (slope,)},
        ),
        _rule(
            "HardSigmoid",
            "HardSigmoid(c, alpha=slope, beta=shift)",
            "HardSigmoid<alpha=0.2, beta=0.5>(c)",
            "[0.2, 0.5]",
            computed={"parameters": lambda slope, shift: (slope, shift)},
        ),
        _rule(
            "Clip",
            "Clip(c, low, high)",
            "",
            "[0.0, 6.0]",
            numbers=("low", "high"),
            computed={"parameters": lambda low, high: (low, high)},
        ),
    )
