"""Results that are contiguous pieces of an operand, and so need no bytes of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.ir import Graph, Node
from workbench.planning.fusion.traffic import is_view


@dataclass(frozen=True)
class ContiguousPart:
    """part: a value that lies in `whole`, `offset` bytes after its start."""

    part: str
    whole: str
    offset: int


def views_by(graph: Graph, node: Node) -> Iterator[ContiguousPart]:
    """The results that are contiguous pieces of the first operand, all of it or a part."""
    if is_view(graph, node):
        yield ContiguousPart(node.outputs[0], node.inputs[0], 0)
    elif node.op == "Slice":
        yield from _slice_part(graph, node)
    elif node.op == "Split":
        yield from _pieces_along(graph, node.inputs[0], node.outputs, node.attr("axis"))


def pieces_of_concat(graph: Graph, node: Node) -> Iterator[ContiguousPart]:
    """The operands of a Concat that are contiguous pieces of its result."""
    yield from _pieces_along(graph, node.outputs[0], node.inputs, node.attr("axis"))


def _pieces_along(graph: Graph, whole: str, parts: tuple[str, ...], axis: int) -> Iterator[ContiguousPart]:
    shape, item = bound_shape(graph, whole), _item_bytes(graph, whole)
    sizes = [bound_shape(graph, part) for part in parts]
    if not shape or item is None or any(size is None for size in sizes):
        return
    axis %= len(shape)
    if math.prod(shape[:axis]) != 1:
        return
    begin = 0
    for part, size in zip(parts, sizes, strict=True):
        assert size is not None
        yield ContiguousPart(part, whole, begin * item)
        begin += math.prod(size)


def _slice_part(graph: Graph, node: Node) -> Iterator[ContiguousPart]:
    whole, part = bound_shape(graph, node.inputs[0]), bound_shape(graph, node.outputs[0])
    item = _item_bytes(graph, node.inputs[0])
    if whole is None or part is None or item is None or any(v and v not in graph.constants for v in node.inputs[1:]):
        return
    starts, axes, steps = (_integers(graph, node, index) for index in (1, 3, 4))
    if steps is not None and any(step != 1 for step in steps):
        return
    cut = [axis for axis, (all_, some) in enumerate(zip(whole, part, strict=True)) if all_ != some]
    if cut and math.prod(part[: cut[-1]]) != 1:
        return
    begins = [0] * len(whole)
    for axis, start in zip(range(len(whole)) if axes is None else axes, starts or (), strict=False):
        size = whole[axis]
        begins[axis] = min(max(start + size if start < 0 else start, 0), size)
    strides = [math.prod(whole[axis + 1 :]) for axis in range(len(whole))]
    yield ContiguousPart(
        node.outputs[0], node.inputs[0], item * sum(b * s for b, s in zip(begins, strides, strict=True))
    )


def _integers(graph: Graph, node: Node, index: int) -> list[int] | None:
    """A constant operand's numbers; None if it is omitted."""
    if index >= len(node.inputs) or not node.inputs[index]:
        return None
    return [int(number) for number in graph.constants[node.inputs[index]].numpy().ravel()]


def _item_bytes(graph: Graph, value: str) -> int | None:
    """Bytes of an element; None if elements share bytes."""
    type_ = graph.tensor_type(value)
    return None if type_ is None or type_.dtype.bitwidth % 8 or not type_.dtype.bitwidth else type_.dtype.bitwidth // 8
