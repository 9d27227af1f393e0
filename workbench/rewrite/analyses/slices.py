"""The ranges that a Slice with constant operands takes of each axis."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.ir.types import Dim
from workbench.rewrite.core.guards import require_constant
from workbench.rewrite.core.rule import NoMatch

_BEYOND_ALL = 2**31 - 1  # exporters write this or more for "to the end"
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Cut:
    """start:end:step of one axis, as in the Slice."""

    axis: int
    start: int
    end: int
    step: int

    def __str__(self) -> str:
        end = "" if self.end >= _BEYOND_ALL else self.end
        return f"{self.start}:{end}" if self.step == 1 else f"{self.start}:{end}:{self.step}"


def cuts_of(graph: Graph, node: Node) -> tuple[Cut, ...]:
    """One range per axis of the Slice. Raises NoMatch if an operand is computed.

    With INT_MAX as the end of a backward slice, ONNX takes nothing and ONNX Runtime everything.
    """
    starts, ends, axes, steps = (
        [int(n) for n in require_constant(graph, value, node)] if value else None
        for value in (*node.inputs[1:], "", "")[:4]
    )
    if starts is None or ends is None:
        raise NoMatch(f"{node} has no starts or no ends")
    cuts = tuple(map(Cut, axes or range(len(starts)), starts, ends, steps or [1] * len(starts)))
    if any(cut.step < 0 and cut.end >= _BEYOND_ALL for cut in cuts):
        raise NoMatch(f"{node} goes backward to INT_MAX, which runtimes interpret differently")
    return cuts


def takes_all(cut: Cut, dim: Dim) -> bool:
    """Whether it takes all of an axis of that length, in order."""
    if isinstance(dim, int):
        return taken(cut, dim) == range(dim)
    return cut.step == 1 and (cut.start == 0 or cut.start <= -_BEYOND_ALL) and cut.end >= _BEYOND_ALL


def taken(cut: Cut, dim: int) -> range:
    """The indices that it takes of an axis of that length.

    Unlike Python, ONNX clamps a start before the axis to 0 for negative steps too.
    """
    start, end = (place + dim if place < 0 else place for place in (cut.start, cut.end))
    if cut.step > 0:
        return range(min(max(start, 0), dim), min(max(end, 0), dim), cut.step)
    return range(min(max(start, 0), dim - 1), min(max(end, -1), dim - 1), cut.step)


def compose_cuts(first: Cut, second: Cut, dim: Dim) -> Cut:
    """One range equal to both in turn, on an axis of length `dim`. Raises NoMatch if it depends on the length."""
    if isinstance(dim, int):
        return _of_places(first, second, dim)
    start = min(first.start + second.start * first.step, _LARGEST)
    step = first.step * second.step
    to_the_end = first.end >= _BEYOND_ALL and first.step == 1
    if min(first.step, second.step) > 0 and min(first.start, second.start) >= 0:
        if second.end >= _BEYOND_ALL:
            return Cut(first.axis, start, first.end, step)
        if first.end >= 0 and second.end >= 0:
            return Cut(first.axis, start, min(first.end, first.start + second.end * first.step), step)
        if to_the_end and second.end < 0:
            return Cut(first.axis, start, second.end, step)
    raise NoMatch(f"what {first} and then {second} take of axis {first.axis} depends on its length")


def _of_places(first: Cut, second: Cut, dim: int) -> Cut:
    outer = taken(first, dim)
    places = [outer[place] for place in taken(second, len(outer))]
    if not places:
        return Cut(first.axis, 0, 0, 1)
    step = first.step * second.step
    end = places[-1] + (1 if step > 0 else -1)
    return Cut(first.axis, places[0], end if end >= 0 else -dim - 1, step)
