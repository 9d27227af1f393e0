"""Placement of a picture without frames: boxes in layers from top to bottom, and the routes of the lines between them.

`graphlay` places small pictures with orthogonal routes. `fast-sugiyama` places large pictures, and boxes with many
edges; its lines are straight. If one engine fails, the other one is used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

MAX_ROUTED = 900  # boxes placed by graphlay; more are placed by fast-sugiyama
MAX_EDGES_OF_BOX = 300  # of a picture placed by graphlay, which takes 0.4 s to route 300, and 3 s for 600
NODE_GAP, LAYER_GAP = 24, 40  # pixels
_BENDS_PER_EDGE = 8  # maximum average; an edge has a bend in each layer that it crosses
_TUNING = {"routing": {"port_relax_rounds": 0}}  # moving ports afterwards takes n^2.8 for n edges of a box, for nothing

Point = tuple[int, int]
Route = tuple[Point, ...]
Pairs = Sequence[tuple[int, int]]
BoxSize = tuple[int, int]


class PlacementError(RuntimeError):
    """An engine could not place the graph."""


@dataclass(frozen=True)
class Place:
    """The centre and size of a box in pixels; y grows downwards."""

    x: int
    y: int
    width: int
    height: int

    @property
    def left(self) -> int:
        """The x of the left border."""
        return self.x - self.width // 2

    @property
    def right(self) -> int:
        """The x of the right border."""
        return self.x + self.width // 2

    @property
    def top(self) -> int:
        """The y of the upper border."""
        return self.y - self.height // 2

    @property
    def bottom(self) -> int:
        """The y of the lower border."""
        return self.y + self.height // 2


@dataclass(frozen=True)
class Placement:
    """Placed boxes. routes: the ends and corners of each edge's line. Coordinates begin at 0."""

    places: tuple[Place, ...]
    routes: tuple[Route, ...]
    width: int
    height: int
    engine: str


_Arranged = tuple[list[Place], list[Route]]


def place_flat(sizes: Sequence[BoxSize], edges: Pairs) -> Placement:
    """Place boxes, given by width and height in pixels, along the edges. Raises PlacementError.

    edges: pairs of numbers of boxes; a pair may be there several times.
    """
    if not sizes:
        return Placement((), (), 0, 0, "none")
    busiest = max(Counter(end for edge in edges for end in edge).values(), default=0)
    is_small = len(sizes) <= MAX_ROUTED and busiest <= MAX_EDGES_OF_BOX
    failures = []
    for engine in [_graphlay, _sugiyama] if is_small else [_sugiyama, _graphlay]:
        try:
            places, routes = engine(sizes, edges)
        except PlacementError as error:
            failures.append(str(error))
            continue
        return at_origin(places, routes, engine.__name__.lstrip("_"))
    raise PlacementError(f"no engine placed the graph: {'; '.join(failures)}")


def at_origin(places: Sequence[Place], routes: Sequence[Route], engine: str, margin: int = 0) -> Placement:
    """The picture moved so that its content begins at `margin` pixels, with that margin on all sides."""
    points = [point for route in routes for point in route]
    left = min([p.left for p in places] + [x for x, _ in points]) - margin
    top = min([p.top for p in places] + [y for _, y in points]) - margin
    moved = tuple(Place(p.x - left, p.y - top, p.width, p.height) for p in places)
    lines = tuple(tuple((x - left, y - top) for x, y in route) for route in routes)
    width = max([p.right for p in moved] + [x for route in lines for x, _ in route]) + margin
    height = max([p.bottom for p in moved] + [y for route in lines for _, y in route]) + margin
    return Placement(moved, lines, width, height, engine)


def _graphlay(sizes: Sequence[BoxSize], edges: Pairs) -> _Arranged:
    import graphlay

    graph = graphlay.Graph()
    for width, height in sizes:
        graph.node(width=float(width), height=float(height))
    for source, target in edges:
        graph.edge(source, target)
    spacing = {"layer_gap": LAYER_GAP, "node_gap": NODE_GAP, "dummy_gap": 12.0, "port_gap": 10.0, "stub": 8.0}
    try:
        result = graphlay.layout(graph, options={"direction": "topbottom", "spacing": spacing, "tuning": _TUNING})
    except graphlay.GraphlayError as error:
        raise PlacementError(f"graphlay: {error}") from error
    places = [
        Place(round(n["center"]["x"]), round(n["center"]["y"]), round(n["size"]["width"]), round(n["size"]["height"]))
        for n in result.nodes
    ]
    return places, [_rounded([(p["x"], p["y"]) for p in edge["points"]]) for edge in result.edges]


def _rounded(points: Sequence[tuple[float, float]]) -> Route:
    """The corners in whole pixels; a vertical or horizontal line stays one."""
    corners: list[Point] = []
    for x, y in points:
        before = corners[-1] if corners else (round(x), round(y))
        corners.append(
            (before[0] if abs(x - before[0]) <= 1 else round(x), before[1] if abs(y - before[1]) <= 1 else round(y))
        )
    return tuple(corners)


def _sugiyama(sizes: Sequence[BoxSize], edges: Pairs) -> _Arranged:
    """Place in layers, where every box takes the width of the widest one."""
    import fast_sugiyama

    column_width = max(width for width, _ in sizes) + NODE_GAP
    layer_height = max(height for _, height in sizes) + LAYER_GAP
    flat = {(a, b) for a, b in edges if a != b}
    if not flat:
        raise PlacementError("fast-sugiyama: there are no edges")
    pairs = sorted((str(a), str(b)) for a, b in _without_long_edges(flat))
    result = fast_sugiyama.from_edges(pairs, vertex_spacing=1, dummy_vertices=True, dummy_size=0.2, check_layout=False)
    centres: dict[int, Point] = {}
    left = 0.0
    for positions, *_ in result:  # of each connected part; they are placed side by side, aligned at the top
        low, high = min(x for _, (x, _) in positions), max(y for _, (_, y) in positions)
        vertices = [
            (int(i), x, y) for i, (x, y) in positions if isinstance(i, str)
        ]  # vertices with numbers are bends of edges
        centres |= {
            i: (round((left + x - low) * column_width), round((high - y) * layer_height)) for i, x, y in vertices
        }
        left += max(x for _, x, _ in vertices) - low + 1
    column_numbers = iter(range(len(sizes)))  # of boxes without edges, in a row above
    top = min(y for _, y in centres.values()) - layer_height
    for i in range(len(sizes)):
        if i not in centres:
            centres[i] = (next(column_numbers) * column_width, top)
    places = [Place(*centres[i], *size) for i, size in enumerate(sizes)]
    return places, [((places[a].x, places[a].bottom), (places[b].x, places[b].top)) for a, b in edges]


def _without_long_edges(edges: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    """The edges without the longest ones, if all of them would have too many bends.

    Edges that cross many layers, such as of one value that each node of a chain reads, would make the placement take
    quadratic time. The remaining edges keep every box in its layer.
    """
    layers = longest_paths(edges)
    spans = sorted((max(layers[b] - layers[a], 1), a, b) for a, b in edges)
    max_bends = _BENDS_PER_EDGE * len(edges)
    remaining, bends, seen = list[tuple[int, int]](), 0, set[int]()
    for span, a, b in spans:
        if bends + span - 1 > max_bends and a in seen and b in seen:
            continue
        remaining.append((a, b))
        seen |= {a, b}
        bends += span - 1
    return remaining


def longest_paths(edges: Collection[tuple[int, int]]) -> dict[int, int]:
    """The length of the longest path to each box; of boxes in a cycle, a lower bound."""
    after: dict[int, list[int]] = defaultdict(list)
    pending: Counter[int] = Counter()
    for a, b in edges:
        after[a].append(b)
        pending[b] += 1
    layers = dict.fromkeys((*after, *pending), 0)
    ready = [box for box in after if not pending[box]]
    while ready:
        box = ready.pop()
        for other in after[box]:
            layers[other] = max(layers[other], layers[box] + 1)
            pending[other] -= 1
            if not pending[other]:
                ready.append(other)
    return layers
