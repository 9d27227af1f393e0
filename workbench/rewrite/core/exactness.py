"""How exact a rewrite is, and which rewrites a mode allows."""

from __future__ import annotations

from enum import Enum


class Exactness(Enum):
    """What may differ in the results; integers and booleans never do, except quantized integers under STEP.

    The bits of a NaN do not count, since no runtime preserves them. ROUNDING holds if no intermediate result
    overflows. In float32, x * 2 * 0.5 is infinity for x = 3e38. Operators that square their operands, such as
    LayerNormalization, overflow above 1.8e19.
    """

    BIT_EXACT = "equal to the last bit"
    ROUNDING = "equal up to rounding; NaN, infinities and -0.0 are kept, except where an intermediate result overflows"
    STEP = "equal up to rounding, which may take a quantized value to the next integer"
    NARROWED = (
        "equal up to the rounding of a narrower element type; NaN and infinities are kept, except where it overflows"
    )
    QUANTIZED = "close, not equal: rounded to numbers of 8 bits or fewer, which saturate at the ends of their range"
    FAST_MATH = "equal for ordinary numbers; signed zeros, infinities, NaN or lost digits may differ"

    def runs_in(self, mode: str) -> bool:
        """Whether the mode allows it."""
        return self in MODES[mode]


ROUNDS_ANEW = (Exactness.ROUNDING, Exactness.STEP, Exactness.FAST_MATH)  # without changing types
CHANGES_TYPES = (Exactness.NARROWED, Exactness.QUANTIZED)  # on purpose: results have the tolerance of the new types
EXACT, FAST = "exact", "fast"
MODES = {
    EXACT: frozenset({Exactness.BIT_EXACT}),
    "ieee": frozenset(Exactness) - {Exactness.FAST_MATH},
    FAST: frozenset(Exactness),
}
DEFAULT_MODE = "ieee"
