"""What a plan minimizes: bytes, a number of conversions, or measured time.

Costs of a minimum cut are one number with several fields, from the highest bits down: what is minimized, then what
breaks ties.
"""

from __future__ import annotations

BYTES, COUNT, TIME = "bytes", "count", "time"
DECIDES = 2**128  # larger than any sum of the lower fields


def in_unit(cost: int) -> int:
    """The main part of a cost: bytes, conversions or nanoseconds."""
    return cost // DECIDES
