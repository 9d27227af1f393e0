"""What goes wrong on loading."""

from workbench.errors import UserError


class LoadError(UserError):
    """The file or program cannot become a graph; the message is one sentence for the user."""
