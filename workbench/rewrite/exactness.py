"""How exact a rewrite is, and which rewrites a mode lets run."""

from __future__ import annotations

from enum import Enum


class Exactness(Enum):
    """What may differ in the results; integers and booleans never do.

    A NaN is a NaN whatever its bits, since no runtime keeps those.
    """

    BITS = "equal to the last bit"
    ROUNDING = "equal up to rounding; NaN, infinities and -0.0 stay what they are"
    SIGNS = "equal for ordinary numbers; signed zeros, infinities, NaN or lost digits may differ"

    def runs_in(self, mode: str) -> bool:
        """Does the mode let it run?"""
        return self in MODES[mode]


EXACT = "exact"
MODES = {
    EXACT: frozenset({Exactness.BITS}),
    "ieee": frozenset({Exactness.BITS, Exactness.ROUNDING}),
    "fast": frozenset(Exactness),
}
DEFAULT_MODE = "ieee"
