"""Places a few boxes in columns that are read from top to bottom, then from left to right, as text is.

Of consecutive boxes each is below the one before it, or begins the next column. A line between two others runs beside
the columns, and above all of them where it passes one. So the boxes fill a pane, however the graph branches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from workbench.presentation.view.engines import BoxSize, Pairs, Place, Placement, Route, at_origin

_ROW_GAP = 24  # pixels at least between two boxes: a line's label, 11 px high, and its arrow
_COLUMN_GAP = 22  # pixels at least between two columns
_LANE = 5  # pixels between two lines
_STUB, _ARROW = 7, 12  # pixels below a box without a line, and above one
_LINE_AS_HEIGHT = 10  # pixels by which a column is counted higher for each line that goes on to another one
_BETWEEN = 6  # pixels between two lines in one lane
_ABOVE_ALL = -1000  # y that stands for the lines above all columns

_LEFT, _STRAIGHT, _RIGHT = -1, 0, 1


_Key = tuple[int, int, int]  # a box, the side on which its lines leave, and the channel in which they run


@dataclass
class _Edge:
    """An edge between two boxes. out, into: the side of the box to which its line leaves, and from which it comes.

    channels: the columns on whose left its vertical lines are; of two, the line between them is above all columns.
    low, high: the y of its lines below the first box and above the second one. end: its x on the second box.
    """

    source: int
    target: int
    out: int
    into: int
    channels: tuple[int, ...]
    low: int = 0
    high: int = 0
    end: int = 0

    def key(self, channel: int) -> _Key:
        """Lines that leave a box on one side share a line, as far as they run in one channel."""
        return self.source, self.out, channel


def balanced(sizes: Sequence[BoxSize], edges: Pairs, columns: int) -> tuple[int, ...]:
    """How many consecutive boxes each column has, so that the highest one is as low as can be.

    Each line from a column to another one counts as height, so that cuts are where few lines cross.
    """
    count = len(sizes)
    heights = [height + _ROW_GAP for _, height in sizes]
    lines = [sum(min(edge) < cut <= max(edge) for edge in edges) * _LINE_AS_HEIGHT for cut in range(count + 1)]
    best: list[tuple[int, tuple[int, ...]]] = [(sum(heights[:end]), (end,)) for end in range(count + 1)]
    for _ in range(1, columns):
        best = [
            min(
                (max(best[cut][0], sum(heights[cut:end]) + lines[cut]), (*best[cut][1], end - cut))
                for cut in range(end + 1)
                if best[cut][1]
            )
            for end in range(count + 1)
        ]
    return tuple(number for number in best[count][1] if number)


def place_in_columns(sizes: Sequence[BoxSize], edges: Pairs, counts: Sequence[int]) -> Placement:
    """Place boxes, given by width and height in pixels. counts: the number of consecutive boxes of each column."""
    return _Columns(sizes, counts).place(edges)


@dataclass
class _Columns:
    sizes: Sequence[BoxSize]
    counts: Sequence[int]
    column: list[int] = field(init=False)
    row: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.column = [number for number, count in enumerate(self.counts) for _ in range(count)]
        self.row = [row for count in self.counts for row in range(count)]

    def place(self, pairs: Pairs) -> Placement:
        """Boxes and lines."""
        edges = [self._edge(*pair) for pair in pairs]
        tops = self._tops(edges)
        beside = self._lanes_beside(edges)
        lefts, rights = self._borders([max(lanes.values(), default=-1) + 1 for lanes in beside])
        places = [
            Place((lefts[self.column[i]] + rights[self.column[i]]) // 2, tops[i] + height // 2, width, height)
            for i, (width, height) in enumerate(self.sizes)
        ]
        _spread(edges, places)
        nearest = [left - _COLUMN_GAP // 2 for left in lefts] + [rights[-1] + _COLUMN_GAP // 2]
        outwards = [-_LANE] * len(lefts) + [_LANE]
        xs = {
            key: nearest[channel] + outwards[channel] * lane
            for channel, lanes in enumerate(beside)
            for key, lane in lanes.items()
        }
        above = _lanes_above(edges, xs)
        return at_origin(places, [_route(edge, places, xs, above) for edge in edges], "columns")

    def _edge(self, source: int, target: int) -> _Edge:
        a, b = self.column[source], self.column[target]
        if a == b:
            if self.row[target] == self.row[source] + 1:
                return _Edge(source, target, _STRAIGHT, _STRAIGHT, ())
            return _Edge(source, target, _LEFT, _LEFT, (a,))
        if a < b:
            return _Edge(source, target, _RIGHT, _LEFT, (b,) if b == a + 1 else (a + 1, b))
        return _Edge(source, target, _LEFT, _RIGHT, (a,) if a == b + 1 else (a, b + 1))

    def _tops(self, edges: Sequence[_Edge]) -> list[int]:
        """The y of each box's upper border; sets the heights at which lines leave and come."""
        tops = [0] * len(self.sizes)
        leaving, coming = defaultdict[int, list[_Edge]](list), defaultdict[int, list[_Edge]](list)
        for edge in edges:
            if edge.channels:
                leaving[edge.source].append(edge)
                coming[edge.target].append(edge)
        y = 0
        for i, (_, height) in enumerate(self.sizes):
            is_first = self.row[i] == 0
            y = 0 if is_first else y
            lanes = _lanes_into(coming[i])
            gap = _ARROW + _LANE * max(lanes) if lanes else 0
            gap += _STUB + (_LANE if gap else 0) if not is_first and leaving[i - 1] else 0
            tops[i] = y + (gap if is_first else max(gap, _ROW_GAP))
            for edge, lane in zip(coming[i], lanes, strict=True):
                edge.high = tops[i] - _ARROW - _LANE * lane
            y = tops[i] + height
            for edge in leaving[i]:
                edge.low = y + _STUB
        return tops

    def _lanes_beside(self, edges: Sequence[_Edge]) -> list[dict[_Key, int]]:
        """By channel, the lane of each line in it; shorter ones are nearer to the column behind it."""
        spans: list[dict[_Key, list[int]]] = [defaultdict(list) for _ in range(len(self.counts) + 1)]
        for edge in edges:
            for channel in edge.channels:
                ends = [_ABOVE_ALL] if len(edge.channels) > 1 else []
                ends += [edge.low] if channel == edge.channels[0] else []
                ends += [edge.high] if channel == edge.channels[-1] else []
                spans[channel][edge.key(channel)] += ends
        return [_lanes(of_channel) for of_channel in spans]

    def _borders(self, lanes: Sequence[int]) -> tuple[list[int], list[int]]:
        """The left and right border of each column."""
        lefts, rights, x = [], [], 0
        for column in range(len(self.counts)):
            room = _LANE * max(lanes[column] - 1, 0)
            x += room + (_COLUMN_GAP if column or lanes[column] else 0)
            lefts.append(x)
            x += max(width for (width, _), at in zip(self.sizes, self.column, strict=True) if at == column)
            rights.append(x)
        return lefts, rights


def _spread(edges: Sequence[_Edge], places: Sequence[Place]) -> None:
    """Set the x at which each line comes to its box: a straight one in the middle, others on their sides."""
    at: dict[tuple[int, int], list[_Edge]] = defaultdict(list)
    for edge in edges:
        at[edge.target, edge.into].append(edge)
    for (box, side), found in at.items():
        for n, edge in enumerate(found, 1):
            edge.end = places[box].x + side * (places[box].width // 2) * (len(found) + 1 - n) // (len(found) + 1)


def _lanes_above(edges: Sequence[_Edge], xs: Mapping[_Key, int]) -> dict[tuple[int, int], int]:
    """The y of the lines above all columns, by the box that they leave and its side."""
    spans: dict[tuple[int, int], list[int]] = defaultdict(list)
    for edge in edges:
        if len(edge.channels) > 1:
            spans[edge.source, edge.out] += [xs[edge.key(channel)] for channel in edge.channels]
    return {key: -_ARROW - _LANE * lane for key, lane in _lanes(spans).items()}


def _route(edge: _Edge, places: Sequence[Place], xs: Mapping[_Key, int], above: Mapping[tuple[int, int], int]) -> Route:
    source, target = places[edge.source], places[edge.target]
    if not edge.channels:
        return (source.x, source.bottom), (target.x, target.top)
    start = source.x + edge.out * source.width // 4
    lines = [xs[edge.key(channel)] for channel in edge.channels]
    turns = [(start, edge.low), (lines[0], edge.low)]
    turns += [(x, above[edge.source, edge.out]) for x in lines] if len(lines) > 1 else []
    return (start, source.bottom), *turns, (lines[-1], edge.high), (edge.end, edge.high), (edge.end, target.top)


def _lanes_into(edges: Sequence[_Edge]) -> list[int]:
    """The lane of each line above a box, the nearest first: lines from the left, and lines from the right."""
    counts: dict[int, int] = defaultdict(int)
    lanes = []
    for edge in edges:
        lanes.append(counts[edge.into])
        counts[edge.into] += 1
    return lanes


_AnyKey = TypeVar("_AnyKey", bound=tuple[int, ...])


def _lanes(spans: Mapping[_AnyKey, Sequence[int]]) -> dict[_AnyKey, int]:
    """By line, given by what it spans, its lane: those in one lane do not touch, and short ones are first."""
    taken: list[list[tuple[int, int]]] = []
    lanes = {}
    for length, key in sorted((max(points) - min(points), key) for key, points in spans.items()):
        first = min(spans[key])
        free = (n for n, others in enumerate(taken) if not any(_touch((first, first + length), one) for one in others))
        lanes[key] = next(free, len(taken))
        if lanes[key] == len(taken):
            taken.append([])
        taken[lanes[key]].append((first, first + length))
    return lanes


def _touch(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] + _BETWEEN and other[0] <= one[1] + _BETWEEN
