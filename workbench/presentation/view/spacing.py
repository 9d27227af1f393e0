"""Inserts vertical space into a laid out picture where an edge is too short for the chips on it."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from workbench.presentation.view.engines import Place, Route


@dataclass(frozen=True)
class MinGap:
    """At least `pixels` between the lower border of box `start` and the upper border of box `end`."""

    start: int
    end: int
    pixels: int


@dataclass(frozen=True)
class Stretched:
    """Boxes' places and the routes between them, by box number; the picture is `height` pixels higher than before."""

    places: dict[int, Place]
    routes: dict[tuple[int, int], Route]
    height: int


class _InsertedRows:
    """Horizontal lines at which pixels are inserted; everything that begins at or below a line moves down."""

    def __init__(self) -> None:
        self._at: list[tuple[int, int]] = []
        self._sums: list[int] = [0]

    def insert(self, y: int, pixels: int) -> None:
        insort(self._at, (y, pixels))
        self._sums = [0]
        for _, more in self._at:
            self._sums.append(self._sums[-1] + more)

    def moved(self, y: int) -> int:
        return y + self._sums[bisect_right(self._at, (y, 1 << 60))]

    @property
    def total(self) -> int:
        return self._sums[-1]


def with_min_gaps(
    places: Mapping[int, Place],
    routes: Mapping[tuple[int, int], Route],
    group_boxes: Collection[int],
    min_gaps: Iterable[MinGap],
) -> Stretched:
    """The picture with at least these gaps. group_boxes: boxes that grow with their content; others only move."""
    inserted = _InsertedRows()
    for gap in sorted(min_gaps, key=lambda gap: _top(places[gap.end])):
        top = _top(places[gap.end])
        missing = gap.pixels - (inserted.moved(top) - _bottom_after(places[gap.start], inserted))
        # If the end is above the start, `gap.pixels` or more are missing; such a back edge needs no space.
        if 0 < missing < gap.pixels:
            inserted.insert(top, missing)
    if not inserted.total:
        return Stretched(dict(places), dict(routes), 0)
    new_places = {
        i: _grown(place, inserted) if i in group_boxes else _moved_down(place, inserted) for i, place in places.items()
    }
    return Stretched(
        new_places, {pair: _along(route, pair, new_places, inserted) for pair, route in routes.items()}, inserted.total
    )


def _top(place: Place) -> int:
    return place.y - place.height // 2


def _bottom_after(place: Place, inserted: _InsertedRows) -> int:
    return inserted.moved(_top(place)) + place.height


def _moved_down(place: Place, inserted: _InsertedRows) -> Place:
    return replace(place, y=place.y + inserted.moved(_top(place)) - _top(place))


def _grown(box: Place, inserted: _InsertedRows) -> Place:
    top, bottom = inserted.moved(_top(box)), inserted.moved(_top(box) + box.height)
    return replace(box, y=(top + bottom) // 2, height=bottom - top)


def _along(route: Route, pair: tuple[int, int], places: Mapping[int, Place], inserted: _InsertedRows) -> Route:
    """The route after space was inserted, from the lower border of its first box to the upper border of its second."""
    if len(route) < 2:
        return route
    a, b = (places.get(number) for number in pair)
    first, *corners, last = ((x, inserted.moved(y)) for x, y in route)
    if a is not None and b is not None:
        first, last = (first[0], _top(a) + a.height), (last[0], _top(b))
    return (first, *corners, last)
