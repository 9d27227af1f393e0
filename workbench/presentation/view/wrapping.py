"""Wraps a tall placed picture into columns, as text is wrapped into lines.

The picture is cut between layers, where the fewest lines cross. Each crossing line continues at the top of the next
column, through the gap between both columns.
ELK calls this graph wrapping (`layered.wrapping.strategy`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from workbench.presentation.view.engines import LAYER_GAP, MAX_ROUTED, Place, Placement, Point, Route, at_origin

_ONE_COLUMN = 850  # pixels of height; a lower picture can be read in a pane
_MIN_COLUMN = 240  # pixels of height; lower columns are not worth the turn of the eye
_MAX_COLUMNS = 8
_LANE = 7  # pixels between two lines in the gap between columns
_GAP = 36  # pixels between two columns, besides the lines
_MAX_CANDIDATES = 120  # heights at which a picture may be cut
_LINE_AS_HEIGHT = 25  # pixels by which a column is counted higher for each line that crosses its cut
_NEVER = 1 << 40  # pixels

_Piece = tuple[int, list[Point]]  # a column, and the part of a route in it


def wrapped(placement: Placement, aspect: float) -> Placement:
    """The picture in as many columns as let it be drawn largest in a pane of `aspect`, its width over its height.

    A picture of more than MAX_ROUTED boxes stays as it is: its straight lines would cross all columns.
    """
    if len(placement.places) > MAX_ROUTED or placement.height <= _ONE_COLUMN:
        return placement
    most = min(_MAX_COLUMNS, placement.height // _MIN_COLUMN)
    placements = [placement, *(_in_columns(placement, cuts) for cuts in _cuts(placement, most))]
    return min(placements, key=lambda one: max(one.width / aspect, one.height))


def _cuts(placement: Placement, most: int) -> list[list[int]]:
    """For 2 to `most` columns the y of each cut, from top to bottom, so that the highest column is as low as can be.

    No cut goes through a box. A line that crosses a cut counts as height, so that cuts are where few lines cross.
    """
    if most < 2:
        return []
    free = _free_heights(placement.places)
    free = free[:: len(free) // _MAX_CANDIDATES + 1]
    tops = [0, *free]
    lines = [0, *(_LINE_AS_HEIGHT * len(_crossing(placement.routes, y)) for y in free)]
    # best[i]: the height of the highest column if the last one begins at tops[i]; by number of columns so far.
    best = [[(0, -1)] + [(_NEVER, -1)] * len(free)]
    for _ in range(1, most):
        before = best[-1]
        best.append(
            [
                min(((max(before[j][0], top - tops[j] + lines[i]), j) for j in range(i)), default=(_NEVER, -1))
                for i, top in enumerate(tops)
            ]
        )
    results = []
    for number in range(1, len(best)):
        height, i = min((max(best[number][i][0], placement.height - top), i) for i, top in enumerate(tops))
        if height >= _NEVER:
            break  # there are not so many heights to cut at
        cuts: list[int] = []
        for row in reversed(best[1 : number + 1]):
            cuts.insert(0, tops[i])
            i = row[i][1]
        results.append(cuts)
    return results


def _free_heights(places: Sequence[Place]) -> list[int]:
    """The middle of each horizontal strip without boxes that is inside the placement."""
    heights, bottom = [], 0
    for place in sorted(places, key=lambda place: place.top):
        if place.top - bottom >= LAYER_GAP // 2 and bottom:
            heights.append((bottom + place.top) // 2)
        bottom = max(bottom, place.bottom)
    return heights


def _crossing(routes: Sequence[Route], y: int) -> list[int]:
    """The numbers of the routes that cross a height."""
    return [i for i, route in enumerate(routes) if any(a < y <= b or b < y <= a for (_, a), (_, b) in pairwise(route))]


@dataclass(frozen=True)
class _Turn:
    """The gap between two columns: where the lines turn up to the next column.

    routes: the numbers of the routes that cross the cut, from left to right; each has a lane of its own, so that no
    two cross. bottom, left, top: the lane nearest to the boxes, as y below a column, x beside it, and y above the next.
    """

    routes: Sequence[int]
    bottom: int
    left: int
    top: int

    def corners(self, route: int, below: int, above: int) -> list[Point]:
        """The corners from x `below` one column to x `above` the next one."""
        lane = self.routes.index(route)
        inner = len(self.routes) - 1 - lane
        low, middle, high = self.bottom + _LANE * inner, self.left + _LANE * inner, self.top - _LANE * lane
        return [(below, low), (middle, low), (middle, high), (above, high)]


def _in_columns(placement: Placement, cuts: Sequence[int]) -> Placement:
    column_of = [bisect_right(cuts, place.y) for place in placement.places]
    pieces = [_pieces(route, cuts) for route in placement.routes]
    crossing = [sorted(_crossing(placement.routes, y), key=lambda i: _x_at(placement.routes[i], y)) for y in cuts]
    lanes = max(map(len, crossing)) * _LANE
    shifts, rights = _columns(_extents(placement, column_of, pieces, len(cuts) + 1), crossing)
    tops = [0, *(cut - LAYER_GAP - lanes for cut in cuts)]  # what becomes y 0 of each column

    def moved(point: Point, column: int) -> Point:
        return point[0] + shifts[column], point[1] - tops[column]

    places = [
        Place(*moved((place.x, place.y), column), place.width, place.height)
        for place, column in zip(placement.places, column_of, strict=True)
    ]
    turns = [
        _Turn(
            routes,
            bottom=max(place.bottom for place, column in zip(places, column_of, strict=True) if column == number)
            + LAYER_GAP // 2,
            left=rights[number] + _GAP // 2,
            top=lanes + LAYER_GAP // 2,
        )
        for number, routes in enumerate(crossing)
    ]
    return at_origin(places, [_line(i, parts, turns, moved) for i, parts in enumerate(pieces)], placement.engine)


def _line(route: int, parts: Sequence[_Piece], turns: Sequence[_Turn], moved: Callable[[Point, int], Point]) -> Route:
    """The parts of a route, each moved to its column and joined to the next one by a turn."""
    first, corners = parts[0]
    points = [moved(corner, first) for corner in corners]
    for (before, _), (after, corners) in pairwise(parts):
        onward = [moved(corner, after) for corner in corners]
        (leaving, _), (entering, _) = points.pop(), onward[0]
        turn = turns[min(before, after)]
        if after > before:
            points += turn.corners(route, leaving, entering)
        else:
            points += reversed(turn.corners(route, entering, leaving))
        points += onward[1:]
    return tuple(points)


def _columns(extents: Sequence[tuple[int, int]], crossing: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """How far each column moves to the right, and its right border then. extents: its lowest and highest x before."""
    shifts, rights = [-extents[0][0]], [extents[0][1] - extents[0][0]]
    for (low, high), routes in zip(extents[1:], crossing, strict=True):
        left = rights[-1] + _GAP + _LANE * len(routes)
        shifts.append(left - low)
        rights.append(left + high - low)
    return shifts, rights


def _x_at(route: Route, y: int) -> int:
    return next(x for (x, a), (_, b) in pairwise(route) if a < y <= b or b < y <= a)


def _pieces(route: Route, cuts: Sequence[int]) -> list[_Piece]:
    """The route in parts, each with its column; a part ends, and the next one begins, on the cut."""
    column = bisect_right(cuts, route[0][1])
    parts = [(column, [route[0]])]
    for (x1, y1), (x2, y2) in pairwise(route):
        step = 1 if y2 > y1 else -1
        for cut in [y for y in cuts if y1 < y <= y2] if step > 0 else [y for y in reversed(cuts) if y2 < y <= y1]:
            x = round(x1 + (x2 - x1) * (cut - y1) / (y2 - y1))
            parts[-1][1].append((x, cut))
            column += step
            parts.append((column, [(x, cut)]))
        parts[-1][1].append((x2, y2))
    return parts


def _extents(
    placement: Placement, column_of: Sequence[int], pieces: Sequence[list[_Piece]], count: int
) -> list[tuple[int, int]]:
    """The lowest and highest x of each column's boxes and lines."""
    xs: list[list[int]] = [[] for _ in range(count)]
    for place, column in zip(placement.places, column_of, strict=True):
        xs[column] += [place.left, place.right]
    for parts in pieces:
        for column, points in parts:
            xs[column] += [x for x, _ in points]
    return [(min(column), max(column)) if column else (0, 0) for column in xs]
