"""Positions of boxes and routes of edges. Everything that is placed goes through `place`.

graphlay (layered, orthogonal routes, groups as frames) for pictures that are
read; fast-sugiyama for large flat ones and for fans of many edges, whose edges
are drawn straight; each if the other fails.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_ROUTED = 900  # boxes; more are placed by the faster engine, without routes
MOST_AT_ONE = 120  # edges of one box; routing takes 0.3 s for so many side by side, and 4.6 s for 200
_BENDS_PER_EDGE = 8  # on average, one for each layer that an edge crosses
_NODE_GAP, _LAYER_GAP, _PADDING, _HEADER = 24, 40, 10, 22  # pixels

Route = tuple[tuple[int, int], ...]
Pairs = Sequence[tuple[int, int]]


class PlacementError(RuntimeError):
    """An engine could not place the graph."""


@dataclass(frozen=True)
class Item:
    """An item to place: its size in pixels (none for a frame), and the number of the frame that holds it, or -1."""

    width: int
    height: int
    frame: int = -1
    is_frame: bool = False


@dataclass(frozen=True)
class Place:
    """Centre and size in pixels, y downwards."""

    x: int
    y: int
    width: int
    height: int


_Arranged = tuple[list[Place], list[Route]]


@dataclass(frozen=True)
class Placement:
    """The position of each item, and the corners of each edge's line (none if straight). Coordinates begin at 0."""

    places: tuple[Place, ...]
    routes: tuple[Route, ...]
    width: int
    height: int
    engine: str


def place(items: Sequence[Item], edges: Pairs) -> Placement:
    """Place `items`, from the top to the bottom along `edges` (pairs of numbers of items). Raises PlacementError."""
    if not items:
        return Placement((), (), 0, 0, "none")
    busiest = max(Counter(end for edge in edges for end in edge).values(), default=0)
    routed = len(items) <= MOST_ROUTED and busiest <= MOST_AT_ONE
    engines = [_graphlay, _sugiyama] if routed else [_sugiyama, _graphlay]
    failures = []
    for engine in engines:
        try:
            places, routes = engine(items, edges)
        except PlacementError as error:
            failures.append(str(error))
            continue
        return _at_origin(places, routes, engine.__name__.lstrip("_"))
    raise PlacementError(f"no engine placed the graph: {'; '.join(failures)}")


def _at_origin(places: list[Place], routes: list[Route], engine: str) -> Placement:
    margin = 10
    points = [point for route in routes for point in route]
    left = min([p.x - p.width // 2 for p in places] + [x for x, _ in points]) - margin
    top = min([p.y - p.height // 2 for p in places] + [y for _, y in points]) - margin
    moved = [Place(p.x - left, p.y - top, p.width, p.height) for p in places]
    lines = [tuple((x - left, y - top) for x, y in route) for route in routes]
    width = max([p.x + p.width // 2 for p in moved] + [x for route in lines for x, _ in route]) + margin
    height = max([p.y + p.height // 2 for p in moved] + [y for route in lines for _, y in route]) + margin
    return Placement(tuple(moved), tuple(lines), width, height, engine)


def _graphlay(items: Sequence[Item], edges: Pairs) -> _Arranged:
    import graphlay

    graph = graphlay.Graph()
    for item in items:
        inside: dict[str, Any] = {} if item.frame < 0 else {"parent": item.frame}
        graph.node(width=float(item.width or 1), height=float(item.height or 1), **inside)  # frames grow
    for source, target in edges:
        graph.edge(source, target)
    spacing = {
        "layer_gap": _LAYER_GAP,
        "node_gap": _NODE_GAP,
        "dummy_gap": 12.0,
        "port_gap": 10.0,
        "stub": 8.0,
        "compound_padding": _PADDING,
        "compound_header": _HEADER,
    }
    options = {"direction": "topbottom", "spacing": spacing}
    try:
        result = graphlay.layout(graph, options=options)
    except graphlay.GraphlayError as error:
        raise PlacementError(f"graphlay: {error}") from error
    places = [
        Place(round(n["center"]["x"]), round(n["center"]["y"]), round(n["size"]["width"]), round(n["size"]["height"]))
        for n in result.nodes
    ]
    routes = [tuple((round(p["x"]), round(p["y"])) for p in edge["points"]) for edge in result.edges]
    return places, routes


def _sugiyama(items: Sequence[Item], edges: Pairs) -> _Arranged:
    """Layers of one width: every item as wide as the widest; frames are drawn around their items."""
    import fast_sugiyama

    leaves = [i for i, item in enumerate(items) if not item.is_frame]
    across = max(items[i].width for i in leaves) + _NODE_GAP
    down = max(items[i].height for i in leaves) + _LAYER_GAP
    flat = {(a, b) for a, b in edges if a != b and not items[a].is_frame and not items[b].is_frame}
    if not flat:
        raise PlacementError("fast-sugiyama: there are no edges")
    pairs = sorted((str(a), str(b)) for a, b in _that_shape(flat))
    result = fast_sugiyama.from_edges(pairs, vertex_spacing=1, dummy_vertices=True, dummy_size=0.2, check_layout=False)
    centres: dict[int, tuple[int, int]] = {}
    left = 0.0
    for positions, *_ in result:  # one for each connected part: side by side, aligned at the top
        low, high = min(x for _, (x, _) in positions), max(y for _, (_, y) in positions)
        real = [(int(i), x, y) for i, (x, y) in positions if isinstance(i, str)]  # numbers are the bends of edges
        centres |= {i: (round((left + x - low) * across), round((high - y) * down)) for i, x, y in real}
        left += max(x for _, x, _ in real) - low + 1
    beside = iter(range(len(leaves)))  # items without edges are in a row above
    top = min(y for _, y in centres.values()) - down
    for i in leaves:
        if i not in centres:
            centres[i] = (next(beside) * across, top)
    places = {i: Place(*centres[i], items[i].width, items[i].height) for i in leaves}
    return _framed(items, places), [() for _ in edges]


def _that_shape(edges: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    """The edges without the longest, if they cross so many layers that placing takes time with the square of the graph,
    as those of one value that each node of a chain reads. The others keep every item in its layer."""
    layers = _layers(edges)
    spans = sorted((max(layers[b] - layers[a], 1), a, b) for a, b in edges)
    most = _BENDS_PER_EDGE * len(edges)
    kept, bends, seen = list[tuple[int, int]](), 0, set[int]()
    for span, a, b in spans:
        if bends + span - 1 > most and a in seen and b in seen:
            continue
        kept.append((a, b))
        seen |= {a, b}
        bends += span - 1
    return kept


def _layers(edges: Collection[tuple[int, int]]) -> dict[int, int]:
    """The length of the longest path to each item; of items in a circle, of one as far as it leads."""
    after: dict[int, list[int]] = defaultdict(list)
    waiting: Counter[int] = Counter()
    for a, b in edges:
        after[a].append(b)
        waiting[b] += 1
    layers = dict.fromkeys((*after, *waiting), 0)
    ready = [item for item in after if not waiting[item]]
    while ready:
        item = ready.pop()
        for other in after[item]:
            layers[other] = max(layers[other], layers[item] + 1)
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return layers


def _framed(items: Sequence[Item], places: Mapping[int, Place]) -> list[Place]:
    """All positions, with frames drawn around their items; an empty frame is a point at the origin."""
    boxes = dict(places)
    for i in reversed(range(len(items))):  # a frame comes before its items
        if not items[i].is_frame:
            continue
        inside = [boxes[j] for j, item in enumerate(items) if item.frame == i and j in boxes]
        if not inside:
            boxes[i] = Place(0, 0, 0, 0)
            continue
        left = min(p.x - p.width // 2 for p in inside) - _PADDING
        right = max(p.x + p.width // 2 for p in inside) + _PADDING
        top = min(p.y - p.height // 2 for p in inside) - _PADDING - _HEADER
        bottom = max(p.y + p.height // 2 for p in inside) + _PADDING
        boxes[i] = Place((left + right) // 2, (top + bottom) // 2, right - left, bottom - top)
    return [boxes[i] for i in range(len(items))]
