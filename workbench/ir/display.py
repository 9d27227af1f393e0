"""How a notebook displays graphs and histories. `presentation/view` draws them; this module does not import it."""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def notebook_html(shown: object) -> str | None:
    """HTML for a notebook, by functions that `interfaces/api.py` registers. None: the object is shown as text."""
    return None
