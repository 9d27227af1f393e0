"""Counterexamples: numbers for which a rule is not exact, or an equation is no law."""

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
        after = f" (in {' '.join(self.graph.split())})" if self.graph else ""
        return f"with {_given(self.inputs)} {result}, since {self.because}{after}"


@dataclass(frozen=True)
class WrongLaw:
    """An equation that resembles a rule's law and is wrong.

    numbers: for which its sides differ.
    sides:   what they are.
    about:   a sentence: where it is printed, or what it overlooks.
    """

    law: str
    numbers: Mapping[str, float]
    sides: tuple[float, float]
    about: str

    def __str__(self) -> str:
        equation = self.law.rpartition(": ")[2]
        left, right = self.sides
        return f"{equation} is wrong: with {_given(self.numbers)} it says {left:g} == {right:g}. {self.about}"


def _given(numbers: Mapping[str, Numbers]) -> str:
    *most, last = [f"{name} = {_written(number)}" for name, number in numbers.items()]
    return f"{', '.join(most)} and {last}" if most else last


def _written(number: Numbers) -> str:
    return f"{number:g}" if isinstance(number, float | int) else f"[{', '.join(map(_written, number))}]"
