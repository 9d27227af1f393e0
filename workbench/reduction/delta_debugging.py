"""Fewest items that still show a fault; knows no graph.

Delta debugging after Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (IEEE Transactions on
Software Engineering, 2002). As C-Reduce does (Regehr et al., "Test-Case Reduction for C Compiler Bugs", 2012), a chunk
that can go is removed and the sweep goes on after it, rather than from the first chunk again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


def minimized(
    items: Sequence[_Item], shows: Callable[[Sequence[_Item]], bool], on_sweep: Callable[[int], None]
) -> list[_Item]:
    """A part of `items`, at least one, that shows the fault, and of which no single item can be removed.

    items: are known to show it. Chunks of half of them are removed first, then of a quarter, and so on.
    on_sweep: is called with the number of candidates of each sweep.
    """
    left, size = list(items), len(items) // 2
    while size >= 1 and len(left) > 1:
        on_sweep(math.ceil(len(left) / size))
        at, before = 0, len(left)
        while at < len(left):
            rest = left[:at] + left[at + size :]
            if rest and shows(rest):
                left = rest
            else:
                at += size
        if size == 1 and len(left) == before:
            break
        size = max(1, min(size // 2, len(left) // 2))
    return left
