"""What a check ends with: statements that hold, the first that does not, or a file that cannot be read.

Names come from files that others wrote. `in_quotes`, `escaped` and `one_line` are the only ways into a sentence, so
that none of them ends the line, hides it, or closes its own quotation marks.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

_LONGEST = 120  # characters of a name in a sentence
_HIDDEN = ("C", "Z", "M")  # Unicode's categories of control, separator and combining characters


class DoesNotHold(Exception):
    """The message is the first statement of the certificate that does not hold, as one sentence."""


class Unreadable(Exception):
    """A file that is no certificate or no model; the message is one sentence: what is wrong, where."""


@dataclass(frozen=True)
class Statement:
    """proven: whether the checker has checked it itself; otherwise the engine or a solver claims it."""

    sentence: str
    proven: bool = True


def escaped(text: str, most: int = _LONGEST) -> str:
    """A text from a file as part of one line: what is not printed, and quotation marks, as their codes."""
    cut = text if len(text) <= most else f"{text[:most]}..."
    return "".join(map(_character, cut))


def one_line(text: str, most: int = 300) -> str:
    """A sentence from a file, which stays one line."""
    return escaped(text, most).replace("\\'", "'")


def in_quotes(name: str) -> str:
    return f"'{escaped(name)}'"


def listed(names: Iterable[str], most: int = 6) -> str:
    """The names in quotation marks: the first `most` of them, and how many more there are."""
    result = list(names)
    more = f" and {len(result) - most:,} more" if len(result) > most else ""
    return ", ".join(map(in_quotes, result[:most])) + more


def _character(one: str) -> str:
    if one in "'\\":
        return f"\\{one}"
    if one != " " and unicodedata.category(one)[0] in _HIDDEN:
        return one.encode("unicode_escape").decode()
    return one
