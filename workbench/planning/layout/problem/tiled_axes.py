"""Which values are the same image in NCHW, NHWC or blocked channels, differing only by conversions.

An axis is a word with a letter for each of its parts: NCHW is "N Cc H W", where c are the channels
of a block, NHWC is "N H W Cc", NCHW8c is "N C H W c". A conversion changes the order of letters, by
a Transpose, and the grouping of letters into axes, by a Reshape, which is free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.ir.permutation import perm_of, permuted
from workbench.ir.types import Dim
from workbench.planning.layout.problem.transpose_classes import is_relation, shape_that_counts

Axes = tuple[str, ...]
BLOCKED: Axes = ("N", "C", "H", "W", "c")
_OF_RANK: Mapping[int, tuple[Axes, ...]] = {
    4: (("N", "Cc", "H", "W"), ("N", "H", "W", "Cc")),
    5: (BLOCKED, ("N", "C", "c", "H", "W"), ("N", "H", "W", "C", "c")),
}


@dataclass(frozen=True)
class TiledAxes:
    """The value `root` with its axes in this order; for a value that is not an image the letters are numbers."""

    root: str
    axes: Axes

    @property
    def is_image(self) -> bool:
        return "c" in letters_of(self.axes)


def tiled_axes(graph: Graph, layouts: Mapping[str, str], block: int) -> dict[str, TiledAxes]:
    """The root and axes of every value that is not a constant."""
    results = {value: _as_root(graph, value, layouts, block) for value in graph.inputs}
    for node in graph.nodes:
        results.update({value: _as_root(graph, value, layouts, block) for value in node.outputs if value})
        source = results.get(node.inputs[0]) if node.inputs else None
        axes = None if source is None else _converted(graph, node, source, block)
        if source is not None and axes is not None:
            results[node.outputs[0]] = TiledAxes(source.root, axes)
    return results


def is_conversion(node: Node, known: Mapping[str, TiledAxes]) -> bool:
    """Whether the node's result is its operand in another layout."""
    return node.op in ("Transpose", "Reshape") and known[node.outputs[0]].root != node.outputs[0]


def _as_root(graph: Graph, value: str, layouts: Mapping[str, str], block: int) -> TiledAxes:
    layout, shape = layouts.get(value, ""), graph.shape(value) or ()
    if layout == f"NCHW{block}c" and len(shape) == 5:
        return TiledAxes(value, BLOCKED)
    if sorted(layout) == sorted("NCHW") and len(shape) == 4 and 0 not in shape:
        channels = shape[layout.index("C")]
        if isinstance(channels, int) and channels % block == 0:
            return TiledAxes(value, joined(layout))
    return TiledAxes(value, tuple(str(axis) for axis in range(len(shape))))


def joined(layout: str) -> Axes:
    """The axes of an image of four dims: N, Cc, H and W for "NCHW"."""
    return tuple("Cc" if letter == "C" else letter for letter in layout)


def _converted(graph: Graph, node: Node, source: TiledAxes, block: int) -> Axes | None:
    """The axes after a Transpose or Reshape that is a conversion; None for any other node."""
    if is_relation(graph, node):
        perm = perm_of(graph, node)
        return None if perm is None else permuted(source.axes, perm)
    before, after = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
    if node.op != "Reshape" or not source.is_image or before is None or after is None or None in before:
        return None
    dims = axis_lengths_of(before, source.axes, block)
    fitting = (axes for axes in _OF_RANK.get(len(after), ()) if shape_of(axes, dims) == tuple(after))
    return next(
        (axes for axes in fitting if letters_in_memory(axes, dims) == letters_in_memory(source.axes, dims)), None
    )


# ---- letters ---------------------------------------------------------------------------


def axis_lengths_of(shape: tuple[Dim, ...], axes: Axes, block: int) -> dict[str, Dim]:
    """The length of each letter."""
    dims: dict[str, Dim] = {}
    for dim, axis in zip(shape, axes, strict=True):
        if axis == "Cc":
            assert isinstance(dim, int)
            dims.update(C=dim // block, c=block)
        else:
            dims[axis] = dim
    return dims


def shape_of(axes: Axes, dims: Mapping[str, Dim]) -> tuple[Dim, ...]:
    """The shape of an image with these axes and lengths."""
    return tuple(_product(dims["C"], dims["c"]) if axis == "Cc" else dims[axis] for axis in axes)


def _product(blocks: Dim, block: Dim) -> int:
    assert isinstance(blocks, int) and isinstance(block, int)
    return blocks * block


def letters_in_memory(axes: Axes, dims: Mapping[str, Dim] | None) -> tuple[str, ...]:
    """The letters without those of length 1; axes for which it is equal differ only by a Reshape."""
    return tuple(letter for letter in letters_of(axes) if dims is None or dims[letter] != 1)


def letters_of(axes: Axes) -> tuple[str, ...]:
    """The letters in order: "N", "C", "c", "H" and "W" for NCHW."""
    return tuple(letter for axis in axes for letter in (("C", "c") if axis == "Cc" else (axis,)))


def lengths(graph: Graph, root: str, members: Mapping[str, Axes], block: int, weigh: str) -> dict[str, Dim] | None:
    """The length of each letter of `root`, exact enough to say which are 1; None if unknown."""
    root_axes = members[root]
    transposed = (
        {} if "c" in letters_of(root_axes) else {value: tuple(map(int, axes)) for value, axes in members.items()}
    )
    shape = shape_that_counts(graph, root, transposed, weigh)
    return None if shape is None else axis_lengths_of(shape, root_axes, block)


def members_of(known: Mapping[str, TiledAxes]) -> dict[str, dict[str, Axes]]:
    """The values of each root, with their axes."""
    members: dict[str, dict[str, Axes]] = {}
    for value, tiled in known.items():
        members.setdefault(tiled.root, {})[value] = tiled.axes
    return members


def conversions_of(graph: Graph, known: Mapping[str, TiledAxes]) -> Iterator[tuple[str, list[Node]]]:
    """Each root that is converted, with its conversions."""
    results: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if node.outputs and is_conversion(node, known):
            results.setdefault(known[node.outputs[0]].root, []).append(node)
    yield from results.items()
