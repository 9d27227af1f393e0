"""The order of a value's elements in memory, drawn: each layout a row of cells, and arrows from row to row.

A small tensor stands for the value: few channels of few places. Cells have the colour and the letter of their channel
(of a weight: of their output channel) and the number of their place in it, so that a row says which elements lie side
by side, and the arrows which permutation leads from one layout to the next.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from workbench.layout.infer import is_cnn
from workbench.view.node_style import is_of_weights

_IMAGES, _WEIGHTS = ("NCHW", "NHWC", "NCHW8c"), ("OIHW", "HWOI", "OHWI")
_MATRIX = ("RS", "SR")  # of R rows of S elements: row by row, and column by column
_CALLED = {"RS": "by rows", "SR": "by columns", "R": "rows", "S": "columns"}
_BLOCK = 8  # channels of NCHW8c
_BLOCKED = re.compile(r"([A-Z]+)(\d+)c")
_FEW = {"N": 1, "C": 4, "D": 1, "H": 2, "W": 3}  # elements of an axis that are drawn, at most
_FEW_OF_MATRICES = {"R": 4, "S": 5}
_FEW_OF_WEIGHTS = {"O": 4, "I": 2, "D": 1, "H": 2, "W": 2}
_FEW_IN_BLOCKS = {"N": 1, "C": 2 * _BLOCK, "D": 1, "H": 1, "W": 2}  # where a row has blocks of channels
_CELLS = 32  # of a row with blocks: fewer channels have more places
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CELL, _HIGH, _ARROWS = 26, 22, 52  # pixels: of a cell, and of the space of arrows
_MARGIN, _PLANES, _GAP = 165, 50, 8  # pixels: of titles, of the tensor itself without its cells, between channels
_INK = "#1b1b1b"  # of letters in cells, whose colours are light in both themes

_KNOWN_AXES = _FEW.keys() | _FEW_OF_WEIGHTS.keys() | _FEW_OF_MATRICES.keys()

Element = tuple[int, ...]  # an index for each axis


@dataclass(frozen=True)
class MemoryOrder:
    """The value that is drawn: its layout, its sizes by axis, and the bytes of an element."""

    layout: str
    sizes: Mapping[str, int] = field(hash=False)
    item_bytes: int

    @property
    def axes(self) -> str:
        """All axes in the order of ONNX."""
        order = "OIDHW" if is_of_weights(self.layout) else "NCDHWRS"
        return "".join(axis for axis in order if axis in self.sizes)

    @property
    def drawn(self) -> dict[str, int]:
        """The sizes of the small tensor that stands for the value."""
        most = _FEW_OF_WEIGHTS if is_of_weights(self.layout) else {**_FEW, **_FEW_OF_MATRICES}
        if any(map(_block, self.rows)):
            most = {**_FEW_IN_BLOCKS, "W": _CELLS // min(self.sizes["C"], _FEW_IN_BLOCKS["C"])}
        return {axis: min(size, most[axis]) for axis, size in self.sizes.items()}

    @property
    def rows(self) -> tuple[str, ...]:
        """The layouts that are drawn, the value's own first."""
        if self.layout in _MATRIX:
            return _MATRIX
        if len(self.sizes) != 4:
            first, last = self.axes, f"{self.axes[0]}{self.axes[2:]}{self.axes[1]}"
            return tuple(dict.fromkeys((self.layout, first, last)))
        others = _WEIGHTS if is_of_weights(self.layout) else _IMAGES
        fitting = [layout for layout in others if self.sizes.get("C", 0) % _block(layout, 1) == 0]
        return tuple(dict.fromkeys((self.layout, *fitting)))


def memory_order(layout: str, shape: Sequence[object] | None, item_bytes: int) -> MemoryOrder | None:
    """What to draw of a value of that layout, whose shape is in the order of its layout; None if it has no order.

    A value has none if it is a Tensor other than a matrix, which has rows and columns, if a size of its shape is
    unknown, or if it has groups of channels or blocks of more than 16.
    """
    if shape is not None and len(shape) == 2:
        layout = _MATRIX[0]
    if shape is None or not (is_cnn(layout) or is_of_weights(layout) or layout in _MATRIX):
        return None
    names, block = _block_axes(layout)
    axes = names.removesuffix("c")
    known = [size for size in shape if isinstance(size, int) and size > 0]
    has_all_sizes = len(shape) == len(known) == len(names)
    if not has_all_sizes or block > _FEW_IN_BLOCKS["C"] or not set(axes) <= _KNOWN_AXES:
        return None
    sizes = dict(zip(axes, known, strict=False))
    return MemoryOrder(layout, sizes | ({"C": sizes["C"] * block} if block > 1 else {}), item_bytes)


def elements_in_order(layout: str, axes: str, sizes: Mapping[str, int]) -> list[Element]:
    """The elements of a tensor of those axes in the order of memory, the last axis of the layout fastest."""
    names, block = _block_axes(layout)
    ranges = [range(_length(axis, sizes, block)) for axis in names]
    results = []
    for index in itertools.product(*ranges):
        at = dict(zip(names, index, strict=True))
        channel = {"C": at["C"] * block + at["c"]} if block > 1 else {}
        results.append(tuple({**at, **channel}[axis] for axis in axes))
    return results


def strides(layout: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """Elements from one index of an axis to the next; "c" is the axis in a block."""
    names, block = _block_axes(layout)
    lengths = [_length(axis, sizes, block) for axis in names]
    return {axis: math.prod(lengths[place + 1 :]) for place, axis in enumerate(names)}


def drawing(order: MemoryOrder) -> str:
    """The SVG; letters outside of cells have the colour of the text around it."""
    sizes, axes = order.drawn, order.axes
    channel = axes.index(_lettered(order)[0])
    elements = elements_in_order(axes, axes, sizes)
    places = len(elements) // math.prod(sizes[axis] for axis in axes[: channel + 1])
    labels = {element: _label(element[channel], number % places) for number, element in enumerate(elements)}
    width = _MARGIN + len(elements) * _CELL + _GAP * math.prod(sizes[axis] for axis in axes[: channel + 1])
    top = _PLANES + _HIGH * places // sizes[axes[-1]]
    parts = [*_planes(order, elements, places, channel, labels)]
    before: list[Element] = []
    for layout in order.rows:
        row = elements_in_order(layout, axes, sizes)
        if before:
            parts += _arrows(before, row, channel, top)
            top += _ARROWS
        parts += _row(order, layout, row, channel, labels, top)
        before, top = row, top + _HIGH + 16
    size = f'width="{width}" height="{top + 4}" viewBox="0 0 {width} {top + 4}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-size="11" fill="currentColor">'
        f"<title>{escape(caption(order))}</title>{_heads(sizes[axes[channel]])}{''.join(parts)}</svg>"
    )


def caption(order: MemoryOrder) -> str:
    """What is drawn, in sentences."""
    whole = "x".join(str(order.sizes[axis]) for axis in order.axes)
    small = "x".join(str(order.drawn[axis]) for axis in order.axes)
    of = "all of it" if small == whole else f"of its {whole} elements {small} are drawn"
    what = "A matrix" if order.layout in _MATRIX else order.axes
    return (
        f"{what} in memory, {of}: a letter and a colour for each {_lettered(order)[1]}, a number for each place in it, "
        f"and below each cell the byte at which it begins.{_same_bytes(order)}"
    )


def _lettered(order: MemoryOrder) -> tuple[str, str]:
    """The axis whose places have a colour and a letter, and what such a place is called."""
    if order.layout in _MATRIX:
        return "R", "row"
    return ("O", "output channel") if is_of_weights(order.layout) else ("C", "channel")


def _same_bytes(order: MemoryOrder) -> str:
    """A sentence on layouts that are the same bytes for these sizes, as all are of a kernel of 1x1."""
    by_order: dict[tuple[Element, ...], list[str]] = {}
    for layout in order.rows:
        elements = tuple(elements_in_order(layout, order.axes, order.drawn))
        by_order.setdefault(elements, []).append(_CALLED.get(layout, layout))
    same = [" and ".join(layouts) for layouts in by_order.values() if len(layouts) > 1]
    return f" {'; '.join(same)} are the same bytes here." if same else ""


# ---- parts of the drawing ------------------------------------------------------------


def _planes(
    order: MemoryOrder, elements: list[Element], places: int, channel: int, labels: Mapping[Element, str]
) -> Iterator[str]:
    """The tensor itself: the places of each channel, side by side."""
    sizes, axes = order.drawn, order.axes
    across = sizes[axes[-1]]
    yield _title(26, "the tensor", ", ".join(f"{_CALLED.get(axis, axis)} {sizes[axis]}" for axis in axes))
    at = {}
    for number, element in enumerate(elements):
        which, place = divmod(number, places)
        at[element] = (_MARGIN + which * (across * _CELL + _GAP) + place % across * _CELL, 12 + place // across * _HIGH)
    yield _cells(at, channel, labels)


def _row(
    order: MemoryOrder, layout: str, row: list[Element], channel: int, labels: Mapping[Element, str], top: int
) -> Iterator[str]:
    """A layout: its cells, below each the byte at which it begins, and on the left its strides."""
    steps = ", ".join(f"{_CALLED.get(axis, axis)} {step}" for axis, step in strides(layout, order.drawn).items())
    called = _CALLED.get(layout, layout)
    yield _title(top + 10, f"{called} (this value)" if layout == order.layout else called, f"strides {steps}")
    yield _cells({element: (_MARGIN + place * _CELL, top) for place, element in enumerate(row)}, channel, labels)
    middles = (_MARGIN + place * _CELL + _CELL // 2 for place in range(len(row)))
    texts = (f'<text x="{x}">{place * order.item_bytes}</text>' for place, x in enumerate(middles))
    yield f'<g text-anchor="middle" transform="translate(0 {top + _HIGH + 11})">{"".join(texts)}</g>'


def _arrows(before: list[Element], row: list[Element], channel: int, top: int) -> Iterator[str]:
    """From each element in the row above to its place in the row below."""
    to = {element: place for place, element in enumerate(row)}
    by_channel: dict[int, list[str]] = {}
    for place, element in enumerate(before):
        x, end = (_MARGIN + at * _CELL + _CELL // 2 for at in (place, to[element]))
        by_channel.setdefault(element[channel], []).append(f'<path d="M{x} {top}L{end} {top + _ARROWS - 7}"/>')
    for number, paths in by_channel.items():
        yield f'<g stroke="{_colour(number, 52)}" stroke-width="1.3" marker-end="url(#gw-arrow-{number})">'
        yield f"{''.join(paths)}</g>"


def _heads(channels: int) -> str:
    """The heads of arrows, one for each colour."""
    heads = (
        f'<marker id="gw-arrow-{number}" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="6" markerHeight="6" '
        f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{_colour(number, 52)}" stroke="none"/></marker>'
        for number in range(channels)
    )
    return f"<defs>{''.join(heads)}</defs>"


def _cells(at: Mapping[Element, tuple[int, int]], channel: int, labels: Mapping[Element, str]) -> str:
    """Cells at these places: one path for each channel, and the labels."""
    by_channel: dict[int, list[str]] = {}
    for element, (x, y) in at.items():
        by_channel.setdefault(element[channel], []).append(f"M{x} {y}h{_CELL}v{_HIGH}h-{_CELL}z")
    paths = (f'<path fill="{_colour(number, 76)}" d="{"".join(d)}"/>' for number, d in by_channel.items())
    texts = (f'<text x="{x + _CELL // 2}" y="{y + 15}">{labels[each]}</text>' for each, (x, y) in at.items())
    return (
        f'<g stroke="{_INK}" stroke-width="0.6">{"".join(paths)}</g>'
        f'<g fill="{_INK}" font-size="12" text-anchor="middle">{"".join(texts)}</g>'
    )


def _title(y: int, words: str, below: str) -> str:
    bold = f'<text x="4" y="{y}" font-size="13" font-weight="600">{escape(words)}</text>'
    return f'{bold}<text x="4" y="{y + 15}">{escape(below)}</text>'


def _label(channel: int, place: int) -> str:
    return f"{_LETTERS[channel]}{place}"


def _colour(channel: int, lightness: int) -> str:
    """Hues far from each other for neighbours."""
    return f"hsl({channel * 137 % 360} 58% {lightness}%)"


def _block(layout: str, without: int = 0) -> int:
    """The channels of a block, `without` if the layout has no blocks."""
    match = _BLOCKED.fullmatch(layout)
    return int(match[2]) if match else without


def _block_axes(layout: str) -> tuple[str, int]:
    """The axes, "NCHWc" for blocked channels, and the channels of a block, 1 without blocks."""
    match = _BLOCKED.fullmatch(layout)
    return (f"{match[1]}c", int(match[2])) if match else (layout, 1)


def _length(axis: str, sizes: Mapping[str, int], block: int) -> int:
    if axis == "c":
        return block
    return sizes[axis] // block if axis == "C" else sizes[axis]
