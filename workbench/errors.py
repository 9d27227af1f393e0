"""The base class of errors shown to users: one sentence, no traceback."""

from collections.abc import Sequence


class UserError(Exception):
    """The message is one sentence: what is wrong, where, and what to do."""


def printable(text: str) -> str:
    """A text with names from a file as one line; control characters are written as their codes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def quoted(names: Sequence[str], most: int = 6) -> str:
    """The names in quotation marks: the first `most` of them, and how many more there are."""
    more = len(names) - most
    words = ", ".join(f"'{name}'" for name in names[:most])
    return f"{words} and {more:,} more" if more > 0 else words


def counted(number: int, thing: str) -> str:
    """ "1 block", "1,234 blocks"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
