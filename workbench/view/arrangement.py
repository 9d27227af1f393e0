"""Positions of all boxes of a picture: those that are placed, those on a line, and columns of constants beside others.

A node that exists only within a step lies on the line that it interrupts, so that no room is kept for
it; constants are in a column to the left of the first node that reads them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.view.boxes import CONSTANT, Box, Boxes
from workbench.view.edge_shortcuts import Gaps
from workbench.view.links import Links
from workbench.view.placement import Item, Place, Route, place
from workbench.view.spacing import Need, stretched

Point = tuple[int, int]
_BESIDE, _ROW = 12, 4  # pixels between a node and its column of constants, and between two of them
_PIECE = 40  # pixels of a line that show its arrow and its label


@dataclass(frozen=True)
class Arrangement:
    """The position of each box by its number, and for pairs of boxes the corners of the line between them."""

    places: tuple[Place, ...]
    lines: Mapping[tuple[int, int], Route]
    width: int
    height: int


def arrange(boxes: Boxes, links: Links) -> Arrangement:
    """Place all boxes."""
    columns = _columns(boxes, links)
    aside = {number for column in columns.values() for number in column}
    standing = [i for i, box in enumerate(boxes.boxes) if not box.is_chip and i not in aside]
    number = {i: n for n, i in enumerate(standing)}
    items = [_item(boxes, i, columns.get(i, []), number) for i in standing]
    placed = place(items, [(number[a], number[b]) for a, b in links.routed])
    places = {i: placed.places[n] for i, n in number.items()}
    for i, column in columns.items():
        places |= _beside(boxes, places[i], i, column)
    routes = dict(zip(links.routed, placed.routes, strict=True))
    if columns:
        routes = {(a, b): _to_boxes(route, places[a], places[b]) for (a, b), route in routes.items()}
    frames = {i for i in places if boxes.boxes[i].item.is_frame}
    roomy = stretched(places, routes, frames, _needs(boxes, links, places))
    places, routes = roomy.places, roomy.routes
    stands = _on_edges(boxes, links, places, routes)
    places |= {chip: stand.place for chip, stand in stands.items()}
    everywhere = tuple(places[i] for i in range(len(boxes.boxes)))
    return Arrangement(everywhere, routes | _past(links, stands, routes), placed.width, placed.height + roomy.height)


def _to_boxes(route: Route, a: Place, b: Place) -> Route:
    """The route from the lower border of one box to the upper border of the other; the placed areas are larger."""
    if len(route) < 2:
        return route
    start, end = _within(a, route[0][0]), _within(b, route[-1][0])
    low, high = (start, a.y + a.height // 2), (end, b.y - b.height // 2)
    return (low, (start, route[0][1]), *route[1:-1], (end, route[-1][1]), high)


def _within(place: Place, x: int) -> int:
    """The point nearest to `x` on a box's upper or lower border."""
    half = max(place.width // 2 - _ROW, 0)
    return min(max(x, place.x - half), place.x + half)


def _columns(boxes: Boxes, links: Links) -> dict[int, list[int]]:
    """The boxes of constants by the box of the first node that reads them."""
    columns: dict[int, list[int]] = {}
    done: set[int] = set()
    for link in links.links:
        if boxes.boxes[link.source].kind == CONSTANT and link.source not in done:
            done.add(link.source)
            columns.setdefault(link.target, []).append(link.source)
    return columns


def _item(boxes: Boxes, i: int, column: Sequence[int], number: Mapping[int, int]) -> Item:
    """The area of a box with its column of constants at the left, and as much at the right."""
    own = boxes.boxes[i].item
    sizes = [boxes.boxes[c].item for c in column]
    width = own.width + 2 * (max(size.width for size in sizes) + _BESIDE) if sizes else own.width
    height = max(own.height, sum(size.height + _ROW for size in sizes))
    frame = own.frame if own.frame < 0 else number[own.frame]
    return Item(width, height, frame, own.is_frame)


def _beside(boxes: Boxes, room: Place, i: int, column: Sequence[int]) -> dict[int, Place]:
    """The box in the middle of its area, its constants in a column at the left."""
    own = boxes.boxes[i].item
    sizes = [boxes.boxes[c].item for c in column]
    results = {i: Place(room.x, room.y, own.width, own.height)}
    top = room.y - sum(size.height + _ROW for size in sizes) // 2
    right = room.x - own.width // 2 - _BESIDE
    for constant, size in zip(column, sizes, strict=True):
        results[constant] = Place(right - size.width // 2, top + size.height // 2, size.width, size.height)
        top += size.height + _ROW
    return results


@dataclass(frozen=True)
class _Stand:
    """The position of a node on an edge: at `share` of the line from box `start` to box `end`."""

    place: Place
    start: int | None
    end: int | None
    line: Route
    share: float


def _on_edges(
    boxes: Boxes, links: Links, places: Mapping[int, Place], routes: Mapping[tuple[int, int], Route]
) -> dict[int, _Stand]:
    """The position of each node on an edge, by number of its box; several in a row share the line."""
    before, after = _neighbours(boxes, links)
    nowhere = Place(0, 0, 0, 0)
    gaps = Gaps(boxes.boxes, [places.get(i, nowhere) for i in range(len(boxes.boxes))])
    results: dict[int, _Stand] = {}
    for chip in [i for i, box in enumerate(boxes.boxes) if box.is_chip]:
        start, above = _follow(chip, before, places)
        end, below = _follow(chip, after, places)
        line = _straight(gaps, start, end, boxes.boxes[chip], places) or _line(start, end, places, routes)
        share = (above + 1) / (above + below + 2)
        x, y = along(line, share) if line else (0, 0)
        results[chip] = _Stand(Place(x, y, *boxes.boxes[chip].chip_size), start, end, line, share)
    return results


def _neighbours(boxes: Boxes, links: Links) -> tuple[dict[int, int], dict[int, int]]:
    """The first box before each node on an edge, and the first after it."""
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for link in links.links:
        if boxes.boxes[link.target].is_chip:
            before.setdefault(link.target, link.source)
        if boxes.boxes[link.source].is_chip:
            after.setdefault(link.source, link.target)
    return before, after


def _needs(boxes: Boxes, links: Links, places: Mapping[int, Place]) -> Iterator[Need]:
    """The room that the nodes on edges need, with a piece of the line before each of them and after the last."""
    before, after = _neighbours(boxes, links)
    for chip in [i for i, box in enumerate(boxes.boxes) if box.is_chip]:
        start, above = _follow(chip, before, places)
        end, below = _follow(chip, after, places)
        if start is not None and end is not None:
            count = above + 1 + below
            yield Need(start, end, count * boxes.boxes[chip].chip_size[1] + (count + 1) * _PIECE)


def _past(
    links: Links, stands: Mapping[int, _Stand], routes: Mapping[tuple[int, int], Route]
) -> dict[tuple[int, int], Route]:
    """The lines to and from nodes on edges: parts of the line on which they lie; to further users, the whole line
    from its beginning, which passes after them."""
    results: dict[tuple[int, int], Route] = {}
    for link in links.links:
        a, b = stands.get(link.source), stands.get(link.target)
        if a is not None and b is not None:
            same = (a.start, a.end) == (b.start, b.end) and a.share < b.share
            results[link.source, link.target] = cut(a.line, a.share, b.share) if same else ()
        elif b is not None:
            results[link.source, link.target] = cut(b.line, 0, b.share) if link.source == b.start else ()
        elif a is not None:
            onward = cut(a.line, a.share, 1) if link.target == a.end else routes.get((a.start or 0, link.target), ())
            results[link.source, link.target] = onward
    return results


def _follow(chip: int, step: Mapping[int, int], places: Mapping[int, Place]) -> tuple[int | None, int]:
    """The first placed box on the way, and the number of others in between."""
    number, between, seen = step.get(chip), 0, {chip}
    while number is not None and number not in places and number not in seen:
        seen.add(number)
        number, between = step.get(number), between + 1
    return (number if number in places else None), between


def _straight(gaps: Gaps, start: int | None, end: int | None, chip: Box, places: Mapping[int, Place]) -> Route:
    """A vertical line that is free while the node exists."""
    if start is None or end is None:
        return ()
    x = gaps.straight(start, end, chip.alive[0][0], chip.alive[-1][1])
    a, b = places[start], places[end]
    return () if x is None else ((x, a.y + a.height // 2), (x, b.y - b.height // 2))


def _line(
    start: int | None, end: int | None, places: Mapping[int, Place], routes: Mapping[tuple[int, int], Route]
) -> Route:
    if start is None and end is None:
        return ()
    if start is None or end is None:  # it has no users, or no shown operands: it is attached to the one box
        only, side = (places[start], 1) if start is not None else (places[end or 0], -1)
        edge = only.y + side * only.height // 2
        return (only.x, edge), (only.x, edge + side * 40)
    route = routes.get((start, end), ())
    if len(route) > 1:
        return route
    a, b = places[start], places[end]
    return (a.x, a.y + a.height // 2), (b.x, b.y - b.height // 2)


def along(line: Route, share: float) -> Point:
    """The point of the line at `share` of its length, from 0 to 1."""
    return cut(line, 0, share)[-1]


def cut(line: Route, start: float, end: float) -> Route:
    """The part of the line between two shares of its length, from 0 to 1."""
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


def _between(a: Point, b: Point, part: float) -> Point:
    return round(a[0] + (b[0] - a[0]) * part), round(a[1] + (b[1] - a[1]) * part)
