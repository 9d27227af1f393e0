"""What pages and caches keep of an open model: a class each, beside what uses it (`Opened.state`)."""

from __future__ import annotations

from typing import ClassVar


class ModelState:
    """Base of these classes. An object is made without arguments when a page first asks for it.

    outlives_inputs: whether it stays true when the user chooses other inputs or declares layouts.
    """

    outlives_inputs: ClassVar[bool] = False

    def reload(self) -> None:
        """Forget what the browser's page knew, since it was loaded again."""
