"""The layout of a picture: laid out boxes, chips on edges, and columns of constants.

A node that one rewrite of a step adds and a later rewrite of the same step removes is drawn as a chip, on the edge that
it interrupts, so that it takes no room. Constants are in a column to the left of the first node that reads them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.presentation.view.boxes import CONSTANT, Box, Boxes
from workbench.presentation.view.edge_shortcuts import FreeLines
from workbench.presentation.view.engines import Place, Point, Route
from workbench.presentation.view.links import Links
from workbench.presentation.view.placement import Columns, Item, place
from workbench.presentation.view.spacing import MinGap, with_min_gaps

_COLUMN_GAP, _ROW_GAP = 12, 4  # pixels between a node and its column of constants, and between two constants
_NO_COLUMNS: Mapping[str, Columns] = {}
_MIN_SEGMENT = 40  # pixels of a line between chips, for its arrow and its label


@dataclass(frozen=True)
class Arrangement:
    """A picture. places: by the number of a box. lines: the corners of the line between two boxes, by their numbers."""

    places: tuple[Place, ...]
    lines: Mapping[tuple[int, int], Route]
    width: int
    height: int


def arrange(boxes: Boxes, links: Links, columns: Mapping[str, Columns] = _NO_COLUMNS) -> Arrangement:
    """The positions of all boxes and lines. columns: by the id of a frame that has columns, "" for the picture."""
    constants = _columns(boxes, links)
    in_columns = {number for column in constants.values() for number in column}
    laid_out = [i for i, box in enumerate(boxes.boxes) if not box.is_chip and i not in in_columns]
    number = {i: n for n, i in enumerate(laid_out)}
    items = [_item(boxes, i, constants.get(i, []), number) for i in laid_out]
    of_frames = {n: columns[boxes.boxes[i].id] for i, n in number.items() if boxes.boxes[i].id in columns}
    of_frames |= {-1: columns[""]} if "" in columns else {}
    placed = place(items, [(number[a], number[b]) for a, b in links.routed_pairs], of_frames)
    places = {i: placed.places[n] for i, n in number.items()}
    for i, column in constants.items():
        places |= _placed_column(boxes, places[i], i, column)
    routes = dict(zip(links.routed_pairs, placed.routes, strict=True))
    if constants:
        routes = {(a, b): _to_boxes(route, places[a], places[b]) for (a, b), route in routes.items()}
    group_boxes = {i for i in places if boxes.boxes[i].item.is_frame}
    spaced = with_min_gaps(places, routes, group_boxes, _min_gaps(boxes, links, places))
    places, routes = spaced.places, spaced.routes
    chip_positions = _chip_positions(boxes, links, places, routes)
    places |= {chip: chip_position.place for chip, chip_position in chip_positions.items()}
    all_places = tuple(places[i] for i in range(len(boxes.boxes)))
    return Arrangement(
        all_places, routes | _chip_lines(links, chip_positions, routes), placed.width, placed.height + spaced.height
    )


def _to_boxes(route: Route, a: Place, b: Place) -> Route:
    """The route extended from the areas of two boxes, each with its column of constants, to the boxes themselves."""
    if len(route) < 2:
        return route
    start, end = _within(a, route[0][0]), _within(b, route[-1][0])
    low, high = (start, a.y + a.height // 2), (end, b.y - b.height // 2)
    return (low, (start, route[0][1]), *route[1:-1], (end, route[-1][1]), high)


def _within(place: Place, x: int) -> int:
    """The x nearest to `x` on a box's upper or lower border."""
    half = max(place.width // 2 - _ROW_GAP, 0)
    return min(max(x, place.x - half), place.x + half)


def _columns(boxes: Boxes, links: Links) -> dict[int, list[int]]:
    """By the box of a node, the boxes of constants that it is the first to read."""
    columns: dict[int, list[int]] = {}
    done: set[int] = set()
    for link in links.links:
        if boxes.boxes[link.source].kind == CONSTANT and link.source not in done:
            done.add(link.source)
            columns.setdefault(link.target, []).append(link.source)
    return columns


def _item(boxes: Boxes, i: int, column: Sequence[int], number: Mapping[int, int]) -> Item:
    """The area of a box with its column of constants on the left, and the same width on the right."""
    node = boxes.boxes[i].item
    sizes = [boxes.boxes[c].item for c in column]
    width = node.width + 2 * (max(size.width for size in sizes) + _COLUMN_GAP) if sizes else node.width
    height = max(node.height, sum(size.height + _ROW_GAP for size in sizes))
    frame = node.frame if node.frame < 0 else number[node.frame]
    return Item(width, height, frame, node.is_frame)


def _placed_column(boxes: Boxes, room: Place, i: int, column: Sequence[int]) -> dict[int, Place]:
    """The places of a box, in the middle of its area, and of its constants, in a column on the left."""
    node = boxes.boxes[i].item
    sizes = [boxes.boxes[c].item for c in column]
    results = {i: Place(room.x, room.y, node.width, node.height)}
    top = room.y - sum(size.height + _ROW_GAP for size in sizes) // 2
    right = room.x - node.width // 2 - _COLUMN_GAP
    for constant, size in zip(column, sizes, strict=True):
        results[constant] = Place(right - size.width // 2, top + size.height // 2, size.width, size.height)
        top += size.height + _ROW_GAP
    return results


@dataclass(frozen=True)
class _ChipPosition:
    """The position of a chip: at `fraction` of the length of the line from box `start` to box `end`."""

    place: Place
    start: int | None
    end: int | None
    line: Route
    fraction: float


def _chip_positions(
    boxes: Boxes, links: Links, places: Mapping[int, Place], routes: Mapping[tuple[int, int], Route]
) -> dict[int, _ChipPosition]:
    """The position of each chip, by the number of its box; several chips in a row share a line."""
    before, after = _neighbours(boxes, links)
    no_place = Place(0, 0, 0, 0)
    free_lines = FreeLines(boxes.boxes, [places.get(i, no_place) for i in range(len(boxes.boxes))])
    results: dict[int, _ChipPosition] = {}
    for chip in [i for i, box in enumerate(boxes.boxes) if box.is_chip]:
        start, above = _follow(chip, before, places)
        end, below = _follow(chip, after, places)
        line = _straight(free_lines, start, end, boxes.boxes[chip], places) or _line(start, end, places, routes)
        fraction = (above + 1) / (above + below + 2)
        x, y = along(line, fraction) if line else (0, 0)
        results[chip] = _ChipPosition(Place(x, y, *boxes.boxes[chip].chip_size), start, end, line, fraction)
    return results


def _neighbours(boxes: Boxes, links: Links) -> tuple[dict[int, int], dict[int, int]]:
    """By chip, the first box before it, and the first box after it."""
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for link in links.links:
        if boxes.boxes[link.target].is_chip:
            before.setdefault(link.target, link.source)
        if boxes.boxes[link.source].is_chip:
            after.setdefault(link.source, link.target)
    return before, after


def _min_gaps(boxes: Boxes, links: Links, places: Mapping[int, Place]) -> Iterator[MinGap]:
    """The room that chips need, with a segment of the line before each chip and after the last one."""
    before, after = _neighbours(boxes, links)
    for chip in [i for i, box in enumerate(boxes.boxes) if box.is_chip]:
        start, above = _follow(chip, before, places)
        end, below = _follow(chip, after, places)
        if start is not None and end is not None:
            count = above + 1 + below
            yield MinGap(start, end, count * boxes.boxes[chip].chip_size[1] + (count + 1) * _MIN_SEGMENT)


def _chip_lines(
    links: Links, chip_positions: Mapping[int, _ChipPosition], routes: Mapping[tuple[int, int], Route]
) -> dict[tuple[int, int], Route]:
    """The lines to and from chips, which are parts of the line on which a chip lies.

    The line from a chip to a further user is the whole line to that user.
    """
    results: dict[tuple[int, int], Route] = {}
    for link in links.links:
        a, b = chip_positions.get(link.source), chip_positions.get(link.target)
        if a is not None and b is not None:
            same = (a.start, a.end) == (b.start, b.end) and a.fraction < b.fraction
            results[link.source, link.target] = cut(a.line, a.fraction, b.fraction) if same else ()
        elif b is not None:
            results[link.source, link.target] = cut(b.line, 0, b.fraction) if link.source == b.start else ()
        elif a is not None:
            onward = cut(a.line, a.fraction, 1) if link.target == a.end else routes.get((a.start or 0, link.target), ())
            results[link.source, link.target] = onward
    return results


def _follow(chip: int, next_box: Mapping[int, int], places: Mapping[int, Place]) -> tuple[int | None, int]:
    """Follow `next_box` from a chip to the first placed box; the box, None without one, and the chips between."""
    number, between, seen = next_box.get(chip), 0, {chip}
    while number is not None and number not in places and number not in seen:
        seen.add(number)
        number, between = next_box.get(number), between + 1
    return (number if number in places else None), between


def _straight(
    free_lines: FreeLines, start: int | None, end: int | None, chip: Box, places: Mapping[int, Place]
) -> Route:
    """A vertical line that no box crosses while the chip exists; () if there is none."""
    if start is None or end is None:
        return ()
    born, dies = chip.alive[0][0], chip.alive[-1][1]
    x = free_lines.x_between(start, end, born, dies)
    a, b = places[start], places[end]
    return () if x is None else ((x, a.y + a.height // 2), (x, b.y - b.height // 2))


def _line(
    start: int | None, end: int | None, places: Mapping[int, Place], routes: Mapping[tuple[int, int], Route]
) -> Route:
    if start is None and end is None:
        return ()
    if start is None or end is None:  # without users, or without shown operands: attached to the other box
        place, side = (places[start], 1) if start is not None else (places[end or 0], -1)
        edge = place.y + side * place.height // 2
        return (place.x, edge), (place.x, edge + side * 40)
    route = routes.get((start, end), ())
    if len(route) > 1:
        return route
    a, b = places[start], places[end]
    return (a.x, a.y + a.height // 2), (b.x, b.y - b.height // 2)


def along(line: Route, fraction: float) -> Point:
    """The point of the line at `fraction` of its length, from 0 to 1."""
    return cut(line, 0, fraction)[-1]


def cut(line: Route, start: float, end: float) -> Route:
    """The part of the line between two fractions of its length, from 0 to 1."""
    if len(line) < 2:
        return line
    lengths = [math.dist(a, b) for a, b in itertools.pairwise(line)]
    low, high = start * sum(lengths), end * sum(lengths)
    points: list[Point] = []
    done = 0.0
    for (a, b), length in zip(itertools.pairwise(line), lengths, strict=True):
        if length and done + length >= low and done <= high:
            first, last = max(low - done, 0) / length, min(high - done, length) / length
            points += [_between(a, b, first), _between(a, b, last)]
        done += length
    return tuple(dict.fromkeys(points)) or line[:1]


def _between(a: Point, b: Point, fraction: float) -> Point:
    return round(a[0] + (b[0] - a[0]) * fraction), round(a[1] + (b[1] - a[1]) * fraction)
