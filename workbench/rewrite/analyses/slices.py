"""The ranges that a Slice with constant operands takes of each axis."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.ir.types import Dim
from workbench.rewrite.core.guards import require_constant
from workbench.rewrite.core.rule import NoMatch

_TO_THE_END = 2**31 - 1  # exporters write this or more for "to the end"
_MAX_INT64 = 2**63 - 1


@dataclass(frozen=True)
class AxisSlice:
    """start:end:step of one axis, as in the Slice."""

    axis: int
    start: int
    end: int
    step: int

    def __str__(self) -> str:
        end = "" if self.end >= _TO_THE_END else self.end
        return f"{self.start}:{end}" if self.step == 1 else f"{self.start}:{end}:{self.step}"


def axis_slices(graph: Graph, node: Node) -> tuple[AxisSlice, ...]:
    """One range per axis of the Slice. Raises NoMatch if an operand is computed.

    With INT_MAX as the end of a backward slice, ONNX takes nothing and ONNX Runtime everything.
    """
    starts, ends, axes, steps = (
        [int(n) for n in require_constant(graph, value, node)] if value else None
        for value in (*node.inputs[1:], "", "")[:4]
    )
    if starts is None or ends is None:
        raise NoMatch(f"{node} has no starts or no ends")
    slices = tuple(map(AxisSlice, axes or range(len(starts)), starts, ends, steps or [1] * len(starts)))
    if any(slice_.step < 0 and slice_.end >= _TO_THE_END for slice_ in slices):
        raise NoMatch(f"{node} goes backward to INT_MAX, which runtimes interpret differently")
    return slices


def takes_all(slice_: AxisSlice, dim: Dim) -> bool:
    """Whether the range is all of an axis of that length, in order."""
    if isinstance(dim, int):
        return taken_indices(slice_, dim) == range(dim)
    return slice_.step == 1 and (slice_.start == 0 or slice_.start <= -_TO_THE_END) and slice_.end >= _TO_THE_END


def taken_indices(slice_: AxisSlice, dim: int) -> range:
    """The indices of the range on an axis of that length.

    Unlike Python, ONNX clamps a start before the axis to 0 for negative steps too.
    """
    start, end = (index + dim if index < 0 else index for index in (slice_.start, slice_.end))
    if slice_.step > 0:
        return range(min(max(start, 0), dim), min(max(end, 0), dim), slice_.step)
    return range(min(max(start, 0), dim - 1), min(max(end, -1), dim - 1), slice_.step)


def compose_slices(first: AxisSlice, second: AxisSlice, dim: Dim) -> AxisSlice:
    """One range equal to both in turn, on an axis of length `dim`. Raises NoMatch if it depends on the length."""
    if isinstance(dim, int):
        return _compose_on_known_length(first, second, dim)
    start = min(first.start + second.start * first.step, _MAX_INT64)
    step = first.step * second.step
    to_the_end = first.end >= _TO_THE_END and first.step == 1
    if min(first.step, second.step) > 0 and min(first.start, second.start) >= 0:
        if second.end >= _TO_THE_END:
            return AxisSlice(first.axis, start, first.end, step)
        if first.end >= 0 and second.end >= 0:
            return AxisSlice(first.axis, start, min(first.end, first.start + second.end * first.step), step)
        if to_the_end and second.end < 0:
            return AxisSlice(first.axis, start, second.end, step)
    raise NoMatch(f"the elements that {first} and then {second} take of axis {first.axis} depend on its length")


def _compose_on_known_length(first: AxisSlice, second: AxisSlice, dim: int) -> AxisSlice:
    outer = taken_indices(first, dim)
    indices = [outer[index] for index in taken_indices(second, len(outer))]
    if not indices:
        return AxisSlice(first.axis, 0, 0, 1)
    step = first.step * second.step
    end = indices[-1] + (1 if step > 0 else -1)
    return AxisSlice(first.axis, indices[0], end if end >= 0 else -dim - 1, step)
