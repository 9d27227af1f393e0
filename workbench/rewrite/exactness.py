"""How exact a rewrite is, and which rewrites a mode lets run."""

from __future__ import annotations

from enum import Enum


class Exactness(Enum):
    """What may differ in the results; integers and booleans never do.

    A NaN is a NaN whatever its bits, since no runtime keeps those. ROUNDING is about numbers that do not overflow on
    the way: x * 2 * 0.5 gives infinity for 3e38 in float32 and x does not, and operators that square their operands
    inside, such as LayerNormalization, overflow from 1.8e19 on.
    """

    BITS = "equal to the last bit"
    ROUNDING = "equal up to rounding; NaN, infinities and -0.0 stay what they are, but for what overflows on the way"
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
