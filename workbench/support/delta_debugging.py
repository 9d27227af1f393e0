"""Minimal subsets of items that still show a fault, whatever the items are.

Delta debugging after Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (IEEE Transactions on
Software Engineering, 2002). After a chunk is removed, the sweep continues with the next chunk rather than with the
first, as in C-Reduce (Regehr et al., "Test-Case Reduction for C Compiler Bugs", 2012).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


def minimized(
    items: Sequence[_Item], shows: Callable[[Sequence[_Item]], bool], on_sweep: Callable[[int], None] = lambda _: None
) -> list[_Item]:
    """A nonempty part of `items` that shows the fault, and no longer does if any single item is removed.

    items: known to show the fault. Chunks of half of them are removed first, then of a quarter, and so on.
    on_sweep: called before each sweep with its number of candidates.
    """
    remaining, size = list(items), len(items) // 2
    while size >= 1 and len(remaining) > 1:
        on_sweep(math.ceil(len(remaining) / size))
        start, previous = 0, len(remaining)
        while start < len(remaining):
            candidate = remaining[:start] + remaining[start + size :]
            if candidate and shows(candidate):
                remaining = candidate
            else:
                start += size
        if size == 1 and len(remaining) == previous:
            break
        size = max(1, min(size // 2, len(remaining) // 2))
    return remaining
