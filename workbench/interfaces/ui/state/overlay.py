"""The user's own numbers for nodes, which all views of the open model show."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.presentation.view.node_numbers import UserNumbers


@dataclass
class Overlay:
    """The user's numbers for nodes.

    own:    the overlay of the last file that could be read. fault: why the last file could not be read, or "".
    number: the number of the last file, 0 without one; the browser handles each number once.
    """

    own: UserNumbers | None = None
    fault: str = ""
    number: int = 0
