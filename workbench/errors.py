"""What a user can meet as an error: one sentence, no traceback."""


class UserError(Exception):
    """The message is one sentence: what is wrong, where, and what to do."""


def printable(text: str) -> str:
    """A text with names from a file, as one line that does not steer a terminal: the rest is shown by its numbers."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
