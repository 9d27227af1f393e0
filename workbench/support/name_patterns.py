"""Patterns of names of nodes as a user writes them: `/head/*,Pow_12`."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence


def name_patterns(text: str) -> tuple[str, ...]:
    """The patterns of a text, which commas separate."""
    return tuple(filter(None, (one.strip() for one in text.split(","))))


def matching_pattern(name: str, patterns: Sequence[str]) -> str | None:
    """The first pattern that the whole name fits, as in `fnmatchcase`; None if none does."""
    return next((one for one in patterns if fnmatch.fnmatchcase(name, one)), None)
