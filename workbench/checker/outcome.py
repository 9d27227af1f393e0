"""Outcomes of a check: statements that hold, the first that does not, or a file that cannot be read.

Names come from untrusted files. They enter a sentence only through `in_quotes`, `escaped` or `one_line`, so that no
name ends the line, hides it, or closes its quotation marks.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

_LONGEST = 120  # characters of a name in a sentence
_HIDDEN = ("C", "Z", "M")  # Unicode's categories of control, separator and combining characters


class DoesNotHold(Exception):
    """The message is the first statement of the certificate that does not hold, as one sentence."""


class NotFinished(Exception):
    """A bound takes too long to compute; the message says what, as a clause."""


class Unreadable(Exception):
    """A file is not a certificate or not a model; the message is one sentence: what is wrong, and where."""


@dataclass(frozen=True)
class Statement:
    """proven: whether the checker has shown it; otherwise it is a claim, or what the check leaves out."""

    sentence: str
    proven: bool = True


def escaped(text: str, limit: int = _LONGEST) -> str:
    """A text from a file as part of one line, with unprintable characters and quotation marks escaped."""
    cut = text if len(text) <= limit else f"{text[:limit]}..."
    return "".join(map(_escaped_character, cut))


def one_line(text: str, limit: int = 300) -> str:
    """A sentence from a file on one line, with its apostrophes."""
    return escaped(text, limit).replace("\\'", "'")


def in_quotes(name: str) -> str:
    return f"'{escaped(name)}'"


def listed(names: Iterable[str], limit: int = 6) -> str:
    """The names in quotation marks: the first `limit` of them, and how many more there are."""
    entries = list(names)
    more = f" and {len(entries) - limit:,} more" if len(entries) > limit else ""
    return ", ".join(map(in_quotes, entries[:limit])) + more


def _escaped_character(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if character != " " and unicodedata.category(character)[0] in _HIDDEN:
        return character.encode("unicode_escape").decode()
    return character
