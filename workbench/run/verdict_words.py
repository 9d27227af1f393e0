"""Verdicts and errors as text for tables."""

from __future__ import annotations

from typing import Any


def verdict_label(ok: bool | None) -> str:
    """A verdict in one or two words."""
    return {True: "equal", False: "NOT EQUAL", None: "not verified"}[ok]


def verdict_word(verdict: Any) -> str:
    """The same for a verdict, which may be of values that were quantized on purpose."""
    return "close" if verdict.is_close else verdict_label(verdict.ok)


def relative_error_text(largest: float | None) -> str:
    """A relative error as text: "1.2e-07", or "-" if there is none."""
    return "-" if largest is None else f"{largest:.1e}"


def error_text(verdict: Any) -> str:
    """The error of a verdict as text: "bit-equal", or the largest relative error."""
    if verdict.bit_equal:
        return "bit-equal"
    return relative_error_text(verdict.max_rel_error)
