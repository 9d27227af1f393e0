"""Verdicts and errors as tables show them."""

from __future__ import annotations

from typing import Any


def verdict_word(ok: bool | None) -> str:
    return {True: "equal", False: "NOT EQUAL", None: "not verified"}[ok]


def error_words(largest: float | None) -> str:
    """A relative error as tables show it."""
    return "-" if largest is None else f"{largest:.1e}"


def error_text(verdict: Any) -> str:
    """The error as tables show it: "bit-equal", or the largest relative error."""
    if verdict.bit_equal:
        return "bit-equal"
    return error_words(verdict.max_rel_error)
