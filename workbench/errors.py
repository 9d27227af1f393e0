"""What a user can meet as an error: one sentence, no traceback."""


class UserError(Exception):
    """The message is one sentence: what is wrong, where, and what to do."""
