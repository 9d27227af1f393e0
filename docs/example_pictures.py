"""An example's graph before and after as pictures for a page of the site: SVG, placed as the app places a graph."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

FILLS = ("palegoldenrod", "peachpuff", "lightgrey")  # the model's own layout, the target's, none; else white
REMOVED, ADDED, CHANGED = "#c0392b", "#1e8449", "#b9770e"
DASHES = {REMOVED: ' stroke-dasharray="5 3"'}
SIGNS = {REMOVED: "−", ADDED: "+", CHANGED: "~"}
INK, LINE = "#1b1b1b", "#808080"
STYLE = "display: flex; flex-wrap: wrap; gap: 2rem; align-items: flex-start"
_LABEL = 5.6  # pixels of a character beside an edge


def pictures(before: str, after: str, target: str) -> str:
    """Both graphs side by side, as one block of HTML. before, after: in ONNX's textual syntax."""
    from workbench.ir import from_text, node_line

    graphs = [from_text(text) for text in (before, after)]
    first, last = ({node.name: node_line(node) for node in graph.nodes} for graph in graphs)
    gone = {name: REMOVED if name not in last else CHANGED for name in first if first[name] != last.get(name)}
    new = {name: ADDED if name not in first else CHANGED for name in last if last[name] != first.get(name)}
    drawings = [
        f"<figure><figcaption>{title}</figcaption>{picture(graph, target, marks, title)}</figure>"
        for graph, marks, title in zip(graphs, (gone, new), ("before", "after"), strict=True)
    ]
    return f'<div style="{STYLE}">{"".join(drawings)}</div>'


def picture(graph: Any, target: str, marks: Mapping[str, str], title: str) -> str:
    """The graph as SVG. marks: colours of frames, by node."""
    from workbench.pipeline.running import start
    from workbench.planning.layout.profile import load_profile
    from workbench.presentation.view.scene import View
    from workbench.presentation.view.timeline import timeline_of

    profile = load_profile(target)
    view = View(timeline_of(start(graph, profile), profile), title, profile.layout, constants=True, is_flat=True)
    scene = view.scene()
    parts = [*_edges(scene), *(part for box in scene["boxes"] for part in _box(box, scene["looks"], marks))]
    left, right = _extent(scene)
    width = right - left
    size = f'width="{width:.0f}" viewBox="{left:.0f} 0 {width:.0f} {scene["height"]:.0f}"'
    about = f"the graph {title}: {len(graph.nodes)} nodes"
    style = "max-width: 100%; height: auto; font-family: sans-serif"
    return f'<svg {size} role="img" aria-label="{about}" style="{style}">{"".join(parts)}</svg>'


def _box(box: Mapping[str, Any], looks: list[Mapping[str, Any]], marks: Mapping[str, str]) -> Iterator[str]:
    look = looks[box["v"][0][2]]
    colour = marks.get(box["id"], "")
    fill = FILLS[look["l"]] if look["l"] >= 0 else "white"
    left, top = box["x"] - box["w"] / 2, box["y"] - box["h"] / 2
    radius = 4 if box["kind"] == "node" else box["h"] / 2
    frame = f'stroke="{colour or LINE}" stroke-width="{2.5 if colour else 1}"{DASHES.get(colour, "")}'
    place = f'x="{left:.0f}" y="{top:.0f}" width="{box["w"]:.0f}" height="{box["h"]:.0f}" rx="{radius:.0f}"'
    yield f'<rect {place} fill="{fill}" {frame}/>'
    op, name = look["op"], look["name"]  # the name of a node mostly begins with its operator
    words = ("", name) if name.startswith(f"{op}_") else (name, op)
    head = f'<tspan font-weight="700">{escape(words[1])}</tspan> {escape(words[0])}'.rstrip()
    sign = f'<tspan font-weight="700" fill="{colour}">{SIGNS[colour]} </tspan>' if colour else ""
    yield _text(box["x"], box["y"] - 4 if look["d"] else box["y"] + 4, f"{sign}{head}", 12, INK, "middle")
    if look["d"]:
        yield _text(box["x"], box["y"] + 12, escape(look["d"]), 11, INK, "middle")


def _edges(scene: Mapping[str, Any]) -> Iterator[str]:
    for edge, points in _routes(scene):
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{LINE}"/>'
        (x0, y0), (x, y) = points[-2:]
        if abs(y - y0) >= abs(x - x0):  # the head of the arrow
            back = -6 if y >= y0 else 6
            yield f'<path d="M{x:.0f} {y:.0f} l-3.5 {back} h7 z" fill="{LINE}"/>'
        word = edge["v"][0][2]
        if word >= 0:
            (left, top), (_, below) = points[0], points[min(1, len(points) - 1)]
            yield _text(
                left + 5, (top + max(below, top + 20)) / 2 + 4, escape(scene["words"][word]), 10, "gray", "start"
            )


def _routes(scene: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], list[tuple[float, float]]]]:
    """Each edge with the points of its line, of which no two that follow are the same."""
    for edge in scene["edges"]:
        numbers = edge.get("p") or _straight(scene["boxes"][edge["a"]], scene["boxes"][edge["b"]])
        points = list(dict.fromkeys(zip(numbers[::2], numbers[1::2], strict=True)))
        if len(points) > 1:
            yield edge, points


def _straight(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[float]:
    """From the side of one box to that of the other."""
    way = 1 if b["x"] >= a["x"] else -1
    return [a["x"] + way * a["w"] / 2, a["y"], b["x"] - way * b["w"] / 2, b["y"]]


def _extent(scene: Mapping[str, Any]) -> tuple[float, float]:
    """How far boxes, lines and labels reach to the left and to the right."""
    ends = [box["x"] + side * box["w"] / 2 for box in scene["boxes"] for side in (-1, 1)]
    for edge, points in _routes(scene):
        ends += [x for x, _ in points]
        word = edge["v"][0][2]
        if word >= 0:
            ends.append(points[0][0] + 5 + _LABEL * len(scene["words"][word]))
    return min(ends, default=0.0) - 3, max(ends, default=0.0) + 3


def _text(x: float, y: float, inner: str, size: int, colour: str, anchor: str) -> str:
    place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" fill="{colour}">{inner}</text>'
