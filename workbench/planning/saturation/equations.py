"""The equations of equality saturation, each proved by z3 in tests/test_saturation.py.

They are written like the laws of rules (`workbench.rewrite.patterns.laws`). Both sides have the same variables, so both
have the same shape under any broadcasting, and no operand is added or lost. Laws of passes in `passes/algebra/` that
are neither here nor follow from these are listed in the test with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.rewrite.core.exactness import Exactness
from workbench.rewrite.patterns.laws import Law, read_laws, read_term
from workbench.rewrite.patterns.terms import Term

_BIT_EXACT, _ROUNDING, _FAST_MATH = Exactness.BIT_EXACT, Exactness.ROUNDING, Exactness.FAST_MATH


@dataclass(frozen=True)
class Equation:
    """law:     one equation with the kinds of numbers for which it is proved.
    both:    whether it is also used from right to left.
    numbers: variables that must be constants of one element. If the equation rounds, they must be so near to 1 that no
             product of two overflows or underflows.
    tensors: variables that must not be such constants.
    constants: variables that must be constants, of any shape.

    A condition is checked at each use; if it is not known to hold, the equation is not used. Operators on numbers are
    evaluated, and equations do not apply to them again. Otherwise, and without the difference between numbers and
    tensors, x * 2 * 0.5 would never be saturated: x is (x * 2) * 0.5, so x * 2 is ((x * 2) * 2) * 0.5, and so on.
    """

    law: str
    exactness: Exactness
    both: bool = False
    numbers: str = ""
    tensors: str = ""
    constants: str = ""

    @cached_property
    def read(self) -> Law:
        (law,) = read_laws(self.law)
        return law

    @cached_property
    def sides(self) -> tuple[Term, Term]:
        left, right = map(read_term, self.read.sides)
        return left, right

    @cached_property
    def condition(self) -> Term | None:
        return read_term(self.read.condition) if self.read.condition else None

    @property
    def directions(self) -> Iterator[tuple[Term, Term]]:
        """Pairs of a pattern and its replacement."""
        left, right = self.sides
        yield left, right
        if self.both:
            yield right, left


EXACT_EVERYWHERE = (
    Equation("for integers and floats: x + z == z + x", _BIT_EXACT),
    Equation("for integers and floats: x * z == z * x", _BIT_EXACT),
    Equation("for integers and floats: -(-x) == x", _BIT_EXACT),
    Equation("for integers and floats: x + -z == x - z", _BIT_EXACT, both=True),
    Equation("for integers and floats: x - -z == x + z", _BIT_EXACT),
    Equation("for integers and floats: -x * z == -(x * z)", _BIT_EXACT, both=True),
    Equation("for integers and floats: x * -1 == -x", _BIT_EXACT, both=True),
    Equation("for floats: -x / z == -(x / z)", _BIT_EXACT, both=True),
    Equation("for floats: x / -z == -(x / z)", _BIT_EXACT, both=True),
    Equation("for floats: abs(-x) == abs(x)", _BIT_EXACT),
    Equation("for integers and floats: abs(abs(x)) == abs(x)", _BIT_EXACT),
    Equation("for floats: abs(x) * abs(z) == abs(x * z)", _BIT_EXACT, both=True),
    Equation("for integers and floats: relu(relu(x)) == relu(x)", _BIT_EXACT),
    Equation("for floats: relu(abs(x)) == abs(x)", _BIT_EXACT),
    Equation("for integers and floats: sign(sign(x)) == sign(x)", _BIT_EXACT),
    Equation("for floats: ceil(ceil(x)) == ceil(x)", _BIT_EXACT),
    Equation("for floats: ceil(floor(x)) == floor(x)", _BIT_EXACT),
    Equation("for floats: ceil(round(x)) == round(x)", _BIT_EXACT),
    Equation("for floats: floor(ceil(x)) == ceil(x)", _BIT_EXACT),
    Equation("for floats: floor(floor(x)) == floor(x)", _BIT_EXACT),
    Equation("for floats: floor(round(x)) == round(x)", _BIT_EXACT),
    Equation("for floats: round(ceil(x)) == ceil(x)", _BIT_EXACT),
    Equation("for floats: round(floor(x)) == floor(x)", _BIT_EXACT),
    Equation("for floats: round(round(x)) == round(x)", _BIT_EXACT),
    Equation("for integers and floats: max(x, x) == x", _BIT_EXACT),
    Equation("for integers and floats: min(x, x) == x", _BIT_EXACT),
    Equation("for integers and floats: x * 1 == x", _BIT_EXACT),
    Equation("for integers and floats: x / 1 == x", _BIT_EXACT),
    Equation("for integers and floats: x - 0 == x", _BIT_EXACT),
    Equation("for floats: x + -0.0 == x", _BIT_EXACT),
)


def _ring_laws(law: str, **use: Any) -> tuple[Equation, Equation]:
    """The equation for integers, which wrap around, and for reals."""
    return Equation(f"for integers: {law}", _BIT_EXACT, **use), Equation(f"for reals: {law}", _FAST_MATH, **use)


OF_RINGS = (
    *_ring_laws("x + 0 == x"),
    *_ring_laws("(x + y) + z == x + (y + z)", tensors="xyz"),
    *_ring_laws("(x + a) + b == x + (a + b)", numbers="ab"),
    *_ring_laws("(x + a) + y == (x + y) + a", numbers="a", tensors="xy"),
    *_ring_laws("(x + c) + a == x + (c + a)", numbers="a", tensors="xc", constants="c"),
    *_ring_laws("x - a == x + -a", numbers="a"),
    *_ring_laws("(x * y) * z == x * (y * z)", tensors="xyz"),
    *_ring_laws("(x * a) * b == x * (a * b)", numbers="ab"),
    *_ring_laws("(x * a) * y == (x * y) * a", numbers="a", tensors="xy"),
    *_ring_laws("(x * c) * a == x * (c * a)", numbers="a", tensors="xc", constants="c"),
    *_ring_laws("x * a + z * a == (x + z) * a if x != z", both=True),
    *_ring_laws("x + x * z == x * (z + 1)", both=True),
    *_ring_laws("x + x == x * 2", both=True, tensors="x"),
    *_ring_laws("-(x + z) == -x + -z", both=True),
)
OF_INTEGERS = (
    Equation("for integers: max(x, z) == max(z, x)", _BIT_EXACT),
    Equation("for integers: min(x, z) == min(z, x)", _BIT_EXACT),
    Equation("for integers: max(max(x, y), z) == max(x, max(y, z))", _BIT_EXACT),
    Equation("for integers: min(min(x, y), z) == min(x, min(y, z))", _BIT_EXACT),
    Equation("for integers: ~(~x) == x", _BIT_EXACT),
    Equation("for integers: x & z == z & x", _BIT_EXACT),
    Equation("for integers: x | z == z | x", _BIT_EXACT),
    Equation("for integers: x ^ z == z ^ x", _BIT_EXACT),
    Equation("for integers: (x & y) & z == x & (y & z)", _BIT_EXACT),
    Equation("for integers: (x | y) | z == x | (y | z)", _BIT_EXACT),
    Equation("for integers: (x ^ y) ^ z == x ^ (y ^ z)", _BIT_EXACT),
    Equation("for integers: (x & a) | (z & a) == (x | z) & a", _BIT_EXACT, both=True),
    Equation("for integers: (x | a) & (z | a) == (x & z) | a", _BIT_EXACT, both=True),
    Equation("for integers: ~(x & z) == ~x | ~z", _BIT_EXACT, both=True),
    Equation("for integers: x & x == x", _BIT_EXACT),
    Equation("for integers: x | x == x", _BIT_EXACT),
    Equation("for integers: x & -1 == x", _BIT_EXACT),
    Equation("for integers: x | 0 == x", _BIT_EXACT),
    Equation("for integers: x ^ 0 == x", _BIT_EXACT),
)
OF_BOOLEANS = (
    Equation("for booleans: not (not p) == p", _BIT_EXACT),
    Equation("for booleans: (p and q) == (q and p)", _BIT_EXACT),
    Equation("for booleans: (p or q) == (q or p)", _BIT_EXACT),
    Equation("for booleans: xor(p, q) == xor(q, p)", _BIT_EXACT),
    Equation("for booleans: ((p and q) and r) == (p and (q and r))", _BIT_EXACT),
    Equation("for booleans: ((p or q) or r) == (p or (q or r))", _BIT_EXACT),
    Equation("for booleans: xor(xor(p, q), r) == xor(p, xor(q, r))", _BIT_EXACT),
    Equation("for booleans: ((p and r) or (q and r)) == ((p or q) and r)", _BIT_EXACT, both=True),
    Equation("for booleans: ((p or r) and (q or r)) == ((p and q) or r)", _BIT_EXACT, both=True),
    Equation("for booleans: (not (p and q)) == ((not p) or (not q))", _BIT_EXACT, both=True),
    Equation("for booleans: (p and p) == p", _BIT_EXACT),
    Equation("for booleans: (p or p) == p", _BIT_EXACT),
    Equation("for booleans: (p and True) == p", _BIT_EXACT),
    Equation("for booleans: (p or False) == p", _BIT_EXACT),
    Equation("for booleans: xor(p, False) == p", _BIT_EXACT),
)
ROUNDED = (
    Equation("for reals: (x * a) * b == x * (a * b)", _ROUNDING, numbers="ab"),
    Equation("for reals: x / a == x * (1 / a) if a != 0", _ROUNDING, numbers="a"),
    Equation("for reals: x ** 2 == x * x", _ROUNDING),
    Equation("for reals: x ** -1 == reciprocal(x) if x != 0", _ROUNDING),
    Equation("for reals: 1 / x == reciprocal(x) if x != 0", _ROUNDING),
    Equation("for reals: x * reciprocal(sqrt(z)) == x / sqrt(z) if z > 0", _ROUNDING),
    Equation("for reals: x / reciprocal(z) == x * z if z != 0", _ROUNDING),
)
OF_ORDINARY_NUMBERS = (
    Equation("for reals: x / a == x * (1 / a) if a != 0", _FAST_MATH, numbers="a"),
    Equation("for reals: (x * a) / z == (x / z) * a if z != 0", _FAST_MATH, numbers="a", tensors="z"),
    Equation("for reals: x / (z * a) == (x / z) * (1 / a) if z != 0 and a != 0", _FAST_MATH, numbers="a", tensors="z"),
    Equation("for reals: (x * y) / z == x * (y / z) if z != 0", _FAST_MATH, both=True, tensors="xyz"),
    Equation("for reals: x / z + y / z == (x + y) / z if z != 0", _FAST_MATH, both=True, tensors="z"),
    Equation("for reals: (x / y) / z == x / (y * z) if y != 0 and z != 0", _FAST_MATH, both=True, tensors="yz"),
    Equation("for reals: x / (y / z) == (x * z) / y if y != 0 and z != 0", _FAST_MATH, tensors="yz"),
    Equation("for reals: x * reciprocal(z) == x / z if z != 0", _FAST_MATH, both=True, tensors="z"),
    Equation("for reals: reciprocal(reciprocal(x)) == x if x != 0", _FAST_MATH),
    Equation(
        "for reals: reciprocal(x) * reciprocal(z) == reciprocal(x * z) if x != 0 and z != 0", _FAST_MATH, both=True
    ),
    Equation("for reals: sqrt(x) * sqrt(z) == sqrt(x * z) if x >= 0 and z >= 0", _FAST_MATH, both=True),
    Equation("for reals: sqrt(x) * sqrt(x) == x if x >= 0", _FAST_MATH),
    Equation("for reals: x ** 0.5 == sqrt(x) if x >= 0", _FAST_MATH),
    Equation("for reals: exp(x) * exp(z) == exp(x + z)", _FAST_MATH, both=True),
    Equation("for reals: exp(x) / exp(z) == exp(x - z)", _FAST_MATH, both=True),
    Equation("for reals: sqrt(x) / sqrt(z) == sqrt(x / z) if x >= 0 and z > 0", _FAST_MATH),
    Equation("for reals: log(x) + log(z) == log(x * z) if x > 0 and z > 0", _FAST_MATH),
    Equation("for reals: log(x) - log(z) == log(x / z) if x > 0 and z > 0", _FAST_MATH),
    Equation("for reals: log(exp(x)) == x", _FAST_MATH),
    Equation("for reals: exp(log(x)) == x if x > 0", _FAST_MATH),
    Equation("for reals: max(x, z) == max(z, x)", _FAST_MATH),
    Equation("for reals: min(x, z) == min(z, x)", _FAST_MATH),
    Equation("for reals: max(max(x, y), z) == max(x, max(y, z))", _FAST_MATH),
    Equation("for reals: min(min(x, y), z) == min(x, min(y, z))", _FAST_MATH),
    Equation("for reals: max(x, 0) == relu(x)", _FAST_MATH),
)
EQUATIONS = (*EXACT_EVERYWHERE, *OF_RINGS, *OF_INTEGERS, *OF_BOOLEANS, *ROUNDED, *OF_ORDINARY_NUMBERS)

# Signs of results of operators: the first side holds if the condition does.
SIGN_LAWS = (
    "for reals: (abs(x) >= 0) == True",
    "for reals: (relu(x) >= 0) == True",
    "for reals: (exp(x) > 0) == True",
    "for reals: (sqrt(x) >= 0) == True if x >= 0",
    "for reals: (sqrt(x) > 0) == True if x > 0",
    "for reals: (x * x >= 0) == True",
    "for reals: (x + z >= 0) == True if x >= 0 and z >= 0",
    "for reals: (x + z > 0) == True if x >= 0 and z > 0",
    "for reals: (x * z >= 0) == True if x >= 0 and z >= 0",
    "for reals: (x * z > 0) == True if x > 0 and z > 0",
    "for reals: (x * z != 0) == True if x != 0 and z != 0",
    "for reals: (x / z != 0) == True if x != 0 and z != 0",
    "for reals: (x >= 0) == True if x > 0",
    "for reals: (x != 0) == True if x > 0",
)


def equations_for(kind: str, mode: str, steps: bool = False) -> tuple[Equation, ...]:
    """The equations that the mode allows for values of a kind: "integers", "booleans" or "floats".

    steps: whether discontinuous operators read results; then only equations that are exact to the last bit are allowed.
    """

    def fits(equation: Equation) -> bool:
        if equation.exactness is _BIT_EXACT:
            return kind in equation.read.kinds
        return kind == "floats" and not steps and equation.exactness.runs_in(mode)

    return tuple(filter(fits, EQUATIONS))
