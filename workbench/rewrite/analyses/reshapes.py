"""Operators that only change the shape, and the equivalent Reshape."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.ir import Graph, Node
from workbench.ir.types import Dim, Shape
from workbench.rewrite.core.guards import require_constant
from workbench.rewrite.core.rule import NoMatch

VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


def axes_of(graph: Graph, node: Node) -> tuple[int, ...]:
    """The axes of a Squeeze or Unsqueeze, sorted and nonnegative. Raises NoMatch if unknown."""
    if len(node.inputs) < 2 or not node.inputs[1]:
        raise NoMatch(f"{node} has no axes operand")
    axes = [int(n) for n in require_constant(graph, node.inputs[1], node).reshape(-1)]
    if min(axes, default=0) >= 0:
        return tuple(sorted(axes))
    rank = graph.rank_of(node.inputs[0])
    if rank is None:
        raise NoMatch(f"{node} counts axes from the end of a value whose rank is not known")
    rank += len(axes) if node.op == "Unsqueeze" else 0
    return tuple(sorted(axis + rank if axis < 0 else axis for axis in axes))


def shape_operand(source: Shape, result: Shape) -> tuple[int, ...] | None:
    """The shape operand of a Reshape to `result`; None if it cannot be a constant.

    A -1 next to a 0 would fail for axes of size 0.
    """
    if result is None or 0 in result:
        return None
    unknown = [axis for axis, dim in enumerate(result) if not isinstance(dim, int)]
    if len(unknown) == 1:
        return tuple(dim if isinstance(dim, int) else -1 for dim in result)
    if not all(_copied(source, axis, result[axis]) for axis in unknown):
        return None
    return tuple(dim if isinstance(dim, int) else 0 for dim in result)


def resolve_zeros(numbers: Sequence[int], source: Shape, between: Shape) -> tuple[int, ...] | None:
    """The shape operand with which a Reshape of `source` does the same as `numbers` does for `between`.

    A 0 copies a size. None if `source` does not have the size and it is not known as a number.
    """
    entries = []
    for axis, number in enumerate(numbers):
        dim = None if between is None or axis >= len(between) else between[axis]
        if number == 0 and not _copied(source, axis, dim):
            if not isinstance(dim, int) or dim == 0:
                return None
            number = dim
        entries.append(number)
    return tuple(entries)


def _copied(source: Shape, axis: int, dim: Dim) -> bool:
    return source is not None and axis < len(source) and dim is not None and source[axis] == dim
