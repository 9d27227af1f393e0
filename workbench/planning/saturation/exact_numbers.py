"""Numbers of an e-graph: exact fractions as text, results of operators on them, and their known relations.

A number in an e-graph is an exact real, so equations that hold for reals cannot contradict each other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

MINUS_ZERO = "-0"  # not a fraction; operators on it are not evaluated
_FUNCTIONS: dict[str, Callable[..., Fraction]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.truediv,
    "Neg": operator.neg,
    "Abs": abs,
    "Max": max,
    "Min": min,
    "Reciprocal": lambda x: 1 / x,
}
_FLOAT_ONLY_OPS = ("Div", "Reciprocal")  # on integers they round


@dataclass(frozen=True)
class ExactNumbers:
    """Which results of operators on numbers are numbers again.

    least, most: bounds of their absolute value.
    whole:       whether only integers are.
    digits:      the binary digits of a significand; None if a number may be rounded once, when it is written.
    zero:        whether a result may be 0, whose sign is lost.
    factors:     bounds of the absolute value of factors that are multiplied before they meet a tensor.
    """

    least: str
    most: str
    whole: bool
    digits: int | None
    zero: bool
    factors: tuple[str, str]

    def computed(self, name: str, operands: Sequence[str]) -> str | None:
        """The result of the operator on these numbers; None if it is not such a number, or not known."""
        if name not in _FUNCTIONS or MINUS_ZERO in operands or (self.whole and name in _FLOAT_ONLY_OPS):
            return None
        fractions = [Fraction(operand) for operand in operands]
        if (name == "Div" and fractions[1] == 0) or (name == "Reciprocal" and fractions[0] == 0):
            return None
        result = Fraction(_FUNCTIONS[name](*fractions))
        if result == 0:
            return "0" if self.zero else None
        if not Fraction(self.least) <= abs(result) <= Fraction(self.most) or (self.whole and result.denominator != 1):
            return None
        return str(result) if self.digits is None or _significant(result, self.digits) else None

    def known(self, number: str) -> list[str]:
        """The names of the e-graph's relations that contain a number."""
        value = Fraction(number)
        small, large = map(Fraction, self.factors)
        relations = {
            "NotNegative": value >= 0,
            "Positive": value > 0,
            "Nonzero": value != 0,
            "Factor": small <= abs(value) <= large,
        }
        return ["Constant", *(name for name, holds in relations.items() if holds)]


def as_number(value: float) -> str:
    """A finite number as text."""
    if value == 0 and str(value).startswith("-"):
        return MINUS_ZERO
    return str(Fraction(value))


def _significant(value: Fraction, digits: int) -> bool:
    """Whether it has at most `digits` binary digits from its first to its last 1."""
    numerator, denominator = abs(value.numerator), value.denominator
    is_power_of_two = denominator & (denominator - 1) == 0
    return is_power_of_two and (numerator // (numerator & -numerator)).bit_length() <= digits
