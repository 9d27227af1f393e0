"""HardSigmoid, HardSwish and Swish from the clips, sums and products that exporters write for them."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.patterns import added, either_order, factors, is_near, number_of, producer_of, recomposed

HARD_SIGMOID_OPSET, HARD_SWISH_OPSET, SWISH_OPSET = 6, 14, 24


def _clipped(graph: Graph, value: str) -> tuple[str, float]:
    """The operand of a Clip from 0 to a positive bound, and the bound; ("", 0.0) for anything else."""
    clip = producer_of(graph, value, "Clip")
    if clip is None or len(clip.inputs) < 3 or str(number_of(graph, clip.inputs[1])) != "0.0":  # and not -0.0
        return "", 0.0
    bound = number_of(graph, clip.inputs[2]) or 0.0
    return (clip.inputs[0], bound) if bound > 0 else ("", 0.0)


def _is_ordinary(number: float) -> bool:
    """Is it far from what float32 cannot hold?"""
    return 1e-30 < abs(number) < 1e30


def match_hard_sigmoid(graph: Graph, node: Node, options: Pass) -> Rewrite:
    number, values = (1.0, [node.outputs[0]]) if node.op == "Clip" else factors(graph, node)
    inside, bound = _clipped(graph, values[0] if len(values) == 1 else "")
    source, shift = added(graph, inside)
    scale = 1.0
    product = producer_of(graph, source, "Mul", "Div")
    if product is not None and len(graph.users(source)) == 1 and not graph.is_output(source):
        by, within = factors(graph, product)
        scale, source = (by, within[0]) if len(within) == 1 else (scale, source)
    alpha, beta = scale * number, shift * number
    if not is_near(number * bound, 1.0) or not _is_ordinary(alpha) or not _is_ordinary(beta):
        raise NoMatch(f"{node} is not max(0, min(1, alpha * x + beta))")
    return recomposed(graph, node, (source,), "HardSigmoid", HARD_SIGMOID_OPSET, {"alpha": alpha, "beta": beta})


def match_hard_swish(graph: Graph, node: Node, options: Pass) -> Rewrite:
    number, values = factors(graph, node)
    for x, gate in either_order(values):
        inside, bound = _clipped(graph, gate)
        if is_near(number, 1 / 6) and bound == 6 and added(graph, inside) == (x, 3.0):
            return recomposed(graph, node, (x,), "HardSwish", HARD_SWISH_OPSET, {})
    raise NoMatch(f"{node} is not x * max(0, min(6, x + 3)) / 6")


def match_gated(graph: Graph, node: Node, options: Pass) -> Rewrite:
    for x, gate in either_order(node.inputs):
        sigmoid = producer_of(graph, gate, "HardSigmoid")
        if sigmoid is None or sigmoid.inputs[0] != x:
            continue
        if is_near(sigmoid.attr("alpha", 0.2), 1 / 6) and sigmoid.attr("beta", 0.5) == 0.5:
            return recomposed(graph, node, (x,), "HardSwish", HARD_SWISH_OPSET, {})
    raise NoMatch(f"{node} is not x * HardSigmoid(x) of alpha 1 / 6 and beta 0.5")


def match_swish(graph: Graph, node: Node, options: Pass) -> Rewrite:
    for x, gate in either_order(node.inputs):
        sigmoid = producer_of(graph, gate, "Sigmoid")
        if sigmoid is None:
            continue
        product = producer_of(graph, sigmoid.inputs[0], "Mul", "Div")
        alpha, values = (1.0, [sigmoid.inputs[0]])
        if sigmoid.inputs[0] != x and product is not None:
            alpha, values = factors(graph, product)
        if values == [x] and _is_ordinary(alpha):
            return recomposed(graph, node, (x,), "Swish", SWISH_OPSET, {"alpha": alpha})
    raise NoMatch(f"{node} is not x * sigmoid(alpha * x)")


@dataclass(frozen=True)
class RecomposeActivations(Pass):
    """Four cases, x of float32, operands of sums and products in any order:

    - max(0, min(m, a * x + b)) / m is HardSigmoid with alpha a / m and beta b / m;
    - x * max(0, min(6, x + 3)) / 6 is HardSwish, the sixth anywhere in the product;
    - x * HardSigmoid(x) with alpha 1 / 6 and beta 1 / 2 is HardSwish;
    - x * sigmoid(alpha * x) is Swish, which ONNX has since opset 24.

    Must not act where anything else reads a value in between, where a bound or number is another, nor before the
    operator's opset.

    Source: ONNX's definitions of HardSigmoid, HardSwish and Swish; Howard et al., "Searching for MobileNetV3".
    """

    title = "Recompose HardSigmoid, HardSwish and Swish"

    rules = (
        Rule(
            "hard swish",
            ("Mul", "Div"),
            match_hard_swish,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y) <float three = {3}, float zero = {0}, float six = {6}> {
                    a = Add(x, three)
                    b = Clip(a, zero, six)
                    c = Mul(x, b)
                    y = Div(c, six)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) { y = HardSwish(x) }",
                sentences=("Add 'Add_a' to Div 'Div_y', 4 nodes, compute HardSwish of 'x'; 3 less",),
            ),
            refusals=(
                Refusal(
                    """g (float[2] x) => (float[2] y) <float three = {3}, float zero = {0}, float five = {5}> {
                        a = Add(x, three)  b = Clip(a, zero, five)  c = Mul(x, b)  y = Div(c, five)
                    }""",
                    "Div 'Div_y' is not x * max(0, min(6, x + 3)) / 6",
                ),
                Refusal(
                    """g (float[2] x) => (float[2] y, float[2] z)
                        <float three = {3}, float zero = {0}, float six = {6}> {
                        a = Add(x, three)  b = Clip(a, zero, six)  c = Mul(x, b)  y = Div(c, six)  z = Neg(b)
                    }""",
                    "Neg 'Neg_z' reads 'b' of Clip 'Clip_b' too",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="x * max(0, min(6, x + 3)) / 6 == x * max(0, min(1, x / 6 + 1 / 2))",
        ),
        Rule(
            "hard sigmoid",
            ("Clip", "Mul", "Div"),
            match_hard_sigmoid,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y)
                    <float k = {0.5}, float b = {1}, float zero = {0}, float m = {2}> {
                    a = Mul(x, k)
                    c = Add(a, b)
                    d = Clip(c, zero, m)
                    y = Div(d, m)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) { y = HardSigmoid<alpha=0.25, beta=0.5>(x) }",
                sentences=("Mul 'Mul_a' to Div 'Div_y', 4 nodes, compute HardSigmoid of 'x'; 3 less",),
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
            exactness=Exactness.ROUNDING,
            law="max(0, min(m, a * x + b)) / m == max(0, min(1, a / m * x + b / m)) if m > 0",
        ),
        Rule(
            "gated by hard sigmoid",
            ("Mul",),
            match_gated,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y) {
                    a = HardSigmoid<alpha=0.16666667, beta=0.5>(x)
                    y = Mul(a, x)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) { y = HardSwish(x) }",
                sentences=("HardSigmoid 'HardSigmoid_a' to Mul 'Mul_y', 2 nodes, compute HardSwish of 'x'; 1 less",),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x) => (float[2] y) { a = HardSigmoid<alpha=0.2, beta=0.5>(x)  y = Mul(a, x) }",
                    "Mul 'Mul_y' is not x * HardSigmoid(x) of alpha 1 / 6 and beta 0.5",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="hard_swish(x) == x * max(0, min(1, x / 6 + 1 / 2))",
        ),
        Rule(
            "swish",
            ("Mul",),
            match_swish,
            Example(
                before="""<ir_version: 10, opset_import: ["": 24]> g (float[N,3] x) => (float[N,3] y) {
                    a = Sigmoid(x)
                    y = Mul(x, a)
                }""",
                after="""<ir_version: 10, opset_import: ["": 24]> g (float[N,3] x) => (float[N,3] y) {
                    y = Swish<alpha=1.0>(x)
                }""",
                sentences=("Sigmoid 'Sigmoid_a' to Mul 'Mul_y', 2 nodes, compute Swish of 'x'; 1 less",),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x) => (float[2] y) { a = Sigmoid(x)  y = Mul(x, a) }",
                    "Swish came with opset 24; this model is of opset 23",
                ),
                Refusal(
                    """<ir_version: 10, opset_import: ["": 24]> g (float[2] x, float[2] z) => (float[2] y) {
                        a = Sigmoid(x)
                        y = Mul(z, a)
                    }""",
                    "Mul 'Mul_y' is not x * sigmoid(alpha * x)",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="swish(x) == x * sigmoid(alpha * x)",
        ),
    )
