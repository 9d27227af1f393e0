"""How to add the packages of an extra of pyproject.toml."""

from __future__ import annotations


def adding(extra: str) -> str:
    """The command that adds an extra, in words.

    It names the project's folder, never `graph-workbench` as a package: whoever registers that name decides what it
    installs. `-e` keeps the code in that folder the one that runs.
    """
    return f"`pip install -e '.[{extra}]'` in the project's folder"
