"""Shortcuts of edges: an edge runs straight down while the boxes around which it is routed do not exist.

All nodes of a history are placed at once. An edge that exists only after a BatchNormalization was folded is routed
around that node's position.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from workbench.presentation.view.boxes import Box
from workbench.presentation.view.engines import Place

_CLEARANCE = 6  # pixels between a line and a box


class FreeLines:
    """Finds vertical lines that no box blocks in an interval of moments."""

    def __init__(self, boxes: Sequence[Box], places: Sequence[Place]) -> None:
        placed = [i for i, box in enumerate(boxes) if not (box.is_open or box.is_chip)]
        self._order = sorted(placed, key=lambda i: places[i].y)
        self._heights = [places[i].y for i in self._order]
        self._tallest = max((places[i].height for i in placed), default=0)
        self._boxes, self._places = boxes, places

    def x_between(self, source: int, target: int, born: int, dies: int) -> int | None:
        """The x of a vertical line between two boxes that is free from `born` until `dies`; None if there is none."""
        a, b = self._places[source], self._places[target]
        left = max(a.x - a.width // 2, b.x - b.width // 2) + _CLEARANCE
        right = min(a.x + a.width // 2, b.x + b.width // 2) - _CLEARANCE
        top, bottom = a.y + a.height // 2, b.y - b.height // 2
        if left > right or top >= bottom:
            return None
        x = min(max((a.x + b.x) // 2, left), right)
        is_blocked = any(self._blocks(i, x, top, bottom, born, dies) for i in self._between(top, bottom))
        return None if is_blocked else x

    def _between(self, top: int, bottom: int) -> Sequence[int]:
        first = bisect_left(self._heights, top - self._tallest)
        return self._order[first : bisect_left(self._heights, bottom + self._tallest)]

    def _blocks(self, i: int, x: int, top: int, bottom: int, born: int, dies: int) -> bool:
        place = self._places[i]
        if place.y + place.height / 2 <= top or place.y - place.height / 2 >= bottom:
            return False
        if abs(place.x - x) >= place.width / 2 + _CLEARANCE:
            return False
        return any(first < dies and born < last for first, last, _ in self._boxes[i].alive)
