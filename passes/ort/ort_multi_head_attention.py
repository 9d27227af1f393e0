"""Attention between heads that are split off and joined again becomes ONNX Runtime's MultiHeadAttention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import cleandoc

from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.analyses.attention_heads import has_a_scale, has_whole_mask, heads_of, scale_of_scores
from workbench.rewrite.core.rule import Rule
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.standard import is_float32

_HEADS = """
    query = Transpose(Reshape(q, q_shape, **q_others), perm=[0, 2, 1, 3])
    split = Reshape(k, k_shape, **k_others)
    value = Transpose(Reshape(v, v_shape, **v_others), perm=[0, 2, 1, 3])
"""
_JOINED = "y = Reshape(Transpose(attended, perm=[0, 2, 1, 3]), shape, **y_others)"
_STANDARD = """
    keys = Transpose(split, perm=[0, 2, 1, 3])
    attended = Attention(query, keys, value, hidden | None, **others)
"""
_WRITTEN_OUT = """
    key_t = Transpose(split, perm=[0, 2, 3, 1]) | Transpose(Transpose(split, perm=[0, 2, 1, 3]), perm=[0, 1, 3, 2])
    scores = scale * MatMul(scale_of_query * query, scale_of_key * key_t)
    attended = MatMul(Softmax(Add(scores, mask) | scores, axis=-1), value)
"""


def has_equal_heads(match: Match) -> None:
    """Raises NoMatch unless three values of three axes are split into the same heads, of known number and size, which
    are joined again."""
    shape = match.graph.shape
    three_axes = [shape(match[name]) or () for name in ("q", "k", "v", "y")]
    four_axes = [shape(match[name]) or () for name in ("query", "split", "value", "attended")]
    if any(len(entry) != 3 for entry in three_axes) or any(len(entry) != 4 for entry in four_axes):
        raise NoMatch(f"{match.root} does not join what was split off values of three axes")
    for name, sizes in zip(("q", "k", "v"), three_axes, strict=False):
        if None in sizes:
            raise NoMatch(f"sizes of '{match[name]}' are not known")
    batch, heads, queries, size = four_axes[0]
    if not all(isinstance(entry, int) and entry > 0 for entry in (heads, size)):
        raise NoMatch(f"the number and size of heads of '{match['query']}' is not known")
    keys = four_axes[1][1]
    assert isinstance(heads, int) and isinstance(size, int)
    query_heads, key_heads = (batch, heads, queries, size), (batch, heads, keys, size)
    query_rows, key_rows = (batch, queries, heads * size), (batch, keys, heads * size)
    if four_axes != [query_heads, (batch, keys, heads, size), key_heads, query_heads] or three_axes != [
        query_rows,
        key_rows,
        key_rows,
        query_rows,
    ]:
        raise NoMatch(f"queries, keys and values of {match.root} do not have the same heads of the same size")


def refuse_more_than_scores(match: Match) -> None:
    """Raises NoMatch if ONNX's Attention has a mask, is causal, or does anything else."""
    if match.get("hidden") is not None:
        raise NoMatch(
            f"where '{match['hidden']}' hides all keys from a query, {match.node('attended')} gives 0 in ONNX Runtime,"
            " MultiHeadAttention their mean or NaN"
        )
    others = sorted(set(match.data.get("others", {})) - {"scale"})
    if others:
        raise NoMatch(
            f"{match.node('attended')} has {others[0]}, which ONNX Runtime's MultiHeadAttention does not take"
        )


def _attention(
    mask: str = "", attended: str = "o = Attention<scale=0.25>(a, b, c)", changed: Sequence[tuple[str, str]] = ()
) -> str:
    """Attention of two heads of two numbers, three queries and five keys, as text. mask: an input."""
    text = f"""g (float[2,3,4] q, float[2,5,4] k, float[2,5,4] v{mask}) => (float[2,3,4] y) <
        int64[4] heads = {{2, -1, 2, 2}}, int64[3] whole = {{2, 3, 4}}, float e = {{0.25}}> {{
        a0 = Reshape(q, heads)
        a = Transpose<perm=[0,2,1,3]>(a0)
        b0 = Reshape(k, heads)
        b = Transpose<perm=[0,2,1,3]>(b0)
        c0 = Reshape(v, heads)
        c = Transpose<perm=[0,2,1,3]>(c0)
        {attended}
        o0 = Transpose<perm=[0,2,1,3]>(o)
        y = Reshape(o0, whole)
    }}"""
    for old, new in changed:
        text = text.replace(old, new)
    return text


_MASK = ", float[2,1,3,5] m"
_BY_SOFTMAX = """b1 = Transpose<perm=[0,1,3,2]>(b)
        s = MatMul(a, b1)
        t = Mul(s, e)
        u = Add(t, m)
        p = Softmax<axis=-1>(u)
        o = MatMul(p, c)"""


def _fused(mask: str = "", more: str = "") -> str:
    """What it becomes, as text. more: further operands."""
    return f"""g (float[2,3,4] q, float[2,5,4] k, float[2,5,4] v{mask}) => (float[2,3,4] y) {{
        y = com.microsoft.MultiHeadAttention<num_heads=2, scale=0.25>(q, k, v{more})
    }}"""


def _sentence(count: int) -> str:
    return (
        f"attention of {count} nodes to Reshape 'Reshape_y', of 'q', 'k' and 'v', becomes one kernel of ONNX Runtime,"
        f" com.microsoft.MultiHeadAttention; {count - 1} nodes fewer"
    )


def _rule(
    name: str, attended: str, example: Example, refusals: tuple[Refusal, ...], numbers: Sequence[str] = ()
) -> Rule:
    """attended: the terms between the heads and their join."""
    return graph_rule(
        name,
        "\n".join(map(cleandoc, (_HEADS, attended, _JOINED))),
        "y = com.microsoft.MultiHeadAttention(q, k, v, None, None, mask, num_heads=heads, scale=factor)",
        "attention of {count} nodes to {root}, of '{q}', '{k}' and '{v}', becomes one kernel of ONNX Runtime, {new};"
        " {fewer} fewer",
        example,
        refusals,
        numbers=numbers,
        where=(has_equal_heads, has_whole_mask, refuse_more_than_scores, has_a_scale, is_float32("q")),
        computed={"heads": heads_of, "factor": scale_of_scores, **({} if numbers else {"mask": lambda match: None})},
        exactness=Exactness.ROUNDING,
    )


@dataclass(frozen=True)
class OrtMultiHeadAttention(Pass):
    """Attention of float32 over heads that are split off three values of three axes, and joined again, becomes
    com.microsoft.MultiHeadAttention of these values: ONNX's operator, or written out by Softmax. Queries may be of
    another value than keys and values (cross-attention). A mask that is added to written out scores becomes its
    attention_bias.

    Does not apply:

    - if the number or size of heads is not known or differs;
    - if the mask does not have a number for each query and key;
    - if ONNX's operator has a mask or is causal;
    - if anything else reads an intermediate value.

    The file then runs in ONNX Runtime only.

    Source: ONNX Runtime's MultiHeadAttention,
    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
    """

    title = "ONNX Runtime: attention of several heads in one kernel"

    rules = (
        _rule(
            "Attention",
            _STANDARD,
            Example(
                before=_attention(),
                after=_fused(),
                sentences=(_sentence(9),),
            ),
            (
                Refusal(
                    _attention(_MASK, "o = Attention<scale=0.25>(a, b, c, m)"),
                    "where 'm' hides all keys from a query, Attention 'Attention_o' gives 0 in ONNX Runtime,"
                    " MultiHeadAttention their mean or NaN",
                ),
                Refusal(
                    _attention(attended="o = Attention<is_causal=1>(a, b, c)"),
                    "Attention 'Attention_o' has is_causal, which ONNX Runtime's MultiHeadAttention does not take",
                ),
                Refusal(
                    _attention(attended="o = Attention<scale=0.0>(a, b, c)"),
                    "the scores of Reshape 'Reshape_y' are scaled by 0; ONNX Runtime takes 0 for its default",
                ),
                Refusal(
                    _attention(
                        changed=[
                            ("c0 = Reshape(v, heads)", "c0 = Reshape(v, narrow)"),
                            ("float[2,5,4] v", "float[2,5,2] v"),
                            (
                                "int64[3] whole = {2, 3, 4}",
                                "int64[3] whole = {2, 3, 2}, int64[4] narrow = {2, 5, 2, 1}",
                            ),
                            ("(float[2,3,4] y)", "(float[2,3,2] y)"),
                        ]
                    ),
                    "queries, keys and values of Reshape 'Reshape_y' do not have the same heads of the same size",
                ),
                Refusal(
                    _attention(
                        changed=[("int64[3] whole = {2, 3, 4}", "int64[2] whole = {2, 12}"), ("[2,3,4] y", "[2,12] y")]
                    ),
                    "Reshape 'Reshape_y' does not join what was split off values of three axes",
                ),
                Refusal(
                    _attention(
                        changed=[
                            (
                                "float[2,3,4] q, float[2,5,4] k, float[2,5,4] v",
                                "float[?,?,4] q, float[?,?,4] k, float[?,?,4] v",
                            ),
                            ("{2, -1, 2, 2}", "{0, 0, 2, 2}"),
                            ("{2, 3, 4}", "{0, 0, 4}"),
                            ("(float[2,3,4] y)", "(float[?,?,4] y)"),
                        ]
                    ),
                    "sizes of 'q' are not known",
                ),
                Refusal(
                    _attention(changed=[("(float[2,3,4] y)", "(float[2,3,4] y, float[2,2,5,2] b)")]),
                    "'b' of Transpose 'Transpose_b' is an output of the graph",
                ),
            ),
        ),
        _rule(
            "written out",
            _WRITTEN_OUT,
            Example(
                before=_attention(_MASK, _BY_SOFTMAX),
                after=_fused(_MASK, ", , , m"),
                sentences=(_sentence(14),),
            ),
            (
                Refusal(
                    _attention(", float[3,5] m", _BY_SOFTMAX),
                    "mask 'm' is not known to hold a number for every query and key",
                ),
            ),
            numbers=("scale", "scale_of_query", "scale_of_key"),
        ),
    )
