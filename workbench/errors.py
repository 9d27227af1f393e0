"""The base class of errors shown to users: one sentence, no traceback."""


class UserError(Exception):
    """The message is one sentence: what is wrong, where, and what to do."""


def printable(text: str) -> str:
    """A text with names from a file as one line; control characters are written as their codes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
