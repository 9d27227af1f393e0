"""Patterns of names of nodes as a user writes them: `/head/*,Pow_12`."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence


def name_patterns(text: str) -> tuple[str, ...]:
    """The patterns of a text, which commas separate."""
    return tuple(filter(None, (one.strip() for one in text.split(","))))


def matching_pattern(name: str, patterns: Sequence[str]) -> str | None:
    """The first pattern that the whole name fits, as in `fnmatchcase`; None if none does."""
    return next((one for one in patterns if fnmatch.fnmatchcase(name, one)), None)


def matching_names(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The names that fit a pattern, in order."""
    return [name for name in names if matching_pattern(name, patterns) is not None]


def unmatched_patterns(names: Iterable[str], patterns: Sequence[str]) -> tuple[str, ...]:
    """The patterns that none of the names fits."""
    known = tuple(names)
    return tuple(one for one in patterns if not any(fnmatch.fnmatchcase(name, one) for name in known))
