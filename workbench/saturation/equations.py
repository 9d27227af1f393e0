"""The equations that equality saturation is given, each proved by z3 in tests/test_saturation.py.

They are written as the laws of rules are (`workbench.rewrite.patterns.laws`). Both sides have the same variables, so
both have the same shape whatever is broadcast, and no operand comes in or is lost. Those of the passes in
`passes/algebra/` that are not here, and do not follow from these, are listed in the test with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.rewrite.core.exactness import Exactness
from workbench.rewrite.patterns.laws import Law, read_laws, read_term
from workbench.rewrite.patterns.terms import Term

_BITS, _ROUNDING, _SIGNS = Exactness.BITS, Exactness.ROUNDING, Exactness.SIGNS


@dataclass(frozen=True)
class Equation:
    """law:     one equation with the kinds of numbers for which it is proved.
    both:    it is used from right to left too.
    numbers: variables that must be constants of one element. If the equation rounds, they must be so near to 1 that no
             product of two overflows or underflows.
    tensors: variables that must not be such.
    constants: variables that must be constants, of any shape.

    A condition is checked at each use; where it is not known to hold, the equation is not used. What operators give for
    numbers is computed, and not taken apart again. Without that, and without the difference between numbers and
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
        """What is found and what is added for it."""
        left, right = self.sides
        yield left, right
        if self.both:
            yield right, left


EXACT_EVERYWHERE = (
    Equation("for integers and floats: x + z == z + x", _BITS),
    Equation("for integers and floats: x * z == z * x", _BITS),
    Equation("for integers and floats: -(-x) == x", _BITS),
    Equation("for integers and floats: x + -z == x - z", _BITS, both=True),
    Equation("for integers and floats: x - -z == x + z", _BITS),
    Equation("for integers and floats: -x * z == -(x * z)", _BITS, both=True),
    Equation("for integers and floats: x * -1 == -x", _BITS, both=True),
    Equation("for floats: -x / z == -(x / z)", _BITS, both=True),
    Equation("for floats: x / -z == -(x / z)", _BITS, both=True),
    Equation("for floats: abs(-x) == abs(x)", _BITS),
    Equation("for integers and floats: abs(abs(x)) == abs(x)", _BITS),
    Equation("for floats: abs(x) * abs(z) == abs(x * z)", _BITS, both=True),
    Equation("for integers and floats: relu(relu(x)) == relu(x)", _BITS),
    Equation("for floats: relu(abs(x)) == abs(x)", _BITS),
    Equation("for integers and floats: sign(sign(x)) == sign(x)", _BITS),
    Equation("for floats: ceil(ceil(x)) == ceil(x)", _BITS),
    Equation("for floats: ceil(floor(x)) == floor(x)", _BITS),
    Equation("for floats: ceil(round(x)) == round(x)", _BITS),
    Equation("for floats: floor(ceil(x)) == ceil(x)", _BITS),
    Equation("for floats: floor(floor(x)) == floor(x)", _BITS),
    Equation("for floats: floor(round(x)) == round(x)", _BITS),
    Equation("for floats: round(ceil(x)) == ceil(x)", _BITS),
    Equation("for floats: round(floor(x)) == floor(x)", _BITS),
    Equation("for floats: round(round(x)) == round(x)", _BITS),
    Equation("for integers and floats: max(x, x) == x", _BITS),
    Equation("for integers and floats: min(x, x) == x", _BITS),
    Equation("for integers and floats: x * 1 == x", _BITS),
    Equation("for integers and floats: x / 1 == x", _BITS),
    Equation("for integers and floats: x - 0 == x", _BITS),
    Equation("for floats: x + -0.0 == x", _BITS),
)


def _of_rings(law: str, **use: Any) -> tuple[Equation, Equation]:
    """For integers, which wrap around, and for reals."""
    return Equation(f"for integers: {law}", _BITS, **use), Equation(f"for reals: {law}", _SIGNS, **use)


OF_RINGS = (
    *_of_rings("x + 0 == x"),
    *_of_rings("(x + y) + z == x + (y + z)", tensors="xyz"),
    *_of_rings("(x + a) + b == x + (a + b)", numbers="ab"),
    *_of_rings("(x + a) + y == (x + y) + a", numbers="a", tensors="xy"),
    *_of_rings("(x + c) + a == x + (c + a)", numbers="a", tensors="xc", constants="c"),
    *_of_rings("x - a == x + -a", numbers="a"),
    *_of_rings("(x * y) * z == x * (y * z)", tensors="xyz"),
    *_of_rings("(x * a) * b == x * (a * b)", numbers="ab"),
    *_of_rings("(x * a) * y == (x * y) * a", numbers="a", tensors="xy"),
    *_of_rings("(x * c) * a == x * (c * a)", numbers="a", tensors="xc", constants="c"),
    *_of_rings("x * a + z * a == (x + z) * a if x != z", both=True),
    *_of_rings("x + x * z == x * (z + 1)", both=True),
    *_of_rings("x + x == x * 2", both=True, tensors="x"),
    *_of_rings("-(x + z) == -x + -z", both=True),
)
OF_INTEGERS = (
    Equation("for integers: max(x, z) == max(z, x)", _BITS),
    Equation("for integers: min(x, z) == min(z, x)", _BITS),
    Equation("for integers: max(max(x, y), z) == max(x, max(y, z))", _BITS),
    Equation("for integers: min(min(x, y), z) == min(x, min(y, z))", _BITS),
    Equation("for integers: ~(~x) == x", _BITS),
    Equation("for integers: x & z == z & x", _BITS),
    Equation("for integers: x | z == z | x", _BITS),
    Equation("for integers: x ^ z == z ^ x", _BITS),
    Equation("for integers: (x & y) & z == x & (y & z)", _BITS),
    Equation("for integers: (x | y) | z == x | (y | z)", _BITS),
    Equation("for integers: (x ^ y) ^ z == x ^ (y ^ z)", _BITS),
    Equation("for integers: (x & a) | (z & a) == (x | z) & a", _BITS, both=True),
    Equation("for integers: (x | a) & (z | a) == (x & z) | a", _BITS, both=True),
    Equation("for integers: ~(x & z) == ~x | ~z", _BITS, both=True),
    Equation("for integers: x & x == x", _BITS),
    Equation("for integers: x | x == x", _BITS),
    Equation("for integers: x & -1 == x", _BITS),
    Equation("for integers: x | 0 == x", _BITS),
    Equation("for integers: x ^ 0 == x", _BITS),
)
OF_BOOLEANS = (
    Equation("for booleans: not (not p) == p", _BITS),
    Equation("for booleans: (p and q) == (q and p)", _BITS),
    Equation("for booleans: (p or q) == (q or p)", _BITS),
    Equation("for booleans: xor(p, q) == xor(q, p)", _BITS),
    Equation("for booleans: ((p and q) and r) == (p and (q and r))", _BITS),
    Equation("for booleans: ((p or q) or r) == (p or (q or r))", _BITS),
    Equation("for booleans: xor(xor(p, q), r) == xor(p, xor(q, r))", _BITS),
    Equation("for booleans: ((p and r) or (q and r)) == ((p or q) and r)", _BITS, both=True),
    Equation("for booleans: ((p or r) and (q or r)) == ((p and q) or r)", _BITS, both=True),
    Equation("for booleans: (not (p and q)) == ((not p) or (not q))", _BITS, both=True),
    Equation("for booleans: (p and p) == p", _BITS),
    Equation("for booleans: (p or p) == p", _BITS),
    Equation("for booleans: (p and True) == p", _BITS),
    Equation("for booleans: (p or False) == p", _BITS),
    Equation("for booleans: xor(p, False) == p", _BITS),
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
    Equation("for reals: x / a == x * (1 / a) if a != 0", _SIGNS, numbers="a"),
    Equation("for reals: (x * a) / z == (x / z) * a if z != 0", _SIGNS, numbers="a", tensors="z"),
    Equation("for reals: x / (z * a) == (x / z) * (1 / a) if z != 0 and a != 0", _SIGNS, numbers="a", tensors="z"),
    Equation("for reals: (x * y) / z == x * (y / z) if z != 0", _SIGNS, both=True, tensors="xyz"),
    Equation("for reals: x / z + y / z == (x + y) / z if z != 0", _SIGNS, both=True, tensors="z"),
    Equation("for reals: (x / y) / z == x / (y * z) if y != 0 and z != 0", _SIGNS, both=True, tensors="yz"),
    Equation("for reals: x / (y / z) == (x * z) / y if y != 0 and z != 0", _SIGNS, tensors="yz"),
    Equation("for reals: x * reciprocal(z) == x / z if z != 0", _SIGNS, both=True, tensors="z"),
    Equation("for reals: reciprocal(reciprocal(x)) == x if x != 0", _SIGNS),
    Equation("for reals: reciprocal(x) * reciprocal(z) == reciprocal(x * z) if x != 0 and z != 0", _SIGNS, both=True),
    Equation("for reals: sqrt(x) * sqrt(z) == sqrt(x * z) if x >= 0 and z >= 0", _SIGNS, both=True),
    Equation("for reals: sqrt(x) * sqrt(x) == x if x >= 0", _SIGNS),
    Equation("for reals: x ** 0.5 == sqrt(x) if x >= 0", _SIGNS),
    Equation("for reals: exp(x) * exp(z) == exp(x + z)", _SIGNS, both=True),
    Equation("for reals: exp(x) / exp(z) == exp(x - z)", _SIGNS, both=True),
    Equation("for reals: sqrt(x) / sqrt(z) == sqrt(x / z) if x >= 0 and z > 0", _SIGNS),
    Equation("for reals: log(x) + log(z) == log(x * z) if x > 0 and z > 0", _SIGNS),
    Equation("for reals: log(x) - log(z) == log(x / z) if x > 0 and z > 0", _SIGNS),
    Equation("for reals: log(exp(x)) == x", _SIGNS),
    Equation("for reals: exp(log(x)) == x if x > 0", _SIGNS),
    Equation("for reals: max(x, z) == max(z, x)", _SIGNS),
    Equation("for reals: min(x, z) == min(z, x)", _SIGNS),
    Equation("for reals: max(max(x, y), z) == max(x, max(y, z))", _SIGNS),
    Equation("for reals: min(min(x, y), z) == min(x, min(y, z))", _SIGNS),
    Equation("for reals: max(x, 0) == relu(x)", _SIGNS),
)
EQUATIONS = (*EXACT_EVERYWHERE, *OF_RINGS, *OF_INTEGERS, *OF_BOOLEANS, *ROUNDED, *OF_ORDINARY_NUMBERS)

# Signs of what operators compute: the first side holds where the condition does.
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
    """Those that the mode allows for values of a kind: "integers", "booleans" or "floats".

    steps: results are read by discontinuous operators, so only equations that are exact to the last bit are allowed.
    """

    def fits(equation: Equation) -> bool:
        if equation.exactness is _BITS:
            return kind in equation.read.kinds
        return kind == "floats" and not steps and equation.exactness.runs_in(mode)

    return tuple(filter(fits, EQUATIONS))
