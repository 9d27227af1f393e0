"""Recompose HardSigmoid, HardSwish and Swish from the clips, sums and products that exporters write for them."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.patterns.building import Constraint
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.products import is_near
from workbench.rewrite.patterns.standard import is_float32, recomposed


def refuse_other_bounds(match: Match) -> None:
    factor, bound = match.data["factor"], match.data["bound"]
    if bound <= 0 or not is_near(factor * bound, 1.0):
        raise NoMatch(f"{match.root} is not max(0, min(1, alpha * x + beta))")


def refuse_extremes(*names: str) -> Constraint:
    """A condition that refuses zero, and numbers close to the limits of float32."""

    def refuse(match: Match) -> None:
        factor = match.data.get("factor", 1.0)
        for name in names:
            if not 1e-30 < abs(match.data[name] * factor) < 1e30:
                raise NoMatch(f"the number {match.data[name] * factor:g} of {match.root} is too large or too small")

    return refuse


@dataclass(frozen=True)
class RecomposeActivations(Pass):
    """Four cases, for x of float32, with the operands of sums and products in any order:

    - max(0, min(m, a * x + b)) / m becomes HardSigmoid with alpha a / m and beta b / m;
    - x * max(0, min(6, x + 3)) / 6 becomes HardSwish, with the factor 1 / 6 anywhere in the product;
    - x * HardSigmoid(x) with alpha 1 / 6 and beta 1 / 2 becomes HardSwish;
    - x * sigmoid(alpha * x) becomes Swish, which ONNX has since opset 24.

    Does not apply:

    - if anything else reads an intermediate value;
    - if a bound or number differs;
    - before the operator's opset.

    Source: ONNX's definitions of HardSigmoid, HardSwish and Swish; Howard et al., "Searching for MobileNetV3".
    """

    title = "Recompose HardSigmoid, HardSwish and Swish"

    rules = (
        graph_rule(
            "hard swish",
            "y = 1 / 6 * x * Clip(Add(x, 3), 0, 6)",
            "y = HardSwish(x)",
            recomposed("x"),
            Example(
                before="""g (float[N,3] x) => (float[N,3] y) <float three = {3}, float zero = {0}, float six = {6}> {
                    a = Add(x, three)
                    b = Clip(a, zero, six)
                    c = Mul(x, b)
                    y = Div(c, six)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) { y = HardSwish(x) }",
                sentences=("4 nodes, from Add 'Add_a' to Div 'Div_y', compute HardSwish of 'x'; 3 nodes fewer",),
            ),
            refusals=(
                Refusal(
                    """g (float[2] x) => (float[2] y) <float three = {3}, float zero = {0}, float five = {5}> {
                        a = Add(x, three)  b = Clip(a, zero, five)  c = Mul(x, b)  y = Div(c, five)
                    }""",
                    "Div 'Div_y' multiplies by 0.2 in all, not by 0.166667",
                ),
                Refusal(
                    """g (float[2] x) => (float[2] y, float[2] z)
                        <float three = {3}, float zero = {0}, float six = {6}> {
                        a = Add(x, three)  b = Clip(a, zero, six)  c = Mul(x, b)  y = Div(c, six)  z = Neg(b)
                    }""",
                    "Neg 'Neg_z' reads 'b' of Clip 'Clip_b' too",
                ),
            ),
            where=(is_float32("x"),),
            exactness=Exactness.ROUNDING,
            law="x * max(0, min(6, x + 3)) / 6 == x * max(0, min(1, x / 6 + 1 / 2))",
        ),
        graph_rule(
            "hard sigmoid",
            "y = factor * Clip(Add(scale * x, shift), 0, bound)",
            "y = HardSigmoid(x, alpha=factor * scale, beta=factor * shift)",
            recomposed("x"),
            Example(
                before="""g (float[N,3] x) => (float[N,3] y)
                    <float k = {0.5}, float b = {1}, float zero = {0}, float m = {2}> {
                    a = Mul(x, k)
                    c = Add(a, b)
                    d = Clip(c, zero, m)
                    y = Div(d, m)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) { y = HardSigmoid<alpha=0.25, beta=0.5>(x) }",
                sentences=("4 nodes, from Mul 'Mul_a' to Div 'Div_y', compute HardSigmoid of 'x'; 3 nodes fewer",),
            ),
            refusals=(
                Refusal(
                    """g (float[2] x) => (float[2] y)
                        <float b = {3}, float zero = {0}, float m = {6}, float n = {5}> {
                        c = Add(x, b)  d = Clip(c, zero, m)  y = Div(d, n)
                    }""",
                    "Div 'Div_y' is not max(0, min(1, alpha * x + beta))",
                ),
                Refusal(
                    """g (float[2] x) => (float[2] y) <float b = {3}, float zero = {0}, float m = {-6}> {
                        c = Add(x, b)
                        d = Clip(c, zero, m)
                        y = Div(d, m)
                    }""",
                    "Div 'Div_y' is not max(0, min(1, alpha * x + beta))",
                ),
            ),
            numbers=("factor", "scale", "shift", "bound"),
            where=(refuse_other_bounds, refuse_extremes("scale", "shift"), is_float32("x")),
            exactness=Exactness.ROUNDING,
            law="max(0, min(m, a * x + b)) / m == max(0, min(1, a / m * x + b / m)) if m > 0",
        ),
        graph_rule(
            "gated by hard sigmoid",
            "y = Mul(x, HardSigmoid(x, alpha=1 / 6, beta=0.5))",
            "y = HardSwish(x)",
            recomposed("x"),
            Example(
                before="""g (float[N,3] x) => (float[N,3] y) {
                    a = HardSigmoid<alpha=0.16666667, beta=0.5>(x)
                    y = Mul(a, x)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) { y = HardSwish(x) }",
                sentences=(
                    "2 nodes, from HardSigmoid 'HardSigmoid_a' to Mul 'Mul_y', compute HardSwish of 'x'; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x) => (float[2] y) { a = HardSigmoid<alpha=0.2, beta=0.5>(x)  y = Mul(a, x) }",
                    "HardSigmoid 'HardSigmoid_a' has alpha=0.2, not 0.166667",
                ),
            ),
            where=(is_float32("x"),),
            exactness=Exactness.ROUNDING,
            law="hard_swish(x) == x * max(0, min(1, x / 6 + 1 / 2))",
        ),
        graph_rule(
            "swish",
            "y = Mul(x, Sigmoid(alpha * x))",
            "y = Swish(x, alpha=alpha)",
            recomposed("x"),
            Example(
                before="""<ir_version: 10, opset_import: ["": 24]> g (float[N,3] x) => (float[N,3] y) {
                    a = Sigmoid(x)
                    y = Mul(x, a)
                }""",
                after="""<ir_version: 10, opset_import: ["": 24]> g (float[N,3] x) => (float[N,3] y) {
                    y = Swish<alpha=1.0>(x)
                }""",
                sentences=("2 nodes, from Sigmoid 'Sigmoid_a' to Mul 'Mul_y', compute Swish of 'x'; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x) => (float[2] y) { a = Sigmoid(x)  y = Mul(x, a) }",
                    "Swish came with opset 24; this model has opset 23",
                ),
                Refusal(
                    """<ir_version: 10, opset_import: ["": 24]> g (float[2] x, float[2] z) => (float[2] y) {
                        a = Sigmoid(x)
                        y = Mul(z, a)
                    }""",
                    "the pattern needs 'z' where Sigmoid 'Sigmoid_a' reads 'x'",
                ),
            ),
            numbers=("alpha",),
            where=(refuse_extremes("alpha"), is_float32("x")),
            exactness=Exactness.ROUNDING,
            law="swish(x) == x * sigmoid(alpha * x)",
        ),
    )
