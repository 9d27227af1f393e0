"""Self-attention from its input to its result becomes ONNX Runtime's Attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import cleandoc

import numpy as np

from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.analyses.attention_heads import has_a_scale, has_whole_mask, heads_of, scale_of_scores
from workbench.rewrite.core.rule import Rule
from workbench.rewrite.patterns.building import Constraint
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import is_float32

_HEADS = """
    query = Transpose(Reshape(Add(MatMul(x, wq), bq) | MatMul(x, wq), q_shape, **q_others), perm=[0, 2, 1, 3])
    value = Transpose(Reshape(Add(MatMul(x, wv), bv) | MatMul(x, wv), v_shape, **v_others), perm=[0, 2, 1, 3])
    split = Reshape(Add(MatMul(x, wk), bk) | MatMul(x, wk), k_shape, **k_others)
"""
_KEYS = (
    "key_t = Transpose(split, perm=[0, 2, 3, 1])",
    """
    keys = Transpose(split, perm=[0, 2, 1, 3])
    flat = Reshape(keys, flat_shape)
    key_t = Transpose(keys, perm=[0, 1, 3, 2]) | Reshape(Transpose(flat, perm=[0, 2, 1]), transposed_shape)
    """,
)
_RESULT = """
    scores = scale * MatMul(scale_of_query * query, scale_of_key * key_t)
    joined = Transpose(MatMul(Softmax(Add(scores, mask) | scores, axis=-1), value), perm=[0, 2, 1, 3])
    y = Reshape(joined, shape, **y_others)
"""
_ATTENTION = "com.microsoft.Attention(x, weights, bias, None, None, {mask}, num_heads=heads, scale=factor)"
_SENTENCE = (
    "self-attention of '{x}', {count} nodes, from {nodes[0]} to {root}, becomes one kernel of ONNX Runtime, {new}; "
    "{fewer} "
    "fewer"
)
_LETTERS = "qkv"


def splits_into_heads(match: Match) -> None:
    """Raises NoMatch unless three products split their columns into the same heads, of known number and size."""
    shape = match.graph.shape
    x, query, value, transposed = (shape(match[name]) or () for name in ("x", "query", "value", "key_t"))
    if len(x) != 3 or len(query) != 4 or not all(isinstance(size, int) and size > 0 for size in (query[1], query[3])):
        raise NoMatch(f"'{match['x']}' is not known to have three axes, or the number and size of heads is not known")
    batch, length = x[:2]
    if None in (batch, length):
        raise NoMatch(f"sizes of '{match['x']}' are not known")
    batch_q, heads, length_q, size = query
    if (batch_q, length_q) != (batch, length) or value != query or transposed != (batch, heads, size, length):
        raise NoMatch(
            f"queries, keys and values of {match.root} do not have the same heads for each position of the text"
        )
    assert isinstance(heads, int) and isinstance(size, int)
    width = heads * size
    if any(shape(match[f"w{letter}"]) != (x[2], width) for letter in _LETTERS) or shape(match["y"]) != (
        batch,
        length,
        width,
    ):
        raise NoMatch(f"{match.root} does not join {heads} heads of {size} numbers to the {width:,} of a product")
    for letter in _LETTERS:
        bias = match.get(f"b{letter}")
        if bias is not None and shape(bias) != (width,):
            raise NoMatch(f"'{bias}' is not a bias of {width:,} numbers")


def has_mask_of_keys(match: Match) -> None:
    """Raises NoMatch unless the mask has a number for each key, the same for all queries."""
    if match.get("mask") is None:
        raise NoMatch(f"nothing is added to '{match['scores']}'")
    mask, scores = (match.graph.shape(match[name]) or () for name in ("mask", "scores"))
    if None in mask:
        raise NoMatch(f"sizes of mask '{match['mask']}' are not known")
    if len(mask) != 4 or mask[1:3] != (1, 1) or mask[0] not in (1, scores[0]) or mask[3] != scores[3]:
        raise NoMatch(f"mask '{match['mask']}' is not known to hold a number for every key")


def has_known_length(match: Match) -> None:
    if not isinstance((match.graph.shape(match["scores"]) or ())[2], int):
        raise NoMatch(f"the mask of '{match['scores']}' is expanded to the number of queries, which is not known")


def has_symbolic_length(match: Match) -> None:
    """Raises NoMatch unless the queries are as many as the keys, and so as many as the numbers of the mask."""
    if not isinstance((match.graph.shape(match["scores"]) or ())[2], str):
        raise NoMatch(f"the number of queries of '{match['scores']}' is not a symbolic dim")


def packed_weights(match: Match) -> np.ndarray:
    """The columns of queries, keys and values side by side."""
    return np.concatenate([match.graph.constants[match[f"w{letter}"]].numpy() for letter in _LETTERS], axis=1)


def packed_bias(match: Match) -> np.ndarray:
    """Zeros where nothing is added; ONNX Runtime 1.31 ends the process if there is a mask and no bias."""
    names = [match.get(f"b{letter}") for letter in _LETTERS]
    zeros = np.zeros(match.graph.constants[match["wq"]].numpy().shape[1], np.float32)
    return np.concatenate([zeros if name is None else match.graph.constants[name].numpy() for name in names])


def size_of_mask(match: Match) -> np.ndarray:
    return np.array([1, 1, (match.graph.shape(match["scores"]) or (0, 0, 0))[2], 1], np.int64)


_SIZES = {
    "whole": size_of_mask,
    "batch_and_heads": lambda match: np.array([1, 1], np.int64),
    "keys": lambda match: np.array([1], np.int64),
}


def _attention(mask: str = "", added: str = "", changed: Sequence[tuple[str, str]] = ()) -> str:
    """Attention of two heads of two numbers, as text. mask: an input. changed: pieces of the text, and new ones."""
    text = f"""g (float[2,3,3] x{mask}) => (float[2,3,4] y) <
        float[3,4] q = {{1, 2, 0, 1, 0, 1, 1, 0, 2, 0, 1, 1}}, float[4] b = {{1, 2, 3, 4}},
        float[3,4] k = {{1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 1}}, float[3,4] v = {{0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0}},
        int64[4] heads = {{2, 3, 2, 2}}, int64[3] whole = {{2, 3, 4}}, float e = {{0.5}}> {{
        a = MatMul(x, q)
        a0 = Add(a, b)
        a1 = Reshape(a0, heads)
        a2 = Transpose<perm=[0,2,1,3]>(a1)
        c = MatMul(x, k)
        c1 = Reshape(c, heads)
        c2 = Transpose<perm=[0,2,3,1]>(c1)
        d = MatMul(x, v)
        d1 = Reshape(d, heads)
        d2 = Transpose<perm=[0,2,1,3]>(d1)
        s = MatMul(a2, c2)
        t = Mul(s, e)
        {added}
        p = Softmax<axis=-1>({"u" if added else "t"})
        o = MatMul(p, d2)
        o1 = Transpose<perm=[0,2,1,3]>(o)
        y = Reshape(o1, whole)
    }}"""
    for old, new in changed:
        text = text.replace(old, new)
    return text


_SYMBOLIC = (("float[2,3,", "float[2,S,"), ("{2, 3, 2, 2}", "{0, 0, 2, 2}"), ("{2, 3, 4}", "{0, 0, 4}"))


def _example(
    mask: str, added: str, after: str, constants_after: str, fewer: int, changed: Sequence[tuple[str, str]] = ()
) -> Example:
    size = changed[0][1] if changed else "float[2,3,"
    return Example(
        before=_attention(mask, added, changed),
        after=f"""g ({size}3] x{mask}) => ({size}4] y) <
            float[3,12] y_weights = {{1, 2, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1,
              2, 0, 1, 1, 1, 0, 0, 1, 0, 0, 1, 0}},
            float[12] y_bias = {{1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0}}{constants_after}> {{
            {after}
        }}""",
        sentences=(
            "self-attention of 'x', 17 nodes, from MatMul 'MatMul_a' to Reshape 'Reshape_y', becomes one kernel of "
            "ONNX "
            "Runtime, "
            f"com.microsoft.Attention; {fewer} nodes fewer",
        ),
    )


def _rule(name: str, mask: str, where: Sequence[Constraint], example: Example, refusals: tuple[Refusal, ...]) -> Rule:
    """mask: the operand of Attention, as a term of the graph after."""
    after = f"y = {_ATTENTION.format(mask=mask)}"
    first, *others = ("\n".join(map(cleandoc, (_HEADS, keys, _RESULT))) for keys in _KEYS)
    return graph_rule(
        name,
        first,
        after,
        _SENTENCE,
        example,
        refusals,
        further=[(other, after) for other in others],
        constants=("wq", "wk", "wv", "bq", "bk", "bv"),
        numbers=("scale", "scale_of_query", "scale_of_key"),
        where=(splits_into_heads, *where, has_a_scale, is_float32("x")),
        computed={
            "weights": packed_weights,
            "bias": packed_bias,
            "heads": heads_of,
            "factor": scale_of_scores,
            **{name: value for name, value in _SIZES.items() if name in mask},
        },
        exactness=Exactness.ROUNDING,
    )


@dataclass(frozen=True)
class OrtAttention(Pass):
    """Self-attention of float32, from the three products of one value with constant weights, with or without biases, to
    the Reshape that joins the heads, becomes com.microsoft.Attention of that value, with the weights side by side. What
    is added to the scores becomes its attention_bias:

    - if it has a number for each query and key;
    - if it has one for each key, by an Expand, whose shape is computed if the length of the text is not known.

    Does not apply:

    - if queries, keys and values are not computed from the same value;
    - if the number or size of heads is not known;
    - if the mask has another shape;
    - if anything else reads an intermediate value.

    The file then runs in ONNX Runtime only.

    Source: ONNX Runtime's Attention, https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
    """

    title = "ONNX Runtime: self-attention in one kernel"

    rules = (
        _rule(
            "whole mask",
            "mask",
            (has_whole_mask,),
            _example(
                ", float[1,1,3,3] m",
                "u = Add(t, m)",
                "y = com.microsoft.Attention<num_heads=2, scale=0.5>(x, y_weights, y_bias, , , m)",
                "",
                fewer=16,
            ),
            (
                Refusal(
                    _attention(", float[3,3] m", "u = Add(t, m)"),
                    "mask 'm' is not known to hold a number for every query and key",
                ),
                Refusal(
                    _attention(", float[1,1,?,?] m", "u = Add(t, m)"),
                    "sizes of mask 'm' or of 'a2' are not known",
                ),
                Refusal(
                    _attention(changed=[("float e = {0.5}", "float e = {0}")]),
                    "the scores of Reshape 'Reshape_y' are scaled by 0; ONNX Runtime takes 0 for its default",
                ),
                Refusal(
                    _attention(changed=[("float[4] b = {1, 2, 3, 4}", "float[1] b = {1}")]),
                    "'b' is not a bias of 4 numbers",
                ),
                Refusal(
                    _attention(", float[2,3,3] z", changed=[("d = MatMul(x, v)", "d = MatMul(z, v)")]),
                    "the pattern needs 'x' where MatMul 'MatMul_d' reads 'z'",
                ),
                Refusal(
                    _attention(
                        changed=[
                            ("d1 = Reshape(d, heads)", "d1 = Reshape(d, one)"),
                            ("int64[3] whole = {2, 3, 4}", "int64[3] whole = {2, 3, 8}, int64[4] one = {2, 3, 1, 4}"),
                            ("(float[2,3,4] y)", "(float[2,3,8] y)"),
                        ]
                    ),
                    "queries, keys and values of Reshape 'Reshape_y' do not have the same heads for each position of"
                    " the text",
                ),
                Refusal(
                    _attention(
                        changed=[
                            ("float[2,3,3] x", "float[3,3] x"),
                            ("int64[4] heads = {2, 3, 2, 2}", "int64[4] heads = {1, 3, 2, 2}"),
                            ("int64[3] whole = {2, 3, 4}", "int64[3] whole = {1, 3, 4}"),
                            ("(float[2,3,4] y)", "(float[1,3,4] y)"),
                        ]
                    ),
                    "'x' is not known to have three axes, or the number and size of heads is not known",
                ),
                Refusal(
                    _attention(
                        changed=[
                            ("float[2,3,3] x", "float[?,?,3] x"),
                            ("{2, 3, 2, 2}", "{0, 0, 2, 2}"),
                            ("{2, 3, 4}", "{0, 0, 4}"),
                            ("(float[2,3,4] y)", "(float[?,?,4] y)"),
                        ]
                    ),
                    "sizes of 'x' are not known",
                ),
                Refusal(
                    _attention(changed=[("(float[2,3,4] y)", "(float[2,3,4] y, float[2,2,3,3] p)")]),
                    "'p' of Softmax 'Softmax_p' is an output of the graph",
                ),
                Refusal(
                    _attention(
                        ", float[3,4] q", changed=[("float[3,4] q = {1, 2, 0, 1, 0, 1, 1, 0, 2, 0, 1, 1}, ", "")]
                    ),
                    "'q', an operand of MatMul 'MatMul_a', is not a constant",
                ),
            ),
        ),
        _rule(
            "mask of keys",
            "Expand(mask, whole)",
            (has_mask_of_keys, has_known_length),
            _example(
                ", float[2,1,1,3] m",
                "u = Add(m, t)",
                "y_expand = Expand(m, y_whole)"
                "  y = com.microsoft.Attention<num_heads=2, scale=0.5>(x, y_weights, y_bias, , , y_expand)",
                ", int64[4] y_whole = {1, 1, 3, 1}",
                fewer=15,
            ),
            (
                Refusal(_attention(), "nothing is added to 't'"),
                Refusal(_attention(", float[?,1,1,?] m", "u = Add(t, m)"), "sizes of mask 'm' are not known"),
                Refusal(
                    _attention(", float[3] m", "u = Add(t, m)"),
                    "mask 'm' is not known to hold a number for every key",
                ),
            ),
        ),
        _rule(
            "mask of keys of any number",
            "Expand(mask, Concat(batch_and_heads, Shape(mask, start=3), keys, axis=0))",
            (has_mask_of_keys, has_symbolic_length),
            _example(
                ", float[2,1,1,S] m",
                "u = Add(t, m)",
                """y_shape = Shape<start=3>(m)
                y_concat = Concat<axis=0>(y_batch_and_heads, y_shape, y_keys)
                y_expand = Expand(m, y_concat)
                y = com.microsoft.Attention<num_heads=2, scale=0.5>(x, y_weights, y_bias, , , y_expand)""",
                ", int64[2] y_batch_and_heads = {1, 1}, int64[1] y_keys = {1}",
                fewer=13,
                changed=_SYMBOLIC,
            ),
            (
                Refusal(
                    _attention(", float[2,1,1,3] m", "u = Add(t, m)"),
                    "the number of queries of 't' is not a symbolic dim",
                ),
            ),
        ),
    )
