"""Shared by patterns of attention: `query` is [batch, heads, queries, size], `split` [batch, keys, heads, size]."""

from __future__ import annotations

import math

from workbench.rewrite.core.rule import NoMatch
from workbench.rewrite.patterns.matching import Match


def heads_of(match: Match) -> int:
    """The number of heads, which must be known."""
    heads = (match.graph.shape(match["query"]) or (0, 0))[1]
    assert isinstance(heads, int)
    return heads


def scale_of_scores(match: Match) -> float:
    """The factor of the scores: the product of the scales in the pattern, or the scale of ONNX's Attention in `others`.

    The default of Attention is the reciprocal root of a head's size.
    """
    if "others" not in match.data:
        return float(match.data["scale"] * match.data["scale_of_query"] * match.data["scale_of_key"])
    size = (match.graph.shape(match["query"]) or (1,))[-1]
    assert isinstance(size, int)
    return float(match.data["others"].get("scale", 1 / math.sqrt(size)))


def has_a_scale(match: Match) -> None:
    if not math.isfinite(scale_of_scores(match)) or scale_of_scores(match) == 0:
        raise NoMatch(
            f"the scores of {match.root} are scaled by {scale_of_scores(match):g}; ONNX Runtime takes 0 for its default"
        )


def has_whole_mask(match: Match) -> None:
    """Raises NoMatch unless the mask, if any, has a number for each query and key, for one or all batches and heads."""
    if match.get("mask") is None:
        return
    mask, query, split = (match.graph.shape(match[name]) or () for name in ("mask", "query", "split"))
    batch, heads, queries, _ = query
    if None in (*mask, *query):
        raise NoMatch(f"sizes of mask '{match['mask']}' or of '{match['query']}' are not known")
    if len(mask) != 4 or mask[0] not in (1, batch) or mask[1] not in (1, heads) or mask[2:] != (queries, split[1]):
        raise NoMatch(f"mask '{match['mask']}' is not known to hold a number for every query and key")
