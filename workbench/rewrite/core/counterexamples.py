"""Counterexamples: numbers for which a rule is not exact, or an equation is not a law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Numbers = float | Sequence[float]


@dataclass(frozen=True)
class Counterexample:
    """Why a rule runs in mode `fast` only: inputs of its example for which the result differs.

    inputs:        by name, one number for all elements, or a list along the last axis; symbolic dims are 1.
    before, after: the first element of the output that differs.
    because:       why, as the end of a sentence.
    graph:         another graph that the rule rewrites, if its example does not show it.
    """

    inputs: Mapping[str, Numbers]
    before: float
    after: float
    because: str
    graph: str = ""

    def __str__(self) -> str:
        result = f"the result is {self.before:g} before and {self.after:g} after"
        in_graph = f" (in {' '.join(self.graph.split())})" if self.graph else ""
        return f"with {_assignments(self.inputs)} {result}, since {self.because}{in_graph}"


@dataclass(frozen=True)
class WrongLaw:
    """An equation that resembles a rule's law and is wrong.

    numbers: by variable; the sides of the equation differ for them.
    sides:   the values of both sides.
    about:   a sentence: where it is printed, or what it overlooks.
    """

    law: str
    numbers: Mapping[str, float]
    sides: tuple[float, float]
    about: str

    def __str__(self) -> str:
        equation = self.law.rpartition(": ")[2]
        left, right = self.sides
        return f"{equation} is wrong: with {_assignments(self.numbers)} it says {left:g} == {right:g}. {self.about}"


def _assignments(numbers: Mapping[str, Numbers]) -> str:
    *others, last = [f"{name} = {_formatted(number)}" for name, number in numbers.items()]
    return f"{', '.join(others)} and {last}" if others else last


def _formatted(number: Numbers) -> str:
    return f"{number:g}" if isinstance(number, float | int) else f"[{', '.join(map(_formatted, number))}]"
