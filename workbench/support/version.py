"""The version of the program."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

_NAME = "graph-workbench"
_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def version() -> str:
    """That of the repository in which the program lies, else that of the installed package."""
    if _PROJECT.is_file():  # an editable install knows the version that was current when it was made
        project = tomllib.loads(_PROJECT.read_text(encoding="utf-8")).get("project", {})
        if project.get("name") == _NAME:
            return str(project["version"])
    return metadata.version(_NAME)
