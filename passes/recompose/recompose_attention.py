"""Attention from the products and the Softmax that exporters write for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Graph, Node
from workbench.layout.cost import perm_of
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.guards import require_constant
from workbench.rewrite.patterns import factors, producer_of, recomposed

OPSET = 23
HIDES = -1e30  # what a mask adds to hide a key; ONNX Runtime's Attention takes the lowest float32 for minus infinity


def match_unmasked(graph: Graph, node: Node, options: Pass) -> Rewrite:
    return _attention(graph, node, _weights(graph, node).inputs[0])


def match_masked(graph: Graph, node: Node, options: Pass) -> Rewrite:
    masking = producer_of(graph, _weights(graph, node).inputs[0], "Add")
    masks = [] if masking is None else [v for v in masking.inputs if graph.constant(v) is not None]
    if masking is None or len(masks) != 1:
        raise NoMatch(f"no constant is added to the scores by which {node} weighs")
    scores = next(v for v in masking.inputs if v != masks[0])
    mask, shape = require_constant(graph, masks[0], node), graph.shape(scores)
    if mask.ndim < 2 or not mask.size or shape is None or mask.shape[-2:] != shape[-2:]:
        raise NoMatch(f"mask '{masks[0]}' does not say for every query and key what is added")
    if mask.ndim > len(shape) or any(m not in (1, n) for m, n in zip(mask.shape, shape[-mask.ndim :], strict=True)):
        raise NoMatch(f"mask '{masks[0]}' has more batches or heads than the scores to which it is added")
    if np.isnan(mask).any() or mask.max() > -HIDES:
        raise NoMatch(f"mask '{masks[0]}' holds numbers beyond 1e30, or that are none")
    if not (mask.max(axis=-1) > HIDES).all():
        raise NoMatch(f"mask '{masks[0]}' hides all keys from a query; Attention then gives zeros, Softmax does not")
    return _attention(graph, node, scores, masks[0])


def _weights(graph: Graph, node: Node) -> Node:
    softmax = producer_of(graph, node.inputs[0], "Softmax")
    if softmax is None or softmax.attr("axis", -1) not in (-1, 3):
        raise NoMatch(f"{node} does not weigh its second operand with a Softmax along the last of four axes")
    return softmax


def _attention(graph: Graph, node: Node, scores: str, *mask: str) -> Rewrite:
    scale, products = _scaled(graph, scores)
    product = producer_of(graph, products, "MatMul")
    if product is None:
        raise NoMatch(f"'{scores}', by which {node} weighs, are not scaled products of queries and keys")
    by_query, query = _scaled(graph, product.inputs[0])
    by_key, turned = _scaled(graph, product.inputs[1])
    value = node.inputs[1]
    _check_sizes(graph, node, query, turned, value)
    scale *= by_query * by_key
    if not 1e-30 < scale < 1e30:
        raise NoMatch(f"{product} is scaled by {scale:g}, which Attention does not take")
    keys, transpose = _keys(graph, turned)
    operands = (query, keys, value, *mask)
    return recomposed(graph, node, operands, "Attention", OPSET, {"scale": scale}, before=transpose)


def _scaled(graph: Graph, value: str) -> tuple[float, str]:
    """The value as a number times another."""
    node = producer_of(graph, value, "Mul", "Div")
    number, values = (1.0, [value]) if node is None else factors(graph, node)
    return (number, values[0]) if len(values) == 1 and values[0] else (1.0, value)


def _check_sizes(graph: Graph, node: Node, query: str, turned: str, value: str) -> None:
    """Raises NoMatch where they do not have the same batch and heads, or where a size behind the batch may be 0."""
    shapes = [graph.shape(v) or () for v in (query, turned, value)]
    if not all(map(_is_known, shapes)):
        raise NoMatch(
            f"the operands of {node} do not have four axes of known sizes, but for the batch;"
            " ONNX Runtime's Attention takes none of size 0"
        )
    if len({shape[:2] for shape in shapes}) > 1:
        raise NoMatch(f"the operands of {node} do not have the same batch and heads")


def _is_known(shape: tuple) -> bool:
    """Has it four axes of sizes above 0, the batch perhaps under a name?"""
    sizes = shape[1:] if shape and isinstance(shape[0], str) else shape
    return len(shape) == 4 and all(isinstance(size, int) and size > 0 for size in sizes)


def _keys(graph: Graph, turned: str) -> tuple[str, Node | None]:
    """The keys with their size last, and the Transpose that makes them so where there has to be one."""
    transpose = producer_of(graph, turned, "Transpose")
    perm = None if transpose is None else perm_of(graph, transpose)
    if transpose is not None and perm == (0, 1, 3, 2):
        return transpose.inputs[0], None
    if transpose is not None and perm is not None:
        name = graph.fresh(f"{turned}_keys")
        attributes = {"perm": (perm[0], perm[1], perm[3], perm[2])}
        return name, transpose.replace(outputs=(name,), attributes=attributes)
    source = _reshaped_around(graph, turned)
    if source:
        return source, None
    raise NoMatch(f"'{turned}' does not come from a Transpose")


def _reshaped_around(graph: Graph, turned: str) -> str:
    """The value of which `turned` is the last two axes exchanged, with batch and heads one axis meanwhile; "" else."""
    back = producer_of(graph, turned, "Reshape")
    transpose = producer_of(graph, back.inputs[0], "Transpose") if back else None
    split = producer_of(graph, transpose.inputs[0], "Reshape") if transpose else None
    if transpose is None or split is None or perm_of(graph, transpose) != (0, 2, 1):
        return ""
    source = split.inputs[0]
    shape, flat, result = (graph.shape(v) or () for v in (source, split.outputs[0], turned))
    exchanged = len(shape) == 4 and result == (*shape[:2], shape[3], shape[2])
    return source if exchanged and flat[1:] == shape[2:] else ""


@dataclass(frozen=True)
class RecomposeAttention(Pass):
    """softmax(scale * query @ transpose(key)) @ value, all of float32 with axes batch, heads, length and
    size, is Attention. The scale may be anywhere in the product, the keys turned by a Transpose, or by one between
    two Reshapes that take batch and heads as one axis. Where the Transpose does more, a Transpose stays. A constant
    that is added to the scores, one number for every query and key at least, becomes the mask.

    Must not act where a mask is computed, or hides all keys from a query: Attention then gives zeros, Softmax does
    not. Nor where a size other than the batch is not known, for ONNX Runtime's Attention takes none of size 0 (an empty
    batch neither, and a symbolic one is taken not to be empty); where batch or heads are broadcast; where anything else
    reads a value in between; nor before opset 23.

    Source: ONNX's definition of Attention; Vaswani et al., "Attention Is All You Need".
    """

    title = "Recompose Attention"

    rules = (
        Rule(
            "unmasked",
            ("MatMul",),
            match_unmasked,
            Example(
                before="""g (float[2,1,3,4] q, float[2,1,2,4] k, float[2,1,2,5] v) => (float[2,1,3,5] y)
                    <float s = {0.5}> {
                    a = Mul(q, s)
                    t = Transpose<perm=[0,1,3,2]>(k)
                    b = Mul(t, s)
                    c = MatMul(a, b)
                    p = Softmax<axis=-1>(c)
                    y = MatMul(p, v)
                }""",
                after="""g (float[2,1,3,4] q, float[2,1,2,4] k, float[2,1,2,5] v) => (float[2,1,3,5] y) {
                    y = Attention<scale=0.25>(q, k, v)
                }""",
                sentences=("Mul 'Mul_a' to MatMul 'MatMul_y', 6 nodes, compute Attention of 'q'; 5 less",),
            ),
            refusals=(
                Refusal(
                    """g (float[2,1,3,4] q, float[2,1,2,4] k, float[2,1,2,5] v, float[3,2] m) => (float[2,1,3,5] y) {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Add(c, m)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "'d', by which MatMul 'MatMul_y' weighs, are not scaled products of queries and keys",
                ),
                Refusal(
                    "g (float[2,3] p, float[3,4] v) => (float[2,4] y) { y = MatMul(p, v) }",
                    "MatMul 'MatMul_y' does not weigh its second operand with a Softmax along the last of four axes",
                ),
                Refusal(
                    """g (float[N,1,S,4] q, float[N,1,2,4] k, float[N,1,2,5] v) => (float[N,1,S,5] y) {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  p = Softmax<axis=-1>(c)  y = MatMul(p, v)
                    }""",
                    "the operands of MatMul 'MatMul_y' do not have four axes of known sizes, but for the batch;"
                    " ONNX Runtime's Attention takes none of size 0",
                ),
                Refusal(
                    """g (float[N,1,3,4] q, float[M,1,2,4] k, float[N,1,2,5] v) => (float[N,1,3,5] y) {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  p = Softmax<axis=-1>(c)  y = MatMul(p, v)
                    }""",
                    "the operands of MatMul 'MatMul_y' do not have the same batch and heads",
                ),
                Refusal(
                    """g (float[2,2,3,4] q, float[2,1,2,4] k, float[2,2,2,5] v) => (float[2,2,3,5] y) {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  p = Softmax<axis=-1>(c)  y = MatMul(p, v)
                    }""",
                    "the operands of MatMul 'MatMul_y' do not have the same batch and heads",
                ),
                Refusal(
                    """g (float[2,1,3,4] q, float[2,1,2,4] k, float[2,1,2,5] v) => (float[2,1,3,5] y)
                        <float s = {-1}> {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Mul(c, s)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "MatMul 'MatMul_c' is scaled by -1, which Attention does not take",
                ),
                Refusal(
                    """g (float[2,1,3,4] q, float[2,1,4,2] k, float[2,1,2,5] v) => (float[2,1,3,5] y) {
                        c = MatMul(q, k)  p = Softmax<axis=-1>(c)  y = MatMul(p, v)
                    }""",
                    "'k' does not come from a Transpose",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="attention(q, k, v) == softmax(scale * q @ transpose(k)) @ v",
        ),
        Rule(
            "masked by a constant",
            ("MatMul",),
            match_masked,
            Example(
                before="""g (float[2,1,2,4] q, float[2,1,2,4] k, float[2,1,2,5] v) => (float[2,1,2,5] y)
                    <float s = {0.5}, float[2,2] causal = {0, -1e38, 0, 0}> {
                    t = Transpose<perm=[0,1,3,2]>(k)
                    b = MatMul(q, t)
                    c = Mul(b, s)
                    d = Add(c, causal)
                    p = Softmax<axis=-1>(d)
                    y = MatMul(p, v)
                }""",
                after="""g (float[2,1,2,4] q, float[2,1,2,4] k, float[2,1,2,5] v) => (float[2,1,2,5] y)
                    <float[2,2] causal = {0, -1e38, 0, 0}> {
                    y = Attention<scale=0.5>(q, k, v, causal)
                }""",
                sentences=("Transpose 'Transpose_t' to MatMul 'MatMul_y', 6 nodes, compute Attention of 'q'; 5 less",),
            ),
            refusals=(
                Refusal(
                    """g (float[2,1,2,4] q, float[2,1,2,4] k, float[2,1,2,5] v) => (float[2,1,2,5] y)
                        <float[2,2] m = {-1e38, -1e38, 0, 0}> {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Add(c, m)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "mask 'm' hides all keys from a query; Attention then gives zeros, Softmax does not",
                ),
                Refusal(
                    """g (float[2,1,2,4] q, float[2,1,2,4] k, float[2,1,2,5] v, float[2,2] m) => (float[2,1,2,5] y) {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Add(c, m)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "no constant is added to the scores by which MatMul 'MatMul_y' weighs",
                ),
                Refusal(
                    """g (float[2,1,2,4] q, float[2,1,2,4] k, float[2,1,2,5] v) => (float[2,1,2,5] y)
                        <float[2] m = {0, 1}> {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Add(c, m)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "mask 'm' does not say for every query and key what is added",
                ),
                Refusal(
                    """g (float[2,1,2,4] q, float[2,1,2,4] k, float[2,1,2,5] v) => (float[2,1,2,5] y)
                        <float[2,2] m = {1e38, 0, 0, 0}> {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Add(c, m)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "mask 'm' holds numbers beyond 1e30, or that are none",
                ),
                Refusal(
                    """g (float[2,1,2,4] q, float[2,1,0,4] k, float[2,1,0,5] v) => (float[2,1,2,5] y)
                        <float[2,0] m = {}> {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Add(c, m)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "mask 'm' does not say for every query and key what is added",
                ),
                Refusal(
                    """g (float[1,1,2,4] q, float[1,1,2,4] k, float[3,1,2,5] v) => (float[3,1,2,5] y)
                        <float[3,1,2,2] m = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}> {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Add(c, m)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "mask 'm' has more batches or heads than the scores to which it is added",
                ),
            ),
            exactness=Exactness.ROUNDING,
            law="attention(q, k, v, mask) == softmax(scale * q @ transpose(k) + mask) @ v",
        ),
    )
