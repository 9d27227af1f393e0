"""A convolution with the sum and the activation after it becomes ONNX Runtime's FusedConv."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rule
from workbench.rewrite.analyses.residual import has_shape_of
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import is_float32

_SENTENCE = "{count} nodes, from {nodes[0]} to {root}, become one kernel of ONNX Runtime, {new} of '{x}'; {fewer} fewer"


def is_image(match: Match) -> None:
    if match.graph.rank_of(match["x"]) != 4:
        raise NoMatch(f"'{match['x']}' is not known to have four axes")


def _rule(op: str) -> Rule:
    name = op.lower()
    return graph_rule(
        name,
        f"c = Conv(x, w, b | None, **others)\ny = {op}(c)",
        f"y = com.microsoft.FusedConv(x, w, b, activation='{op}', **others)",
        _SENTENCE,
        Example(
            before=f"""g (float[1,2,4,4] x, float[3,2,3,3] w) => (float[1,3,4,4] y) {{
                c = Conv<pads=[1,1,1,1]>(x, w)
                y = {op}(c)
            }}""",
            after=f"""g (float[1,2,4,4] x, float[3,2,3,3] w) => (float[1,3,4,4] y) {{
                y = com.microsoft.FusedConv<pads=[1,1,1,1], activation="{op}">(x, w)
            }}""",
            sentences=(
                f"2 nodes, from Conv 'Conv_c' to {op} '{op}_y', become one kernel of ONNX Runtime, "
                "com.microsoft.FusedConv of 'x'; 1 node fewer",
            ),
        ),
        refusals=(
            Refusal(
                f"""g (float[1,2,4] x, float[3,2,3] w) => (float[1,3,2] y) {{ c = Conv(x, w)  y = {op}(c) }}""",
                "'x' is not known to have four axes",
            ),
            Refusal(
                f"""g (float[1,2,4,4] x, float[3,2,3,3] w) => (float[1,3,2,2] y, float[1,3,2,2] c) {{
                    c = Conv(x, w)  y = {op}(c)
                }}""",
                "'c' of Conv 'Conv_c' is an output of the graph",
            ),
        ),
        where=(is_image, is_float32("x")),
        exactness=Exactness.ROUNDING,
    )


@dataclass(frozen=True)
class OrtConv(Pass):
    """Three cases, for images of float32, that become com.microsoft.FusedConv:

    - Relu of the sum of a convolution and a value of its shape;
    - Relu of a convolution;
    - Sigmoid of a convolution.

    Does not apply if anything else reads an intermediate value, nor if the sum broadcasts. The file then runs in ONNX
    Runtime only.

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
        _rule("Relu"),
        _rule("Sigmoid"),
    )
