"""Positions of boxes and routes of edges, by `place`.

Each frame is placed alone, the innermost first, and is then one box of the frame around it. So a change within a frame
moves only what is around it, and equal frames are placed once. An edge between two frames is routed in each frame that
it crosses, from or to a bar along the frame's inner border. Model Explorer places groups in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from workbench.presentation.view.columns import balanced, place_in_columns
from workbench.presentation.view.engines import (
    BoxSize,
    Pairs,
    Place,
    Placement,
    Point,
    Route,
    at_origin,
    longest_paths,
    place_flat,
)
from workbench.presentation.view.wrapping import wrapped

_PADDING, _HEADER = 10, 22  # pixels inside a frame
_LANE = 6  # pixels between two lines from a frame's border to its bar
_MAX_LANES = 12  # further lines share the last lane
_ASPECT = 1.1  # width over height that a picture is wrapped to, about that of a pane
_ROOT = -1
_PORT_GAP = 12  # pixels between the ends of two lines at a bar

Columns = int | tuple[int, ...]  # how many columns; or how many items each has; 0 for layers
NO_COLUMNS: Mapping[int, Columns] = {}


@dataclass(frozen=True)
class Item:
    """An item to place. width, height: in pixels; of a frame 0. frame: the number of the frame around it, or -1."""

    width: int
    height: int
    frame: int = _ROOT
    is_frame: bool = False


@dataclass
class _Frame:
    """The content of a frame: the items directly inside, and the lines between them and from and to outside.

    entries: (item outside, item inside); one line for each. exits: items inside with a line to outside.
    """

    items: list[int] = field(default_factory=list)
    lines: dict[tuple[int, int], None] = field(default_factory=dict)
    entries: dict[tuple[int, int], None] = field(default_factory=dict)
    exits: dict[int, None] = field(default_factory=dict)

    @property
    def sources(self) -> list[int]:
        """The items outside that lines come from."""
        return list(dict.fromkeys(source for source, _ in self.entries))


@dataclass(frozen=True)
class _Crossing:
    """How an edge runs: out of the frames `left`, along `line` in the frame `common`, into the frames `entered`."""

    left: tuple[int, ...]
    common: int
    line: tuple[int, int]
    entered: tuple[int, ...]

    def exits(self, source: int) -> list[tuple[int, int]]:
        """Each frame that the edge leaves, with the item inside it that the line comes from."""
        return list(zip(self.left, (source, *self.left), strict=False))

    def entries(self, target: int) -> list[tuple[int, int]]:
        """Each frame that the edge enters, with the item inside it that the line goes to."""
        return list(zip(self.entered, (*self.entered[1:], target), strict=False))


@dataclass(frozen=True)
class _Placed:
    """A placed frame, in its own coordinates: its items and both bars, and the routes by `_Frame`'s keys."""

    placement: Placement
    entries: Mapping[tuple[int, int], Route]
    exits: Mapping[int, Route]
    lines: Mapping[tuple[int, int], Route]


def place(items: Sequence[Item], edges: Pairs, columns: Mapping[int, Columns] = NO_COLUMNS) -> Placement:
    """Place items from top to bottom along the edges, which are pairs of item numbers. Raises PlacementError.

    A frame comes before the items inside it. columns: of a frame whose items are in columns, or of -1, the picture.
    """
    if not items:
        return Placement((), (), 0, 0, "none")
    around = [_frames_around(items, i) for i in range(len(items))]
    crossings = [_crossing_of(around, a, b) for a, b in edges]
    frames = _frames(items, crossings, edges)
    placed: dict[int, _Placed] = {}
    sizes = {i: (item.width or 1, item.height or 1) for i, item in enumerate(items)}
    for number in [i for i in reversed(range(len(items))) if items[i].is_frame] + [_ROOT]:
        placed[number] = _place_frame(frames[number], sizes, columns.get(number, 0))
        if number != _ROOT:
            sizes[number] = _outer_size(frames[number], placed[number].placement)
    corners = {_ROOT: (0, 0)}
    places: list[Place] = []
    inside = {
        i: p for n, frame in frames.items() for i, p in zip(frame.items, placed[n].placement.places, strict=False)
    }
    for i, item in enumerate(items):
        left, top = corners[item.frame]
        places.append(replace(inside[i], x=inside[i].x + left, y=inside[i].y + top))
        if item.is_frame:
            above = _HEADER + _lanes_height(len(frames[i].sources))
            corners[i] = (places[i].left + _PADDING, places[i].top + above)
    routes = [
        _route(edge, crossing, frames, placed, places, corners) for edge, crossing in zip(edges, crossings, strict=True)
    ]
    return at_origin(places, routes, placed[_ROOT].placement.engine, margin=10)


# ---- which line is in which frame -------------------------------------------------------


def _frames_around(items: Sequence[Item], i: int) -> tuple[int, ...]:
    """The frames around an item, the outermost first, and the item itself."""
    chain = [i]
    while (frame := items[chain[0]].frame) >= 0:
        chain.insert(0, frame)
    return tuple(chain)


def _crossing_of(around: Sequence[tuple[int, ...]], a: int, b: int) -> _Crossing:
    first, second = around[a], around[b]
    shared = 0
    while shared < min(len(first), len(second)) - 1 and first[shared] == second[shared]:
        shared += 1
    common = first[shared - 1] if shared else _ROOT
    return _Crossing(first[shared:-1][::-1], common, (first[shared], second[shared]), second[shared:-1])


def _frames(items: Sequence[Item], crossings: Sequence[_Crossing], edges: Pairs) -> dict[int, _Frame]:
    """The content of each frame, and of the picture under -1."""
    frames = {_ROOT: _Frame()} | {i: _Frame() for i, item in enumerate(items) if item.is_frame}
    for i, item in enumerate(items):
        frames[item.frame].items.append(i)
    for crossing, (a, b) in zip(crossings, edges, strict=True):
        outer, _ = crossing.line
        frames[crossing.common].lines[crossing.line] = None
        for frame, source in crossing.exits(a):
            frames[frame].exits[source] = None
        for frame, target in crossing.entries(b):
            frames[frame].entries[outer, target] = None
    return frames


# ---- one frame --------------------------------------------------------------------------


def _place_frame(frame: _Frame, sizes: Mapping[int, BoxSize], columns: Columns) -> _Placed:
    """Place the items of a frame, with a bar above them where lines come in, and one below where lines go out."""
    number = {item: n for n, item in enumerate(frame.items)}
    lines = [(number[a], number[b]) for a, b in frame.lines]
    above, below = len(number), len(number) + 1
    entering = [(above, number[item]) for _, item in frame.entries]
    leaving = [(number[item], below) for item in frame.exits]
    boxes, order = [sizes[item] for item in frame.items], list[tuple[int, int]]()
    if entering or leaving:
        boxes += [(_PORT_GAP * max(len(entering), 1), 1), (_PORT_GAP * max(len(leaving), 1), 1)]
        order = _order(lines, len(number), entering, above)
        order += _reversed(_order(_reversed(lines), len(number), _reversed(leaving), below))
    edges = (*lines, *entering, *leaving)
    if columns and (isinstance(columns, int) or sum(columns) == len(number)):
        placement = _placed_in_columns(tuple(boxes), edges, columns, len(number))
    else:
        placement = _placed_alone(tuple(boxes), (*edges, *order))
    routes = iter(placement.routes)
    return _Placed(
        placement,
        lines={line: next(routes) for line in frame.lines},
        entries={entry: next(routes) for entry in frame.entries},
        exits={item: next(routes) for item in frame.exits},
    )


def _reversed(edges: Pairs) -> list[tuple[int, int]]:
    return [(b, a) for a, b in edges]


def _order(lines: Pairs, items: int, entering: Pairs, bar: int) -> list[tuple[int, int]]:
    """Edges that keep a bar above all items: to each that no line reaches, if a longer path begins there."""
    longest = longest_paths(_reversed(lines))
    from_bar = max((longest.get(n, 0) for _, n in entering), default=-1)
    reached = {b for _, b in (*lines, *entering)}
    return [(bar, n) for n in range(items) if n not in reached and longest.get(n, 0) >= max(from_bar, 0)]


@lru_cache(maxsize=4096)
def _placed_alone(sizes: tuple[BoxSize, ...], edges: tuple[tuple[int, int], ...]) -> Placement:
    return wrapped(place_flat(sizes, edges), _ASPECT)


@lru_cache(maxsize=1024)
def _placed_in_columns(sizes: tuple[BoxSize, ...], edges: Pairs, columns: Columns, items: int) -> Placement:
    """Boxes in columns. items: how many of the boxes are items; the others are the bars above and below these."""
    order = _reading_order(items, [edge for edge in edges if max(edge) < items])
    bars = len(sizes) > items
    order = [items, *order, items + 1] if bars else order
    rank = {box: position for position, box in enumerate(order)}
    ordered, lines = [sizes[box] for box in order], [(rank[a], rank[b]) for a, b in edges]
    if isinstance(columns, int):
        columns = balanced(ordered, lines, columns)
    elif bars:
        columns = tuple(n + (i == 0) + (i == len(columns) - 1) for i, n in enumerate(columns))
    found = place_in_columns(ordered, lines, columns)
    return replace(found, places=tuple(found.places[rank[box]] for box in range(len(sizes))))


def _reading_order(items: int, lines: Pairs) -> list[int]:
    """The items as they are read: behind what they read, else in their order; inputs before their first readers."""
    reads: dict[int, set[int]] = {item: set() for item in range(items)}
    for a, b in lines:
        reads[b].add(a)
    sources = {a for a, _ in lines if not reads[a]}
    left = [item for item in range(items) if item not in sources]
    order: dict[int, None] = {}
    while left:
        ready = (item for item in left if reads[item] <= sources | order.keys())
        item = next(ready, left[0])  # of a cycle, the first one
        left.remove(item)
        order |= dict.fromkeys(sorted(reads[item] & sources - order.keys()))
        order[item] = None
    return list(order)


def _lanes_height(lines: int) -> int:
    return _PADDING + _LANE * min(lines, _MAX_LANES)


def _outer_size(frame: _Frame, placement: Placement) -> BoxSize:
    height = _HEADER + _lanes_height(len(frame.sources)) + placement.height + _lanes_height(len(frame.exits))
    return placement.width + 2 * _PADDING, height


# ---- the route of an edge ----------------------------------------------------------------


def _route(
    edge: tuple[int, int],
    crossing: _Crossing,
    frames: Mapping[int, _Frame],
    placed: Mapping[int, _Placed],
    places: Sequence[Place],
    corners: Mapping[int, Point],
) -> Route:
    """The parts of an edge's line, joined by horizontal lines between the crossed frames' borders and their bars."""
    outer = crossing.line[0]
    leaving, entering = crossing.exits(edge[0]), crossing.entries(edge[1])
    parts = [_moved(placed[frame].exits[item], corners[frame]) for frame, item in leaving]
    parts.append(_moved(placed[crossing.common].lines[crossing.line], corners[crossing.common]))
    parts += [_moved(placed[frame].entries[outer, item], corners[frame]) for frame, item in entering]
    heights = [
        places[frame].bottom - _PADDING // 2 - _LANE * _lane(list(frames[frame].exits), item) for frame, item in leaving
    ]
    heights += [
        places[frame].top + _HEADER + _PADDING // 2 + _LANE * _lane(frames[frame].sources, outer)
        for frame, _ in entering
    ]
    points = list(parts[0])
    for height, part in zip(heights, parts[1:], strict=True):
        points += [(points[-1][0], height), (part[0][0], height), *part]
    return _without_straight_corners(points)


def _moved(route: Route, corner: Point) -> Route:
    return tuple((x + corner[0], y + corner[1]) for x, y in route)


def _lane(items: Sequence[int], item: int) -> int:
    return min(items.index(item), _MAX_LANES - 1)


def _without_straight_corners(points: Sequence[Point]) -> Route:
    """The points without repeated ones and without those in the middle of a horizontal or vertical line."""
    corners: list[Point] = []
    for point in points:
        if corners and corners[-1] == point:
            continue
        if len(corners) > 1 and any(corners[-2][axis] == corners[-1][axis] == point[axis] for axis in (0, 1)):
            corners.pop()
        corners.append(point)
    return tuple(corners)
