"""The user's own numbers for nodes, which all views of the open model show."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.view.own_numbers import OwnNumbers


@dataclass
class Overlay:
    """own: of the last file that could be read; fault: why the last file could not, "" if it could.

    number: of the last file, 0 if there was none; the browser takes in each once.
    """

    own: OwnNumbers | None = None
    fault: str = ""
    number: int = 0
