"""Remove bounds in front of a QuantizeLinear that saturates at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.quantized import EIGHT_BITS, Quantization, quantization_of
from workbench.rewrite.core.guards import require_constant, require_producer, require_single_use


def _quantized(number: float, quantization: Quantization) -> int:
    """The integer that QuantizeLinear makes of the number: rounded, halves to even, and saturated."""
    limits = np.iinfo(quantization.dtype.numpy())
    integer = np.rint(np.float32(number) / quantization.scale.ravel()[0]) + quantization.zero.ravel()[0]
    return int(np.clip(integer, limits.min, limits.max))


def _bounds(graph: Graph, node: Node) -> tuple[float, float]:
    """The least and the greatest number that the operator gives."""
    if node.op == "Relu":
        return 0.0, np.inf
    results = [
        float(require_constant(graph, value, node).item()) if value else unbounded
        for value, unbounded in zip((*node.inputs, "", "")[1:3], (-np.inf, np.inf), strict=True)
    ]
    if not results[0] <= results[1]:
        raise NoMatch(f"the bounds of {node} are {results[0]:g} and {results[1]:g}")
    return results[0], results[1]


def match_bounds(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], ("Relu", "Clip"), node)
    require_single_use(graph, node, first)
    quantization = quantization_of(graph, node)
    if quantization.dtype not in EIGHT_BITS or quantization.axis is not None:
        raise NoMatch(f"{node} has several scales, or gives another type than uint8 and int8")
    limits = np.iinfo(quantization.dtype.numpy())
    for bound, limit in zip(_bounds(graph, first), (limits.min, limits.max), strict=True):
        if _quantized(bound, quantization) != limit:
            raise NoMatch(
                f"{node} makes {_quantized(bound, quantization)} of {bound:g}, a bound of {first}, not {limit}"
            )
    without_bounds = node.replace(inputs=(first.inputs[0], *node.inputs[1:]))
    sentence = f"{first} has no effect in front of {node}, which saturates at its bounds; 1 node fewer"
    return Rewrite(Edit((first.name, node.name), (without_bounds,)), sentence, (first.name, node.name))


def _is_bounded(graph: Graph, node: Node) -> bool:
    producer = graph.producer(node.inputs[0])
    return producer is not None and producer.op in ("Relu", "Clip")


@dataclass(frozen=True)
class QuantizingSaturates(Pass):
    """A Relu or Clip is removed in front of a QuantizeLinear to uint8 or int8 that saturates at its bounds: the lower
    one becomes the least integer, the upper one the greatest.

    Does not apply if anything else reads the result, nor to bounds that cut off integers.

    Source: ONNX Runtime's ReluQuantFusion and ClipQuantFusion.
    """

    title = "Leave bounds to QuantizeLinear"

    rules = (
        Rule(
            "bounds",
            ("QuantizeLinear",),
            match_bounds,
            Example(
                before="""g (float[N,3] x) => (uint8[N,3] y) <float s = {0.1}, uint8 z = {0}> {
                    a = Relu(x)
                    y = QuantizeLinear(a, s, z)
                }""",
                after="""g (float[N,3] x) => (uint8[N,3] y) <float s = {0.1}, uint8 z = {0}> {
                    y = QuantizeLinear(x, s, z)
                }""",
                sentences=(
                    "Relu 'Relu_a' has no effect in front of QuantizeLinear 'QuantizeLinear_y', which saturates at its"
                    " bounds; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[N,3] x) => (uint8[N,3] y) <float s = {0.1}, uint8 z = {2}> {
                        a = Relu(x)  y = QuantizeLinear(a, s, z)
                    }""",
                    "QuantizeLinear 'QuantizeLinear_y' makes 2 of 0, a bound of Relu 'Relu_a', not 0",
                ),
                Refusal(
                    """g (float[N,3] x) => (uint8[N,3] y, float[N,3] a) <float s = {0.1}, uint8 z = {0}> {
                        a = Relu(x)  y = QuantizeLinear(a, s, z)
                    }""",
                    "'a' of Relu 'Relu_a' is an output of the graph",
                ),
                Refusal(
                    """g (float[N,3] x) => (int8[N,3] y)
                        <float s = {0.1}, int8 z = {-128}, float low = {0}, float high = {6}> {
                        a = Clip(x, low, high)  y = QuantizeLinear(a, s, z)
                    }""",
                    "QuantizeLinear 'QuantizeLinear_y' makes -68 of 6, a bound of Clip 'Clip_a', not 127",
                ),
                Refusal(
                    """g (float[N,3] x, float high) => (uint8[N,3] y)
                        <float s = {0.1}, uint8 z = {0}, float low = {0}> {
                        a = Clip(x, low, high)  y = QuantizeLinear(a, s, z)
                    }""",
                    "'high', an operand of Clip 'Clip_a', is not a constant",
                ),
                Refusal(
                    """g (float[N,3] x) => (uint8[N,3] y) <float[3] s = {0.1, 0.2, 0.3}, uint8[3] z = {0, 0, 0}> {
                        a = Relu(x)  y = QuantizeLinear(a, s, z)
                    }""",
                    "QuantizeLinear 'QuantizeLinear_y' has several scales, or gives another type than uint8 and int8",
                ),
            ),
            may_match=_is_bounded,
            exactness=Exactness.BIT_EXACT,
            law=(
                "for integers: max(min(max(min(x, c), d), b), a) == max(min(x, b), a) if d <= a and a <= b and b <= c"
            ),
        ),
    )

    extra_examples = (
        Example(
            before="""g (float[N,3] x) => (int8[N,3] y)
                <float s = {0.0235294}, int8 z = {-128}, float low = {0}, float high = {6}> {
                a = Clip(x, low, high)
                y = QuantizeLinear(a, s, z)
            }""",
            after="""g (float[N,3] x) => (int8[N,3] y) <float s = {0.0235294}, int8 z = {-128}> {
                y = QuantizeLinear(x, s, z)
            }""",
            sentences=(
                "Clip 'Clip_a' has no effect in front of QuantizeLinear 'QuantizeLinear_y', which saturates at its"
                " bounds; 1 node fewer",
            ),
        ),
    )
