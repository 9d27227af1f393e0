"""Shortcuts of edges: while the boxes around which an edge is routed are absent, it runs straight down.

All nodes of a history are placed at once, so an edge that exists only after a
BatchNormalization was folded is routed around the position of that node.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from workbench.view.boxes import Box
from workbench.view.placement import Place

_CLEAR = 6  # pixels that a line keeps from a box


class Gaps:
    """Finds whether a vertical line meets a box that exists at the same time."""

    def __init__(self, boxes: Sequence[Box], places: Sequence[Place]) -> None:
        standing = [i for i, box in enumerate(boxes) if not (box.is_open or box.is_chip)]
        self._order = sorted(standing, key=lambda i: places[i].y)
        self._heights = [places[i].y for i in self._order]
        self._tallest = max((places[i].height for i in standing), default=0)
        self._boxes, self._places = boxes, places

    def straight(self, source: int, target: int, born: int, dies: int) -> int | None:
        """The x of a free vertical line between two boxes for the moments `born` to `dies`; None if there is none."""
        a, b = self._places[source], self._places[target]
        left = max(a.x - a.width // 2, b.x - b.width // 2) + _CLEAR
        right = min(a.x + a.width // 2, b.x + b.width // 2) - _CLEAR
        top, bottom = a.y + a.height // 2, b.y - b.height // 2
        if left > right or top >= bottom:
            return None
        x = min(max((a.x + b.x) // 2, left), right)
        met = any(self._stands_at(i, x, top, bottom, born, dies) for i in self._between(top, bottom))
        return None if met else x

    def _between(self, top: int, bottom: int) -> Sequence[int]:
        first = bisect_left(self._heights, top - self._tallest)
        return self._order[first : bisect_left(self._heights, bottom + self._tallest)]

    def _stands_at(self, i: int, x: int, top: int, bottom: int, born: int, dies: int) -> bool:
        place = self._places[i]
        if place.y + place.height / 2 <= top or place.y - place.height / 2 >= bottom:
            return False
        if abs(place.x - x) >= place.width / 2 + _CLEAR:
            return False
        return any(first < dies and born < last for first, last, _ in self._boxes[i].alive)
