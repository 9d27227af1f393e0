"""The scene of a stop, without the empty height that only other moments need.

The union of a history has room for the boxes of all its moments. A stop shows two of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

_MIN_GAP, _MAX_GAP = 19, 44  # pixels left between two boxes: at least for an arrow, and a label of 11 pixels
_HEIGHT = 450  # pixels of a pane on a small screen, which the gaps fill
_HEADER, _PADDING = 22, 10  # pixels of a frame above and below what is inside

_Band = tuple[float, float]  # an upper and a lower border


def tightened(scene: Mapping[str, Any], moments: Collection[int]) -> dict[str, Any]:
    """The scene with `_MIN_GAP` to `_MAX_GAP` pixels of height between boxes that exist at one of these moments.

    Boxes keep their order and their x; those that exist at other moments only may overlap others.
    """
    boxes = scene["boxes"]
    shown = [box for box in boxes if any(born <= t < dies for born, dies, *_ in box["v"] for t in moments)]
    bands = _merged(band for box in shown for band in _bands(box))
    if not bands:
        return dict(scene)
    moved = _Moved(bands, scene["height"])
    return {
        **scene,
        "height": round(moved(scene["height"])),
        "boxes": [_moved_box(box, moved) for box in boxes],
        "edges": [_moved_edge(edge, moved) for edge in scene["edges"]],
    }


def _bands(box: Mapping[str, Any]) -> Iterable[_Band]:
    """The heights that the box needs: its own, or of a frame its title and its lower border."""
    top, bottom = _borders(box)
    return [(top, top + _HEADER), (bottom - _PADDING, bottom)] if box.get("open") else [(top, bottom)]


def _borders(box: Mapping[str, Any]) -> _Band:
    return box["y"] - box["h"] / 2, box["y"] + box["h"] / 2


def _merged(bands: Iterable[_Band]) -> list[_Band]:
    merged: list[_Band] = []
    for top, bottom in sorted(bands):
        if merged and top <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], bottom))
        else:
            merged.append((top, bottom))
    return merged


class _Moved:
    """Maps a y of the scene to its new one: linear between the borders of the bands, which keep their heights."""

    def __init__(self, bands: Sequence[_Band], height: float) -> None:
        before = [0.0, *(border for band in bands for border in band), height]
        gap = (_HEIGHT - sum(bottom - top for top, bottom in bands)) / len(bands)
        gap = min(max(gap, _MIN_GAP), _MAX_GAP)
        self._before, self._after = before, [0.0]
        for number, (start, end) in enumerate(pairwise(before)):
            is_gap = number % 2 == 0
            self._after.append(self._after[-1] + (min(end - start, gap) if is_gap else end - start))

    def __call__(self, y: float) -> float:
        number = min(max(bisect_right(self._before, y) - 1, 0), len(self._before) - 2)
        start, end = self._before[number : number + 2]
        share = (y - start) / (end - start) if end > start else 0.0
        return self._after[number] + share * (self._after[number + 1] - self._after[number])


def _moved_box(box: Mapping[str, Any], moved: _Moved) -> dict[str, Any]:
    if not box.get("open"):
        return {**box, "y": round(moved(box["y"]), 1)}
    top, bottom = map(moved, _borders(box))
    return {**box, "y": round((top + bottom) / 2, 1), "h": round(bottom - top, 1)}


def _moved_edge(edge: Mapping[str, Any], moved: _Moved) -> dict[str, Any]:
    points = edge.get("p")
    if not points:
        return dict(edge)
    return {**edge, "p": [value if number % 2 == 0 else round(moved(value), 1) for number, value in enumerate(points)]}
