"""Recompose Attention from the products and the Softmax that exporters write for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir.types import Dim
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import is_float32, recomposed

_HIDES = -1e30  # what a mask adds to hide a key; ONNX Runtime's Attention treats the lowest float32 as minus infinity
_PRODUCTS = """
    scores = scale * MatMul(scale_of_query * query, scale_of_key * key_t)
    y = MatMul(Softmax(Add(scores, mask) | scores, axis=-1), value)
"""
_TWO_RESHAPES = f"""
    flat = Reshape(key, shape)
    key_t = Transpose(key, perm=[0, 1, 3, 2]) | Reshape(Transpose(flat, perm=[0, 2, 1]), shape_back)
    {_PRODUCTS}
"""
_TRANSPOSED = f"""
    key_t = Transpose(key, perm=perm)
    {_PRODUCTS}
"""
_MERGED = f"""
    key_t = Reshape(Transpose(merged, perm=perm), shape_back, **others)
    {_PRODUCTS}
"""
_SCALE = "scale * scale_of_query * scale_of_key"


def refuse_other_sizes(match: Match) -> None:
    """Raises NoMatch unless batch and heads are the same, and the sizes after the batch are known and not 0."""
    shapes = [match.graph.shape(match[name]) or () for name in ("query", "key_t", "value")]
    if not all(map(_is_known, shapes)):
        raise NoMatch(
            f"the operands of {match.root} do not have four axes of known sizes (except for the batch);"
            " ONNX Runtime's Attention does not support axes of size 0"
        )
    if len({shape[:2] for shape in shapes}) > 1:
        raise NoMatch(f"the operands of {match.root} do not have the same batch and heads")


def _is_known(shape: tuple[Dim, ...]) -> bool:
    """Whether the shape has four axes of sizes above 0; the batch may be symbolic."""
    sizes = shape[1:] if shape and isinstance(shape[0], str) else shape
    return len(shape) == 4 and all(isinstance(size, int) and size > 0 for size in sizes)


def refuse_other_keys(match: Match) -> None:
    """Raises NoMatch if the two Reshapes do more than merge batch and heads and split them again."""
    if match.get("flat") is None:
        return
    shape, flat, result = (match.graph.shape(match[name]) or () for name in ("key", "flat", "key_t"))
    if len(shape) != 4 or result != (*shape[:2], shape[3], shape[2]) or flat[1:] != shape[2:]:
        raise NoMatch(f"'{match['key_t']}' is not known to be '{match['key']}' with its last axes exchanged")


def refuse_other_scales(match: Match) -> None:
    scale = match.data["scale"] * match.data["scale_of_query"] * match.data["scale_of_key"]
    if not 1e-30 < scale < 1e30:
        raise NoMatch(f"'{match['scores']}' is scaled by {scale:g}, which Attention does not support")


def refuse_other_masks(match: Match) -> None:
    name = match.get("mask")
    if name is None:
        return
    mask, shape = match.graph.constants[name].numpy(), match.graph.shape(match["scores"])
    if mask.ndim < 2 or not mask.size or shape is None or mask.shape[-2:] != shape[-2:]:
        raise NoMatch(f"mask '{name}' is not known to hold a number for every query and key")
    if mask.ndim > len(shape) or any(m not in (1, n) for m, n in zip(mask.shape, shape[-mask.ndim :], strict=True)):
        raise NoMatch(f"mask '{name}' has more batches or heads than the scores to which it is added")
    mask = mask.astype(np.float64)
    if np.isnan(mask).any() or mask.max() > -_HIDES:
        raise NoMatch(f"mask '{name}' holds numbers above 1e30, or NaN")
    if not (mask.max(axis=-1) > _HIDES).all():
        raise NoMatch(f"mask '{name}' hides all keys from a query; Attention then returns zeros, Softmax does not")


def order(match: Match) -> tuple[int, ...]:
    """The permutation of the keys that keeps their size as the last axis."""
    batch, heads, size, length = match.data["perm"]
    return (batch, heads, length, size)


def refuse_other_merged_keys(match: Match) -> None:
    """Raises NoMatch unless the Reshape splits the first of three axes into batch and heads, and changes no other."""
    transpose = match.graph.producer(match.node("key_t").inputs[0])
    flat = match.graph.shape(transpose.outputs[0] if transpose else "") or ()
    if len(flat) != 3 or flat[1:] != (match.graph.shape(match["key_t"]) or ())[2:]:
        raise NoMatch(f"{match.node('key_t')} does not split the first of three axes into batch and heads")


def order_of_merged(match: Match) -> tuple[int, ...]:
    """The permutation of the merged keys that keeps their size as the last axis."""
    merged, size, length = match.data["perm"]
    return (merged, length, size)


def shape_of_keys(match: Match) -> np.ndarray:
    """Batch, heads, length and size of the keys; -1 for a batch that is not known."""
    batch, heads, size, length = match.graph.shape(match["key_t"]) or ()
    return np.array([batch if isinstance(batch, int) else -1, heads, length, size], np.int64)


@dataclass(frozen=True)
class RecomposeAttention(Pass):
    """softmax(scale * query @ transpose(key)) @ value, all of float32 with axes batch, heads, length and size, becomes
    Attention. The scale may be anywhere in the product; the keys are transposed by a Transpose, or by one between two
    Reshapes that merge batch and heads and split them again. If the Transpose permutes other axes too, a Transpose
    stays, and a Reshape, if batch and heads were merged before it. A constant that is added to the scores, with at
    least one number for every query and key, becomes the mask.

    Does not apply:

    - if a mask is computed, or hides all keys from a query, since Attention then returns zeros and Softmax does not;
    - if a size other than the batch is not known, since ONNX Runtime's Attention does not support axes of size 0 (nor
      an empty batch; a symbolic one is assumed not to be empty);
    - if batch or heads are broadcast;
    - if anything else reads an intermediate value;
    - before opset 23.

    Source: ONNX's definition of Attention; Vaswani et al., "Attention Is All You Need".
    """

    title = "Recompose Attention"

    extra_examples = (
        Example(
            title="Masked by a constant",
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
            sentences=(
                "6 nodes, from Transpose 'Transpose_t' to MatMul 'MatMul_y', compute Attention of 'q'; 5 nodes fewer",
            ),
        ),
    )

    rules = (
        graph_rule(
            "attention",
            _TWO_RESHAPES,
            f"y = Attention(query, key, value, mask, scale={_SCALE})",
            recomposed("query"),
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
                sentences=("6 nodes, from Mul 'Mul_a' to MatMul 'MatMul_y', compute Attention of 'q'; 5 nodes fewer",),
            ),
            refusals=(
                Refusal(
                    """g (float[2,1,3,4] q, float[2,1,2,4] k, float[2,1,2,5] v, float[3,2] m) => (float[2,1,3,5] y) {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Add(c, m)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "'m', an operand of Add 'Add_d', is not a constant",
                ),
                Refusal(
                    "g (float[2,3] p, float[3,4] v) => (float[2,4] y) { y = MatMul(p, v) }",
                    "MatMul 'MatMul_y' does not follow a Softmax",
                ),
                Refusal(
                    """g (float[N,1,S,4] q, float[N,1,2,4] k, float[N,1,2,5] v) => (float[N,1,S,5] y) {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  p = Softmax<axis=-1>(c)  y = MatMul(p, v)
                    }""",
                    "the operands of MatMul 'MatMul_y' do not have four axes of known sizes (except for the batch);"
                    " ONNX Runtime's Attention does not support axes of size 0",
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
                    "'d' is scaled by -1, which Attention does not support",
                ),
                Refusal(
                    """g (float[2,1,3,4] q, float[2,1,4,2] k, float[2,1,2,5] v) => (float[2,1,3,5] y) {
                        c = MatMul(q, k)  p = Softmax<axis=-1>(c)  y = MatMul(p, v)
                    }""",
                    "MatMul 'MatMul_c' does not follow a Transpose or Reshape",
                ),
                Refusal(
                    """g (float[2,1,2,4] q, float[2,1,2,4] k, float[2,1,2,5] v) => (float[2,1,2,5] y)
                        <float[2,2] m = {-1e38, -1e38, 0, 0}> {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Add(c, m)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "mask 'm' hides all keys from a query; Attention then returns zeros, Softmax does not",
                ),
                Refusal(
                    """g (float[2,1,2,4] q, float[2,1,2,4] k, float[2,1,2,5] v, float[2,2] m) => (float[2,1,2,5] y) {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Add(c, m)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "'m', an operand of Add 'Add_d', is not a constant",
                ),
                Refusal(
                    """g (float[2,1,2,4] q, float[2,1,2,4] k, float[2,1,2,5] v) => (float[2,1,2,5] y)
                        <float[2] m = {0, 1}> {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Add(c, m)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "mask 'm' is not known to hold a number for every query and key",
                ),
                Refusal(
                    """g (float[2,1,2,4] q, float[2,1,2,4] k, float[2,1,2,5] v) => (float[2,1,2,5] y)
                        <float[2,2] m = {1e38, 0, 0, 0}> {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Add(c, m)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "mask 'm' holds numbers above 1e30, or NaN",
                ),
                Refusal(
                    """g (float[2,1,2,4] q, float[2,1,0,4] k, float[2,1,0,5] v) => (float[2,1,2,5] y)
                        <float[2,0] m = {}> {
                        t = Transpose<perm=[0,1,3,2]>(k)  c = MatMul(q, t)  d = Add(c, m)  p = Softmax<axis=-1>(d)
                        y = MatMul(p, v)
                    }""",
                    "mask 'm' is not known to hold a number for every query and key",
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
            constants=("mask",),
            numbers=("scale", "scale_of_query", "scale_of_key"),
            where=(refuse_other_masks, refuse_other_sizes, refuse_other_keys, refuse_other_scales, is_float32("query")),
            exactness=Exactness.ROUNDING,
            law="attention(q, k, v, mask) == softmax(scale * q @ transpose(k) + mask) @ v",
        ),
        graph_rule(
            "attention of keys that are transposed too",
            _TRANSPOSED,
            f"y = Attention(query, Transpose(key, perm=order), value, mask, scale={_SCALE})",
            recomposed("query"),
            Example(
                before="""g (float[2,1,3,4] q, float[2,5,1,4] k, float[2,1,5,6] v) => (float[2,1,3,6] y)
                    <float e = {2}> {
                    t = Transpose<perm=[0,2,3,1]>(k)
                    c = MatMul(q, t)
                    d = Div(c, e)
                    p = Softmax<axis=-1>(d)
                    y = MatMul(p, v)
                }""",
                after="""g (float[2,1,3,4] q, float[2,5,1,4] k, float[2,1,5,6] v) => (float[2,1,3,6] y) {
                    y_transpose = Transpose<perm=[0,2,1,3]>(k)
                    y = Attention<scale=0.5>(q, y_transpose, v)
                }""",
                sentences=(
                    "5 nodes, from Transpose 'Transpose_t' to MatMul 'MatMul_y', compute Attention of 'q'; 3 nodes "
                    "fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2,1,3,4] q, float[2,5,1,4] k, float[2,1,5,6] v) => (float[2,1,3,6] y) <float e = {2}>"
                    " { t = Transpose<perm=[0,2,3,1]>(k)  c = MatMul(q, t)  d = Div(c, e)"
                    "  p = Softmax<axis=-2>(d)  y = MatMul(p, v) }",
                    "Softmax 'Softmax_p' has axis=2, not 3",
                ),
            ),
            constants=("mask",),
            numbers=("scale", "scale_of_query", "scale_of_key"),
            where=(refuse_other_masks, refuse_other_sizes, refuse_other_scales, is_float32("query")),
            computed={"order": order},
            exactness=Exactness.ROUNDING,
            law="attention(q, k, v, mask) == softmax(scale * q @ transpose(k) + mask) @ v",
        ),
        graph_rule(
            "attention of keys whose batch and heads are merged",
            _MERGED,
            f"y = Attention(query, Reshape(Transpose(merged, perm=order), shape_of_keys), value, mask, scale={_SCALE})",
            recomposed("query"),
            Example(
                before="""g (float[2,3,5,4] q, float[7,6,4] k, float[2,3,7,4] v) => (float[2,3,5,4] y)
                    <int64[4] back = {2, 3, 4, 7}> {
                    f = Transpose<perm=[1,2,0]>(k)
                    t = Reshape<allowzero=1>(f, back)
                    c = MatMul(q, t)
                    p = Softmax<axis=-1>(c)
                    y = MatMul(p, v)
                }""",
                after="""g (float[2,3,5,4] q, float[7,6,4] k, float[2,3,7,4] v) => (float[2,3,5,4] y)
                    <int64[4] y_shape_of_keys = {2, 3, 7, 4}> {
                    y_transpose = Transpose<perm=[1,0,2]>(k)
                    y_reshape = Reshape(y_transpose, y_shape_of_keys)
                    y = Attention<scale=1.0>(q, y_reshape, v)
                }""",
                sentences=(
                    "5 nodes, from Transpose 'Transpose_f' to MatMul 'MatMul_y', compute Attention of 'q'; 2 nodes "
                    "fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2,3,5,4] q, float[7,24] k, float[2,3,7,4] v) => (float[2,3,5,4] y)
                        <int64[4] back = {2, 3, 4, 7}> {
                        f = Transpose<perm=[1,0]>(k)  t = Reshape(f, back)  c = MatMul(q, t)  p = Softmax<axis=-1>(c)
                        y = MatMul(p, v)
                    }""",
                    "Reshape 'Reshape_t' does not split the first of three axes into batch and heads",
                ),
            ),
            constants=("mask",),
            numbers=("scale", "scale_of_query", "scale_of_key"),
            where=(
                refuse_other_masks,
                refuse_other_sizes,
                refuse_other_merged_keys,
                refuse_other_scales,
                is_float32("query"),
            ),
            computed={"order": order_of_merged, "shape_of_keys": shape_of_keys},
            exactness=Exactness.ROUNDING,
            law="attention(q, k, v, mask) == softmax(scale * q @ transpose(k) + mask) @ v",
        ),
    )
