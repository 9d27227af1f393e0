"""How a notebook shows what is an object here. The picture is drawn in a room that this one does not know."""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def notebook_html(shown: object) -> str | None:
    """HTML for a notebook; `workbench.api` registers how. None: the notebook shows the object as text."""
    return None
