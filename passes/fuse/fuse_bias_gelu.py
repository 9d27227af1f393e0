"""Fuse the Add of a bias and Gelu into one operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import cleandoc

from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rule
from workbench.rewrite.analyses.bias import axis_of_bias, bias_of_one_axis, is_bias
from workbench.rewrite.patterns.building import Constraint
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.schemas import later_opset
from workbench.rewrite.patterns.standard import GELU_BY_ERF, GELU_BY_TANH, is_float32

_SENTENCE = (
    "{count} nodes, from {nodes[0]} to {root}, become one pass over '{a}', which adds '{bias}' along axis {axis} and "
    "computes Gelu; {fewer} fewer"
)


def has_gelu(match: Match) -> None:
    """Raises NoMatch before opset 20, since the body of the new operator calls ONNX's Gelu."""
    opset = match.graph.opset_imports.get("", 0)
    needs = later_opset("Gelu", opset)
    if needs:
        raise NoMatch(f"Gelu came with opset {needs}; this model has opset {opset}")


def _rule(
    name: str,
    gelu: str,
    approximate: str,
    example: Example,
    refusals: tuple[Refusal, ...],
    exactness: Exactness,
    where: Sequence[Constraint] = (),
    law: str = "",
) -> Rule:
    """approximate: the attribute of the new operator, as written in the pattern."""
    return graph_rule(
        name,
        f"x = Add(a, bias)\n{cleandoc(gelu)}",
        f"y = workbench.fused_bias_add_gelu(a, along, axis=axis, approximate={approximate})",
        _SENTENCE,
        example,
        refusals,
        where=(has_gelu, is_bias, *where),
        computed={"axis": axis_of_bias, "along": bias_of_one_axis},
        exactness=exactness,
        law=law,
    )


_ERF = "float r = {1.41421356}, float one = {1}, float half = {0.5}"
_TANH = "float k = {0.044715}, float s = {0.7978845608}, float one = {1}, float half = {0.5}"


@dataclass(frozen=True)
class FuseBiasGelu(Pass):
    """Gelu(a + bias), with the bias along one axis of `a`, becomes the workbench's fused_bias_add_gelu(a, bias, axis):

    - Gelu as ONNX's operator, in both its forms; equal to the last bit;
    - (a + bias) * (1 + erf((a + bias) / sqrt(2))) / 2, of float32;
    - its form by tanh, as in Megatron-LM, of float32, with the cube as a Pow or as products.

    The sum is then not stored. The operator is a function of standard operators in an exported file. A residual Add
    after it is a node of its own and stays.

    Does not apply:

    - if the other summand is not a bias along one axis;
    - if anything else reads the sum or an intermediate value;
    - if a number differs;
    - before opset 20.

    Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
    SC 2021, section 4.2, https://github.com/NVIDIA/Megatron-LM, fused_bias_gelu.py; OneFlow's fused_bias_add_gelu.
    """

    title = "Fuse bias and Gelu"

    rules = (
        _rule(
            "bias and gelu",
            "y = Gelu(x, approximate=approximate)",
            "approximate",
            Example(
                before="""g (float[2,3,4] x, float[4] b) => (float[2,3,4] y) {
                    s = Add(x, b)
                    y = Gelu<approximate="tanh">(s)
                }""",
                after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                    g (float[2,3,4] x, float[4] b) => (float[2,3,4] y) {
                        y = workbench.fused_bias_add_gelu<axis=2, approximate="tanh">(x, b)
                    }""",
                sentences=(
                    "2 nodes, from Add 'Add_s' to Gelu 'Gelu_y', become one pass over 'x', which adds 'b' along "
                    "axis 2 and "
                    "computes Gelu; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2,4] x, float[2,4] b) => (float[2,4] y) { s = Add(x, b)  y = Gelu(s) }",
                    "neither operand of Add 'Add_s' is a bias along one axis of the other",
                ),
                Refusal(
                    "g (float[2,4] x, float[2,1] b) => (float[2,4] y) { s = Add(x, b)  y = Gelu(s) }",
                    "'b' of Add 'Add_s' is computed, and has 2 axes; a bias has one",
                ),
                Refusal(
                    "g (float[2,4] x, float[4] b) => (float[2,4] y, float[2,4] s) { s = Add(x, b)  y = Gelu(s) }",
                    "'s' of Add 'Add_s' is an output of the graph",
                ),
                Refusal(
                    "g (float[2,4] x, float[4] b) => (float[2,4] y) { s = Sub(x, b)  y = Gelu(s) }",
                    "Gelu 'Gelu_y' does not follow an Add",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        _rule(
            "bias and gelu by erf",
            GELU_BY_ERF,
            "'none'",
            Example(
                before=f"""g (float[N,3] x) => (float[N,3] y) <float[3] b = {{1, -2, 3}}, {_ERF}> {{
                    s = Add(x, b)
                    a = Div(s, r)
                    c = Erf(a)
                    d = Add(c, one)
                    e = Mul(s, d)
                    y = Mul(e, half)
                }}""",
                after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                    g (float[N,3] x) => (float[N,3] y) <float[3] b = {1, -2, 3}> {
                        y = workbench.fused_bias_add_gelu<axis=1, approximate="none">(x, b)
                    }""",
                sentences=(
                    "6 nodes, from Add 'Add_s' to Mul 'Mul_y', become one pass over 'x', which adds 'b' along axis "
                    "1 and "
                    "computes Gelu; 5 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    f"""g (float[2,3] x, float[3] b) => (float[2,3] y) <{_ERF.replace("1.41421356", "1.4")}> {{
                        s = Add(x, b)  a = Div(s, r)  c = Erf(a)  d = Add(c, one)  e = Mul(s, d)  y = Mul(e, half)
                    }}""",
                    "Div 'Div_a' multiplies by 0.714286 in all, not by 0.707107",
                ),
                Refusal(
                    f"""<ir_version: 8, opset_import: ["": 17]>
                    g (float[2,3] x, float[3] b) => (float[2,3] y) <{_ERF}> {{
                        s = Add(x, b)  a = Div(s, r)  c = Erf(a)  d = Add(c, one)  e = Mul(s, d)  y = Mul(e, half)
                    }}""",
                    "Gelu came with opset 20; this model has opset 17",
                ),
            ),
            exactness=Exactness.ROUNDING,
            where=(is_float32("a"),),
            law="gelu(x + z) == (x + z) * (1 + erf((x + z) / sqrt(2))) / 2",
        ),
        _rule(
            "bias and gelu by tanh",
            GELU_BY_TANH,
            "'tanh'",
            Example(
                before=f"""g (float[N,3] x, float[3] b) => (float[N,3] y) <{_TANH}> {{
                    v = Add(b, x)
                    a = Mul(k, v)
                    c = Mul(v, a)
                    d = Add(one, c)
                    e = Mul(s, v)
                    f = Mul(e, d)
                    h = Tanh(f)
                    i = Add(one, h)
                    j = Mul(half, v)
                    y = Mul(j, i)
                }}""",
                after="""<ir_version: 11, opset_import: ["": 23, "workbench": 1]>
                    g (float[N,3] x, float[3] b) => (float[N,3] y) {
                        y = workbench.fused_bias_add_gelu<axis=1, approximate="tanh">(x, b)
                    }""",
                sentences=(
                    "10 nodes, from Add 'Add_v' to Mul 'Mul_y', become one pass over 'x', which adds 'b' along "
                    "axis 1 and "
                    "computes Gelu; 9 nodes fewer",
                ),
            ),
            refusals=(
                Refusal(
                    f"""g (float[2,3] x, float[3] b) => (float[2,3] y, float[2,3] z) <{_TANH}> {{
                        v = Add(b, x)  a = Mul(k, v)  c = Mul(v, a)  d = Add(one, c)  e = Mul(s, v)  f = Mul(e, d)
                        h = Tanh(f)  i = Add(one, h)  j = Mul(half, v)  y = Mul(j, i)  z = Neg(v)
                    }}""",
                    "Neg 'Neg_z' reads 'v' of Add 'Add_v' too",
                ),
            ),
            exactness=Exactness.ROUNDING,
            where=(is_float32("a"),),
            law="gelu(x + z) == (x + z) * (1 + tanh(sqrt(2 / pi) * ((x + z) + 0.044715 * (x + z) ** 3))) / 2",
        ),
    )
