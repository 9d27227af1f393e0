"""Fuse residual sums with the normalization after them."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ops.fused_normalization import NORMALIZATIONS, fused_norm_op
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rule
from workbench.rewrite.analyses.residual import has_shape_of
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import is_float32

_SENTENCE = (
    "{count} nodes, from {nodes[0]} to {root}, become {new} of '{x}', which adds '{residual}' and normalizes in "
    "one pass; "
    "{fewer} fewer"
)
_HEADER = '<ir_version: 11, opset_import: ["": 23, "workbench": 1]>'


def is_bias_of_last_axis(match: Match) -> None:
    bias, shape = match.get("bias"), match.graph.shape(match["x"])
    if bias is not None and (not shape or match.graph.shape(bias) != shape[-1:] or shape[-1] is None):
        raise NoMatch(f"'{bias}' is not known to have a number for each index of the last axis of '{match['x']}'")


def _pair(op: str, biased: bool, with_sum: bool) -> tuple[str, str]:
    parameters = NORMALIZATIONS[op]
    summed = "Add(Add(x, bias), residual)" if biased else "Add(x, residual)"
    before = f"s = {summed}\ny = {op}(s, {parameters.replace('shift', 'shift | None')}, **others)"
    operands = f"x, {'bias, ' if biased else ''}residual, {parameters}"
    results = "y, s" if with_sum else "y"
    return before, f"{results} = workbench.{fused_norm_op(op, biased, with_sum)}({operands}, **others)"


def _rule(op: str, example: Example, refusals: tuple[Refusal, ...]) -> Rule:
    first, *further = (_pair(op, biased, with_sum) for biased in (True, False) for with_sum in (False, True))
    return graph_rule(
        op,
        *first,
        _SENTENCE,
        example,
        refusals,
        further=further,
        where=(is_float32("x"), has_shape_of("residual", "x"), is_bias_of_last_axis),
        exactness=Exactness.BIT_EXACT,
    )


_NORMAL = "y = LayerNormalization<axis=-1>(s, w)"


def _summed(line: str, inputs: str = "float[2,3,4] b", results: str = "") -> str:
    return f"""g (float[2,3,4] a, {inputs}) => (float[2,3,4] y{results}) <float[4] w = {{0.5, 1, -1, 2}}> {{
        s = Add(a, b)  {line}
    }}"""


@dataclass(frozen=True)
class FuseSkipLayerNorm(Pass):
    """Two cases, for float32:

    - LayerNormalization(x + residual) becomes the workbench's AddLayerNormalization, and with the bias of the product
      before it, LayerNormalization((x + bias) + residual), BiasAddLayerNormalization;
    - the same of RMSNormalization, AddRMSNormalization and BiasAddRMSNormalization.

    Where anything else reads the sum, as in a network that normalizes before each block, the sum is the second result
    of an operator of its own, AddLayerNormalizationWithSum. The operators are functions of standard operators
    in an exported file. ort_skip_layer_norm writes ONNX Runtime's own operator instead.

    Does not apply:

    - if the residual is broadcast;
    - if the sum has other summands than these;
    - if the bias is not a vector of the last axis: it is then a residual of another shape.

    Source: ONNX Runtime's SkipLayerNormalization,
    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
    """

    title = "Fuse residual sums and normalization"

    rules = (
        _rule(
            "LayerNormalization",
            Example(
                before="""g (float[2,3,4] x, float[4] b, float[2,3,4] z) => (float[2,3,4] y)
                    <float[4] w = {0.5, 1, -1, 2}, float[4] v = {0, 1, 2, 3}> {
                    a = Add(b, x)
                    s = Add(z, a)
                    y = LayerNormalization<axis=-1, epsilon=0.001>(s, w, v)
                }""",
                after=f"""{_HEADER}
                    g (float[2,3,4] x, float[4] b, float[2,3,4] z) => (float[2,3,4] y)
                    <float[4] w = {{0.5, 1, -1, 2}}, float[4] v = {{0, 1, 2, 3}}> {{
                        y = workbench.BiasAddLayerNormalization<axis=-1, epsilon=0.001>(x, b, z, w, v)
                    }}""",
                sentences=(
                    "3 nodes, from Add 'Add_a' to LayerNormalization 'LayerNormalization_y', become "
                    "workbench.BiasAddLayerNormalization of 'x', which adds 'z' and normalizes in one pass; 2 nodes "
                    "fewer",
                ),
            ),
            (
                Refusal(
                    _summed(_NORMAL, "float[3,4] b"),
                    "'b' is not known to have the shape of 'a', to which it is added",
                ),
                Refusal(
                    "g (float[2,4] s, float[4] w) => (float[2,4] y) { y = LayerNormalization<axis=-1>(s, w) }",
                    "LayerNormalization 'LayerNormalization_y' does not follow an Add",
                ),
                Refusal(
                    _summed("y, m = LayerNormalization<axis=-1>(s, w)", results=", float[2,3,1] m"),
                    "'m' of LayerNormalization 'LayerNormalization_y' is an output of the graph",
                ),
                Refusal(
                    """g (double[3,4] a, double[3,4] b, double[4] w) => (double[3,4] y) {
                        s = Add(a, b)  y = LayerNormalization<axis=-1>(s, w)
                    }""",
                    "'a' is not known to be float32 of a known rank",
                ),
            ),
        ),
        _rule(
            "RMSNormalization",
            Example(
                before="""g (float[2,3,4] x, float[2,3,4] z) => (float[2,3,4] t) <float[4] w = {0.5, 1, -1, 2}> {
                    s = Add(x, z)
                    y = RMSNormalization<axis=-1>(s, w)
                    t = Mul(s, y)
                }""",
                after=f"""{_HEADER}
                    g (float[2,3,4] x, float[2,3,4] z) => (float[2,3,4] t) <float[4] w = {{0.5, 1, -1, 2}}> {{
                        y, s = workbench.AddRMSNormalizationWithSum<axis=-1>(x, z, w)
                        t = Mul(s, y)
                    }}""",
                sentences=(
                    "2 nodes, from Add 'Add_s' to RMSNormalization 'RMSNormalization_y', become "
                    "workbench.AddRMSNormalizationWithSum of 'x', which adds 'z' and normalizes in one pass; 1 node "
                    "fewer",
                ),
            ),
            (
                Refusal(
                    _summed("y = RMSNormalization<axis=-1>(s, w)", "float[1,3,4] b"),
                    "'b' is not known to have the shape of 'a', to which it is added",
                ),
            ),
        ),
    )
