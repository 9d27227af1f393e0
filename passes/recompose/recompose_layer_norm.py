"""LayerNormalization and RMSNormalization from the means, squares and roots that exporters write for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Constant, Graph, Node, constant
from workbench.ir.types import Shape
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.guards import is_same_shape
from workbench.rewrite.patterns import Standardized, has_negative_zero, only_reader, recomposed, standardized

LAYER_OPSET, RMS_OPSET = 17, 23


def match_biased(graph: Graph, node: Node, options: Pass) -> Rewrite:
    norm, shape = _normalized(graph, node, centered=True)
    last, scale = _with_operand(graph, node, "Mul", shape)
    biased, bias = _with_operand(graph, last, "Add", shape)
    tensor = graph.constant(bias)
    if tensor is None or has_negative_zero(tensor.numpy()):
        raise NoMatch(f"no constant without -0.0 is added behind {last}; the zeros of a row of -0.0 may change sign")
    return _layer(graph, biased, norm, shape, scale, bias)


def match_any(graph: Graph, node: Node, options: Pass) -> Rewrite:
    norm, shape = _normalized(graph, node, centered=True)
    last, scale = _with_operand(graph, node, "Mul", shape)
    last, bias = _with_operand(graph, last, "Add", shape)
    return _layer(graph, last, norm, shape, scale, bias)


def match_rms(graph: Graph, node: Node, options: Pass) -> Rewrite:
    norm, shape = _normalized(graph, node, centered=False)
    last, scale = _with_operand(graph, node, "Mul", shape)
    scale, ones = _scale_or_ones(graph, norm, shape, scale)
    attributes = {"axis": -len(norm.axes), "epsilon": norm.epsilon}
    return recomposed(graph, last, (norm.x, scale), "RMSNormalization", RMS_OPSET, attributes, ones)


def _normalized(graph: Graph, node: Node, *, centered: bool) -> tuple[Standardized, Shape]:
    """What is normalized, and the shape of the axes over which it is."""
    norm = standardized(graph, node)
    if norm is None or norm.centered != centered:
        above, square = ("(x - mean(x))", "(x - mean(x)) ** 2") if centered else ("x", "x ** 2")
        raise NoMatch(f"{node} is not {above} / sqrt(mean({square}) + epsilon)")
    shape = graph.shape(norm.x) or ()
    first = len(shape) - len(norm.axes)
    if norm.axes != tuple(range(first, len(shape))):
        raise NoMatch(f"{node} normalizes over the axes {list(norm.axes)} of {len(shape)}, which are not the last")
    return norm, shape[first:]


def _with_operand(graph: Graph, node: Node, operator: str, shape: Shape) -> tuple[Node, str]:
    """The Mul or Add behind the node whose other operand has one number for each normalized one, and this operand."""
    reader, other = only_reader(graph, node.outputs[0], operator)
    if reader is None or not is_same_shape(graph.shape(other), shape):
        return node, ""
    return reader, other


def _layer(graph: Graph, last: Node, norm: Standardized, shape: Shape, scale: str, bias: str) -> Rewrite:
    scale, ones = _scale_or_ones(graph, norm, shape, scale)
    operands = (norm.x, scale, bias) if bias else (norm.x, scale)
    attributes = {"axis": -len(norm.axes), "epsilon": norm.epsilon}
    return recomposed(graph, last, operands, "LayerNormalization", LAYER_OPSET, attributes, ones)


def _scale_or_ones(graph: Graph, norm: Standardized, shape: Shape, scale: str) -> tuple[str, dict[str, Constant]]:
    """The scale, which both operators ask for: where there is none, ones."""
    if scale:
        return scale, {}
    sizes = [d for d in shape or () if isinstance(d, int)]
    if len(sizes) != len(norm.axes):
        raise NoMatch(f"nothing scales what is normalized of '{norm.x}', and its size is not known")
    name = graph.fresh(f"{norm.x}_ones")
    return name, {name: constant(np.ones(sizes, np.float32), name)}


@dataclass(frozen=True)
class RecomposeLayerNorm(Pass):
    """Three cases, over the last axes of an x of float32:

    - (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * scale + bias is LayerNormalization;
    - the same without a bias, or with one that may hold -0.0, is it but for the sign of zeros;
    - x / sqrt(mean(x ** 2) + epsilon) * scale is RMSNormalization.

    The square is Pow or Mul, the root divides or its reciprocal multiplies; without a scale of the shape of the last
    axes the scale is ones, and what else multiplies stays.

    Must not act over other axes than the last, where anything else reads a value in between, where the means drop
    their axes, nor before the operator's opset.

    Source: ONNX's definitions of LayerNormalization and RMSNormalization; Zhang and Sennrich, "Root Mean Square
    Layer Normalization".
    """

    title = "Recompose LayerNormalization and RMSNormalization"

    rules = (
        Rule(
            "layer normalization with bias",
            ("Div", "Mul"),
            match_biased,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y)
                    <int64[1] axes = {-1}, float two = {2}, float e = {0.5}, float[3] s = {1, 2, -1},
                     float[3] b = {0, 1, -1}> {
                    m = ReduceMean(x, axes)
                    d = Sub(x, m)
                    p = Pow(d, two)
                    v = ReduceMean(p, axes)
                    w = Add(v, e)
                    r = Sqrt(w)
                    n = Div(d, r)
                    t = Mul(n, s)
                    y = Add(t, b)
                }""",
                after="""g (float[N,3] x) => (float[N,3] y) <float[3] s = {1, 2, -1}, float[3] b = {0, 1, -1}> {
                    y = LayerNormalization<axis=-1, epsilon=0.5>(x, s, b)
                }""",
                sentences=(
                    "ReduceMean 'ReduceMean_m' to Add 'Add_y', 9 nodes, compute LayerNormalization of 'x'; 8 less",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y)
                        <int64[1] axes = {0}, float e = {0.5}, float[3] s = {1, 2, -1}, float[3] b = {0, 1, -1}> {
                        m = ReduceMean(x, axes)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, axes)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  t = Mul(n, s)  y = Add(t, b)
                    }""",
                    "Div 'Div_n' normalizes over the axes [0] of 2, which are not the last",
                ),
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y)
                        <int64[1] axes = {-1}, float e = {0.5}, float[3] s = {1, 2, -1}> {
                        m = ReduceMean(x, axes)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, axes)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  y = Mul(n, s)
                    }""",
                    "no constant without -0.0 is added behind Mul 'Mul_y'; the zeros of a row of -0.0 may change sign",
                ),
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y)
                        <int64[1] axes = {-1}, float e = {0.5}, float[3] b = {0, 1, -1}> {
                        p = Mul(x, x)  v = ReduceMean(p, axes)  w = Add(v, e)  r = Sqrt(w)  n = Div(x, r)
                        y = Add(n, b)
                    }""",
                    "Div 'Div_n' is not (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon)",
                ),
                Refusal(
                    """g (float[2,N] x, float[2,3] z) => (float[2,3] y)
                        <int64[1] axes = {-1}, float e = {0.5}, float[1] b = {1}> {
                        m = ReduceMean(x, axes)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, axes)  w = Add(v, e)
                        r = Sqrt(w)  n = Div(d, r)  y = Add(n, b)
                    }""",
                    "no constant without -0.0 is added behind Div 'Div_n'; the zeros of a row of -0.0 may change sign",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="layer_norm(x) == (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * scale + bias",
        ),
        Rule(
            "layer normalization",
            ("Div", "Mul"),
            match_any,
            Example(
                before="""g (float[N,2] x) => (float[N,2] y)
                    <int64[1] axes = {1}, float e = {0.5}> {
                    m = ReduceMean(x, axes)
                    d = Sub(x, m)
                    p = Mul(d, d)
                    v = ReduceMean(p, axes)
                    w = Add(v, e)
                    r = Sqrt(w)
                    q = Reciprocal(r)
                    y = Mul(d, q)
                }""",
                after="""g (float[N,2] x) => (float[N,2] y) <float[2] x_ones = {1, 1}> {
                    y = LayerNormalization<axis=-1, epsilon=0.5>(x, x_ones)
                }""",
                sentences=(
                    "ReduceMean 'ReduceMean_m' to Mul 'Mul_y', 8 nodes, compute LayerNormalization of 'x'; 7 less",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    """g (float[2,N] x) => (float[2,N] y) <int64[1] axes = {1}, float e = {0.5}> {
                        m = ReduceMean(x, axes)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, axes)  w = Add(v, e)
                        r = Sqrt(w)  y = Div(d, r)
                    }""",
                    "nothing scales what is normalized of 'x', and its size is not known",
                ),
            ),
            exactness=Exactness.SIGNS,
            law="layer_norm(x) == (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon) * scale + bias",
        ),
        Rule(
            "rms normalization",
            ("Div", "Mul"),
            match_rms,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y)
                    <int64[1] axes = {-1}, float two = {2}, float e = {0.5}, float[3] s = {1, 2, -1}> {
                    p = Pow(x, two)
                    v = ReduceMean(p, axes)
                    w = Add(v, e)
                    r = Sqrt(w)
                    q = Reciprocal(r)
                    n = Mul(x, q)
                    y = Mul(s, n)
                }""",
                after="""g (float[N,3] x) => (float[N,3] y) <float[3] s = {1, 2, -1}> {
                    y = RMSNormalization<axis=-1, epsilon=0.5>(x, s)
                }""",
                sentences=("Pow 'Pow_p' to Mul 'Mul_y', 7 nodes, compute RMSNormalization of 'x'; 6 less",),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3] x) => (float[2,3] y) <int64[1] axes = {-1}, float e = {0.5}> {
                        p = Mul(x, x)  v = ReduceMean<keepdims=0>(p, axes)  w = Add(v, e)  r = Sqrt(w)  n = Div(x, r)
                        y = Neg(n)
                    }""",
                    "Div 'Div_n' is not x / sqrt(mean(x ** 2) + epsilon)",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="rms_norm(x) == x / sqrt(mean(x ** 2) + epsilon) * scale",
        ),
    )
