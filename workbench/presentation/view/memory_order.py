"""Drawings of the order of a value's elements in memory: a row of cells for each layout, and arrows between rows.

The drawn tensor is a small part of the value. A cell has the colour and the letter of its channel (of a weight: of its
output channel) and the number of the element in that channel. A row shows which elements are adjacent in memory; the
arrows show the permutation between two layouts.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from workbench.planning.layout.infer import is_cnn
from workbench.presentation.view.node_style import is_of_weights

_IMAGES, _WEIGHTS = ("NCHW", "NHWC", "NCHW8c"), ("OIHW", "HWOI", "OHWI")
_MATRIX = ("RS", "SR")  # R rows of S elements: row by row, and column by column
_NAMES = {"RS": "by rows", "SR": "by columns", "R": "rows", "S": "columns"}
_BLOCK = 8  # channels of NCHW8c
_BLOCKED = re.compile(r"([A-Z]+)(\d+)c")
_MAX_SIZES = {"N": 1, "C": 4, "D": 1, "H": 2, "W": 3}  # maximum drawn sizes of axes
_MAX_MATRIX_SIZES = {"R": 4, "S": 5}
_MAX_WEIGHT_SIZES = {"O": 4, "I": 2, "D": 1, "H": 2, "W": 2}
_MAX_BLOCKED_SIZES = {"N": 1, "C": 2 * _BLOCK, "D": 1, "H": 1, "W": 2}  # in rows with blocks of channels
_MAX_ROW_CELLS = 32  # in a row with blocks
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CELL_WIDTH, _CELL_HEIGHT, _ARROWS_HEIGHT = 26, 22, 52  # pixels: of a cell, and of the arrows between two rows
# pixels: of titles, above and below the tensor's cells, between channels
_TITLE_WIDTH, _TENSOR_MARGIN, _CHANNEL_GAP = 165, 50, 8
_INK = "#1b1b1b"  # colour of letters in cells, which are light in both themes

_KNOWN_AXES = _MAX_SIZES.keys() | _MAX_WEIGHT_SIZES.keys() | _MAX_MATRIX_SIZES.keys()

Element = tuple[int, ...]  # its index along each axis


@dataclass(frozen=True)
class MemoryOrder:
    """A value to draw. sizes: by axis. item_bytes: of one element."""

    layout: str
    sizes: Mapping[str, int] = field(hash=False)
    item_bytes: int

    @property
    def axes(self) -> str:
        """The axes in ONNX's order."""
        order = "OIDHW" if is_of_weights(self.layout) else "NCDHWRS"
        return "".join(axis for axis in order if axis in self.sizes)

    @property
    def drawn(self) -> dict[str, int]:
        """The sizes of the part that is drawn."""
        limits = _MAX_WEIGHT_SIZES if is_of_weights(self.layout) else {**_MAX_SIZES, **_MAX_MATRIX_SIZES}
        if any(map(_block, self.rows)):
            limits = {**_MAX_BLOCKED_SIZES, "W": _MAX_ROW_CELLS // min(self.sizes["C"], _MAX_BLOCKED_SIZES["C"])}
        return {axis: min(size, limits[axis]) for axis, size in self.sizes.items()}

    @property
    def rows(self) -> tuple[str, ...]:
        """The layouts to draw; the value's layout is the first."""
        if self.layout in _MATRIX:
            return _MATRIX
        if len(self.sizes) != 4:
            first, last = self.axes, f"{self.axes[0]}{self.axes[2:]}{self.axes[1]}"
            return tuple(dict.fromkeys((self.layout, first, last)))
        others = _WEIGHTS if is_of_weights(self.layout) else _IMAGES
        fitting = [layout for layout in others if self.sizes.get("C", 0) % _block(layout, 1) == 0]
        return tuple(dict.fromkeys((self.layout, *fitting)))


def memory_order(layout: str, shape: Sequence[object] | None, item_bytes: int) -> MemoryOrder | None:
    """The value to draw. shape: in the order of the layout. None if there is no drawing for it.

    That is the case for a Tensor that is not a matrix, for unknown sizes, for groups of channels, and for blocks of
    more than 16 channels.
    """
    if shape is not None and len(shape) == 2:
        layout = _MATRIX[0]
    if shape is None or not (is_cnn(layout) or is_of_weights(layout) or layout in _MATRIX):
        return None
    names, block = _block_axes(layout)
    axes = names.removesuffix("c")
    known = [size for size in shape if isinstance(size, int) and size > 0]
    has_all_sizes = len(shape) == len(known) == len(names)
    if not has_all_sizes or block > _MAX_BLOCKED_SIZES["C"] or not set(axes) <= _KNOWN_AXES:
        return None
    sizes = dict(zip(axes, known, strict=False))
    return MemoryOrder(layout, sizes | ({"C": sizes["C"] * block} if block > 1 else {}), item_bytes)


def elements_in_order(layout: str, axes: str, sizes: Mapping[str, int]) -> list[Element]:
    """The elements of a tensor in the order of memory; the last axis of the layout varies fastest."""
    names, block = _block_axes(layout)
    ranges = [range(_length(axis, sizes, block)) for axis in names]
    results = []
    for index in itertools.product(*ranges):
        at = dict(zip(names, index, strict=True))
        channel = {"C": at["C"] * block + at["c"]} if block > 1 else {}
        results.append(tuple({**at, **channel}[axis] for axis in axes))
    return results


def strides(layout: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """By axis, the number of elements from one index to the next; "c" is the axis in a block."""
    names, block = _block_axes(layout)
    lengths = [_length(axis, sizes, block) for axis in names]
    return {axis: math.prod(lengths[index + 1 :]) for index, axis in enumerate(names)}


def drawing(order: MemoryOrder) -> str:
    """The drawing as SVG; text outside cells has the colour of the text around the drawing."""
    sizes, axes = order.drawn, order.axes
    channel = axes.index(_lettered(order)[0])
    elements = elements_in_order(axes, axes, sizes)
    size_of_channel = len(elements) // math.prod(sizes[axis] for axis in axes[: channel + 1])
    labels = {element: _label(element[channel], number % size_of_channel) for number, element in enumerate(elements)}
    width = (
        _TITLE_WIDTH
        + len(elements) * _CELL_WIDTH
        + _CHANNEL_GAP * math.prod(sizes[axis] for axis in axes[: channel + 1])
    )
    top = _TENSOR_MARGIN + _CELL_HEIGHT * size_of_channel // sizes[axes[-1]]
    parts = [*_planes(order, elements, size_of_channel, channel, labels)]
    before: list[Element] = []
    for layout in order.rows:
        row = elements_in_order(layout, axes, sizes)
        if before:
            parts += _arrows(before, row, channel, top)
            top += _ARROWS_HEIGHT
        parts += _row(order, layout, row, channel, labels, top)
        before, top = row, top + _CELL_HEIGHT + 16
    size = f'width="{width}" height="{top + 4}" viewBox="0 0 {width} {top + 4}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-size="11" fill="currentColor">'
        f"<title>{escape(caption(order))}</title>{_heads(sizes[axes[channel]])}{''.join(parts)}</svg>"
    )


def caption(order: MemoryOrder) -> str:
    """The sentences that describe the drawing."""
    all_sizes = "x".join(str(order.sizes[axis]) for axis in order.axes)
    drawn_sizes = "x".join(str(order.drawn[axis]) for axis in order.axes)
    extent = "complete" if drawn_sizes == all_sizes else f"{drawn_sizes} of its {all_sizes} elements"
    subject = "A matrix" if order.layout in _MATRIX else order.axes
    return (
        f"{subject} in memory, {extent}: a letter and a colour for each {_lettered(order)[1]}, "
        f"a number for each element in it, and below each cell the offset of its first byte.{_same_bytes(order)}"
    )


def _lettered(order: MemoryOrder) -> tuple[str, str]:
    """The axis whose indices have a colour and a letter, and the name of one index."""
    if order.layout in _MATRIX:
        return "R", "row"
    return ("O", "output channel") if is_of_weights(order.layout) else ("C", "channel")


def _same_bytes(order: MemoryOrder) -> str:
    """A sentence on layouts with equal bytes for these sizes, as of a 1x1 kernel."""
    by_order: dict[tuple[Element, ...], list[str]] = {}
    for layout in order.rows:
        elements = tuple(elements_in_order(layout, order.axes, order.drawn))
        by_order.setdefault(elements, []).append(_NAMES.get(layout, layout))
    same = [" and ".join(layouts) for layouts in by_order.values() if len(layouts) > 1]
    return f" {'; '.join(same)} are the same bytes here." if same else ""


# ---- parts of the drawing ------------------------------------------------------------


def _planes(
    order: MemoryOrder, elements: list[Element], size_of_channel: int, channel: int, labels: Mapping[Element, str]
) -> Iterator[str]:
    """The tensor itself: the elements of each channel, side by side."""
    sizes, axes = order.drawn, order.axes
    across = sizes[axes[-1]]
    yield _title(26, "the tensor", ", ".join(f"{_NAMES.get(axis, axis)} {sizes[axis]}" for axis in axes))
    at = {}
    for number, element in enumerate(elements):
        channel_number, index = divmod(number, size_of_channel)
        at[element] = (
            _TITLE_WIDTH + channel_number * (across * _CELL_WIDTH + _CHANNEL_GAP) + index % across * _CELL_WIDTH,
            12 + index // across * _CELL_HEIGHT,
        )
    yield _cells(at, channel, labels)


def _row(
    order: MemoryOrder, layout: str, row: list[Element], channel: int, labels: Mapping[Element, str], top: int
) -> Iterator[str]:
    """A layout: its cells, their byte offsets below, and its strides on the left."""
    steps = ", ".join(f"{_NAMES.get(axis, axis)} {step}" for axis, step in strides(layout, order.drawn).items())
    name = _NAMES.get(layout, layout)
    yield _title(top + 10, f"{name} (this value)" if layout == order.layout else name, f"strides {steps}")
    yield _cells(
        {element: (_TITLE_WIDTH + index * _CELL_WIDTH, top) for index, element in enumerate(row)}, channel, labels
    )
    middles = (_TITLE_WIDTH + index * _CELL_WIDTH + _CELL_WIDTH // 2 for index in range(len(row)))
    texts = (f'<text x="{x}">{index * order.item_bytes}</text>' for index, x in enumerate(middles))
    yield f'<g text-anchor="middle" transform="translate(0 {top + _CELL_HEIGHT + 11})">{"".join(texts)}</g>'


def _arrows(before: list[Element], row: list[Element], channel: int, top: int) -> Iterator[str]:
    """Arrows from each element in the row above to the same element in the row below."""
    targets = {element: index for index, element in enumerate(row)}
    by_channel: dict[int, list[str]] = {}
    for index, element in enumerate(before):
        x, end = (_TITLE_WIDTH + at * _CELL_WIDTH + _CELL_WIDTH // 2 for at in (index, targets[element]))
        by_channel.setdefault(element[channel], []).append(f'<path d="M{x} {top}L{end} {top + _ARROWS_HEIGHT - 7}"/>')
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
    """Cells at these positions: one path for each channel, and the labels."""
    by_channel: dict[int, list[str]] = {}
    for element, (x, y) in at.items():
        by_channel.setdefault(element[channel], []).append(f"M{x} {y}h{_CELL_WIDTH}v{_CELL_HEIGHT}h-{_CELL_WIDTH}z")
    paths = (f'<path fill="{_colour(number, 76)}" d="{"".join(d)}"/>' for number, d in by_channel.items())
    texts = (f'<text x="{x + _CELL_WIDTH // 2}" y="{y + 15}">{labels[each]}</text>' for each, (x, y) in at.items())
    return (
        f'<g stroke="{_INK}" stroke-width="0.6">{"".join(paths)}</g>'
        f'<g fill="{_INK}" font-size="12" text-anchor="middle">{"".join(texts)}</g>'
    )


def _title(y: int, title: str, below: str) -> str:
    bold = f'<text x="4" y="{y}" font-size="13" font-weight="600">{escape(title)}</text>'
    return f'{bold}<text x="4" y="{y + 15}">{escape(below)}</text>'


def _label(channel: int, index: int) -> str:
    return f"{_LETTERS[channel]}{index}"


def _colour(channel: int, lightness: int) -> str:
    """The colour of a channel; neighbouring channels have distant hues."""
    return f"hsl({channel * 137 % 360} 58% {lightness}%)"


def _block(layout: str, default: int = 0) -> int:
    """The number of channels in a block; `default` if the layout has no blocks."""
    match = _BLOCKED.fullmatch(layout)
    return int(match[2]) if match else default


def _block_axes(layout: str) -> tuple[str, int]:
    """The axes, such as "NCHWc" for blocked channels, and the number of channels in a block, or 1."""
    match = _BLOCKED.fullmatch(layout)
    return (f"{match[1]}c", int(match[2])) if match else (layout, 1)


def _length(axis: str, sizes: Mapping[str, int], block: int) -> int:
    if axis == "c":
        return block
    return sizes[axis] // block if axis == "C" else sizes[axis]
