"""torch is an extra of the package: what runs in it asks first, and says in one sentence how to get it."""

from __future__ import annotations

import importlib.util

from workbench.errors import UserError


def torch_is_here() -> bool:
    """Whether torch is installed; it is not imported, which takes seconds."""
    return importlib.util.find_spec("torch") is not None


def need_torch(what: str, kind: type[UserError] = UserError) -> None:
    """Raise an error of class `kind` where torch is not installed.

    what: needs it, as the beginning of a sentence ("The backend arena").
    """
    if not torch_is_here():
        raise kind(f"{what} needs torch, which is not installed; `pip install 'graph-workbench[torch]'`")
