"""Checks whether torch, an optional dependency, is installed, and says in one sentence how to install it."""

from __future__ import annotations

import importlib.util

from workbench.errors import UserError
from workbench.support.extras import adding


def torch_is_available() -> bool:
    """Whether torch is installed; it is not imported, which takes seconds."""
    return importlib.util.find_spec("torch") is not None


def need_torch(what: str, kind: type[UserError] = UserError) -> None:
    """Raise an error of class `kind` if torch is not installed.

    what: the subject of the sentence, "The backend arena".
    """
    if not torch_is_available():
        raise kind(f"{what} needs torch, which is not installed; {adding('torch')} adds it")
