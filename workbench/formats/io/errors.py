"""Errors of loading."""

from workbench.errors import UserError


class LoadError(UserError):
    """The file or program cannot be loaded; the message is one sentence for the user."""


class MissingFileError(LoadError, FileNotFoundError):
    """There is no such file; a FileNotFoundError too, for programs that open files."""
