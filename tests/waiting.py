"""How long tests wait for what must happen: so long that a loaded machine fails none, and a hang ends all the same."""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT_S = 180
LIMIT_MS = 1000 * LIMIT_S


def until(happened: Callable[[], bool], is_possible: Callable[[], bool] = lambda: True) -> None:
    """Look a hundred times a second; is_possible: false once it can no longer happen."""
    deadline = time.monotonic() + LIMIT_S
    while not happened():
        assert is_possible()
        assert time.monotonic() < deadline
        time.sleep(0.01)
