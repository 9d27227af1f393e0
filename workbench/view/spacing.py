"""Room for nodes that exist only within a step: a placed picture is stretched where a line is too short for them."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from workbench.view.placement import Place, Route


@dataclass(frozen=True)
class Need:
    """At least `pixels` between the lower border of box `start` and the upper border of box `end`."""

    start: int
    end: int
    pixels: int


@dataclass(frozen=True)
class Stretched:
    """Places of boxes and routes between them, by their numbers, with `height` pixels more in all."""

    places: dict[int, Place]
    routes: dict[tuple[int, int], Route]
    height: int


class _Cuts:
    """Horizontal lines at which pixels are inserted: all that begins at or below a line moves down."""

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


def stretched(
    places: Mapping[int, Place],
    routes: Mapping[tuple[int, int], Route],
    frames: Collection[int],
    needs: Iterable[Need],
) -> Stretched:
    """The picture with as much room as is needed. frames: boxes that grow with what is in them; others only move."""
    cuts = _Cuts()
    for need in sorted(needs, key=lambda need: _top(places[need.end])):
        top = _top(places[need.end])
        lacking = need.pixels - (cuts.moved(top) - _bottom_after(places[need.start], cuts))
        if 0 < lacking < need.pixels:  # not where the line goes up, back to what is above
            cuts.insert(top, lacking)
    if not cuts.total:
        return Stretched(dict(places), dict(routes), 0)
    moved = {i: _grown(place, cuts) if i in frames else _lower(place, cuts) for i, place in places.items()}
    return Stretched(moved, {pair: _along(route, pair, moved, cuts) for pair, route in routes.items()}, cuts.total)


def _top(place: Place) -> int:
    return place.y - place.height // 2


def _bottom_after(place: Place, cuts: _Cuts) -> int:
    return cuts.moved(_top(place)) + place.height


def _lower(place: Place, cuts: _Cuts) -> Place:
    return replace(place, y=place.y + cuts.moved(_top(place)) - _top(place))


def _grown(frame: Place, cuts: _Cuts) -> Place:
    top, bottom = cuts.moved(_top(frame)), cuts.moved(_top(frame) + frame.height)
    return replace(frame, y=(top + bottom) // 2, height=bottom - top)


def _along(route: Route, pair: tuple[int, int], places: Mapping[int, Place], cuts: _Cuts) -> Route:
    """The route from border to border as they lie now."""
    if len(route) < 2:
        return route
    a, b = (places.get(number) for number in pair)
    first, *corners, last = ((x, cuts.moved(y)) for x, y in route)
    if a is not None and b is not None:
        first, last = (first[0], _top(a) + a.height), (last[0], _top(b))
    return (first, *corners, last)
