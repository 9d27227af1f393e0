"""The small picture of a lesson in the list of lessons, as SVG: a part of its own graph, or its drawing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from workbench.interfaces.lessons.lesson import Lesson
from workbench.interfaces.lessons.lesson_view import lesson_view
from workbench.interfaces.lessons.playing import PlayedStop, shown_in_list
from workbench.planning.layout.profile import load_profile

_WIDTH, _HEIGHT = 220, 124  # pixels of the picture
_SCALES = 0.45, 0.8  # the least and the most pixels of the picture for one of the graph
_LETTERS, _LETTER = 12.0, 0.66  # pixels of a box's text in the picture; width of a letter, as a share of its height
# By kind of layout, as `theme.js` has them: the model's own, the target's, Tensor.
_LIGHT = (("#EEE8AA", "#8C8440"), ("#FFDAB9", "#B06F3A"), ("#D3D3D3", "#6E6E6E"))
_DARK = (("#6A6328", "#B5AB58"), ("#80502F", "#CF905F"), ("#4B4D50", "#9A9DA1"))
_Box = Mapping[str, Any]


def list_picture(lesson: Lesson) -> str:
    """The picture of the stop that stands for the lesson. Raises LessonError."""
    played = shown_in_list(lesson)
    return played.picture.svg if played.picture is not None else _graph_picture(played)


def _graph_picture(played: PlayedStop) -> str:
    """The graph after the stop's change, around what the stop shows."""
    view = lesson_view(played, load_profile(played.stop.pipeline.profile))
    view.show(played)
    scene, moment = view.scene(), view.moments[1]
    boxes = [box for box in scene["boxes"] if _version(box, moment) and not box.get("open")]
    names = {played.stop.node, *played.stop.frame}
    middle = [box for box in boxes if box["id"] in names] or boxes
    scale = min(max(min(_WIDTH / scene["width"], _HEIGHT / scene["height"]), _SCALES[0]), _SCALES[1])
    part = _Part(
        _start([box["x"] for box in middle], scene["width"], _WIDTH / scale),
        _start([box["y"] for box in middle], scene["height"], _HEIGHT / scale),
        _WIDTH / scale,
        _HEIGHT / scale,
    )
    whole = [box for box in boxes if part.holds(box)]  # a line that leaves the picture says that more follows
    texts = "d" if played.has_equations else "op"
    letters = _LETTERS / scale
    shapes = [
        *_lines(scene, moment),
        *(shape for box in whole for shape in _shapes(scene, box, moment, texts, letters)),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="{part.left:.0f} {part.top:.0f} {part.width:.0f} {part.height:.0f}">'
        f"<style>{_style()}</style>{''.join(shapes)}</svg>"
    )


@dataclass(frozen=True)
class _Part:
    """The part of a scene that is shown."""

    left: float
    top: float
    width: float
    height: float

    def holds(self, box: _Box) -> bool:
        across, down = abs(box["x"] - self.left - self.width / 2), abs(box["y"] - self.top - self.height / 2)
        return bool(across + box["w"] / 2 < self.width / 2 and down + box["h"] / 2 < self.height / 2)


def _style() -> str:
    font = "text {font-family: sans-serif; font-weight: 700; text-anchor: middle; fill: #1b1b1b}"
    edge = "path {fill: none; stroke: #888888; stroke-width: 2.5}"
    light, dark = (
        " ".join(f".k{kind} {{fill: {fill}; stroke: {border}}}" for kind, (fill, border) in enumerate(colours))
        for colours in (_LIGHT, _DARK)
    )
    return f"{font} {edge} {light} @media (prefers-color-scheme: dark) {{text {{fill: #f6f6f6}} {dark}}}"


def _start(middles: list[float], whole: float, shown: float) -> float:
    """The border of the part that is shown: around these places, and inside the whole where that is larger."""
    start = (min(middles) + max(middles)) / 2 - shown / 2
    return (whole - shown) / 2 if whole < shown else min(max(start, 0.0), whole - shown)


def _version(entry: Mapping[str, Any], moment: int) -> Any:
    """The form of a box or an edge at the moment; None if it does not exist then."""
    return next((version for version in entry["v"] if version[0] <= moment < version[1]), None)


def _shapes(scene: Mapping[str, Any], box: _Box, moment: int, texts: str, most: float) -> Iterator[str]:
    """A box and its text: the entry `texts` of its look, or the name of an input or output.

    most: the height of its letters, in pixels of the graph, unless the box is too small.
    """
    look = scene["looks"][_version(box, moment)[2]]
    left, top, width, height = box["x"] - box["w"] / 2, box["y"] - box["h"] / 2, box["w"], box["h"]
    radius = height / 2 if box["kind"] in ("input", "output") else 3
    kind = max(look["l"], 0)
    yield f'<rect class="k{kind}" x="{left:.0f}" y="{top:.0f}" width="{width}" height="{height}" rx="{radius:.0f}"/>'
    words = look[texts if box["kind"] == "node" else "name"]
    letters = min(most, height - 3, (width - 8) / max(len(words), 1) / _LETTER)
    place = f'x="{box["x"]:.0f}" y="{box["y"] + letters * 0.36:.0f}" font-size="{letters:.1f}"'
    yield f"<text {place}>{escape(words)}</text>"


def _lines(scene: Mapping[str, Any], moment: int) -> Iterator[str]:
    boxes = scene["boxes"]
    for edge in scene["edges"]:
        version = _version(edge, moment)
        if version is None or edge.get("tick"):
            continue
        source, target = boxes[edge["a"]], boxes[edge["b"]]
        ends = source["y"] + source["h"] / 2, target["y"] - target["h"] / 2
        numbers = edge.get("p") or (source["x"], ends[0], target["x"], ends[1])
        _, _, _, _, _, *straight = version
        for x in straight:  # there is a free straight line
            numbers = (x, ends[0], x, ends[1])
        points = " ".join(f"{number:.0f}" for number in numbers)
        yield f'<path d="M{points}"/>'
