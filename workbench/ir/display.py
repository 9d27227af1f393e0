"""How a notebook displays graphs and histories. Drawing is done by `workbench.view`, which is not imported here."""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def notebook_html(shown: object) -> str | None:
    """HTML for a notebook; `workbench.api` registers the functions that make it. None: the object is shown as text."""
    return None
