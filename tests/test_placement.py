"""Placement: every engine gives every box a place of its own, frames hold what is in them, tall pictures are wrapped."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from workbench.presentation.view import engines
from workbench.presentation.view.engines import Place, Placement, PlacementError, place_flat
from workbench.presentation.view.placement import Item, place
from workbench.presentation.view.wrapping import wrapped

ENGINES = [engines._graphlay, engines._sugiyama]


def network(nodes: int, seed: int = 0) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Sizes and edges of a chain with branches."""
    draw = random.Random(seed)
    edges = [(max(0, i - draw.choice((1, 1, 1, 2, 5))), i) for i in range(1, nodes)]
    edges += [(i - 2, i) for i in range(2, nodes, 5)]
    return [(draw.randint(80, 230), draw.choice((24, 38, 50))) for _ in range(nodes)], edges


def nested(seed: int, count: int = 60) -> tuple[list[Item], list[tuple[int, int]]]:
    """Items in frames three deep, with edges between all of them that lead to later items."""
    draw = random.Random(seed)
    items = [Item(0, 0, is_frame=True)]
    for _ in range(7):
        frames = [i for i, item in enumerate(items) if item.is_frame]
        items.append(Item(0, 0, draw.choice((-1, *frames)), is_frame=True))
    frames = [i for i, item in enumerate(items) if item.is_frame]
    items += [Item(draw.randint(80, 230), 38, draw.choice((-1, *frames))) for _ in range(count)]
    leaves = range(len(frames), len(items))
    return items, sorted({(a, b) for b in leaves for a in draw.sample(leaves, 2) if a < b})


def overlap(a: Place, b: Place) -> bool:
    return abs(a.x - b.x) * 2 < a.width + b.width - 4 and abs(a.y - b.y) * 2 < a.height + b.height - 4


def on_border(box: Place, point: tuple[int, int]) -> bool:
    across, down = abs(point[0] - box.x) - box.width / 2, abs(point[1] - box.y) - box.height / 2
    return max(across, down) <= 2 and max(across, down) >= -2


def holds(outer: Place, inner: Place) -> bool:
    return (
        abs(inner.x - outer.x) * 2 + inner.width <= outer.width + 2
        and abs(inner.y - outer.y) * 2 + inner.height <= outer.height + 2
    )


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
@pytest.mark.parametrize("nodes", [2, 30, 150])
def test_no_two_boxes_overlap_and_edges_go_down(engine, nodes):
    sizes, edges = network(nodes)
    places, routes = engine(sizes, edges)
    assert [(p.width, p.height) for p in places] == sizes
    for i, a in enumerate(places):
        assert not any(overlap(a, b) for b in places[i + 1 :])
    assert all(places[a].y < places[b].y for a, b in edges)
    assert all(len(route) >= 2 for route in routes)


@pytest.mark.parametrize("seed", range(12))
def test_frames_hold_what_is_in_them_and_nothing_else(seed):
    items, edges = nested(seed)
    placed = place(items, edges).places
    for i, item in enumerate(items):
        if item.frame >= 0:
            assert holds(placed[item.frame], placed[i])
        siblings = [j for j in range(i + 1, len(items)) if items[j].frame == item.frame]
        assert not any(overlap(placed[i], placed[j]) for j in siblings)


@pytest.mark.parametrize("seed", range(12))
def test_routes_run_from_border_to_border_and_nothing_is_outside(seed):
    items, edges = nested(seed)
    found = place(items, edges)
    for (a, b), route in zip(edges, found.routes, strict=True):
        assert on_border(found.places[a], route[0]) and on_border(found.places[b], route[-1])
        assert all(x1 == x2 or y1 == y2 for (x1, y1), (x2, y2) in pairwise(route)), "lines are orthogonal"
    for x, y in [(p.x, p.y) for p in found.places] + [point for route in found.routes for point in route]:
        assert 0 <= x <= found.width and 0 <= y <= found.height


def test_a_change_inside_a_frame_moves_nothing_inside_another():
    items, edges = nested(3)
    leaf = max(i for i, item in enumerate(items) if item.frame >= 0)
    frame = items[leaf].frame
    wider = [*items[:leaf], Item(400, 60, frame), *items[leaf + 1 :]]
    before, after = place(items, edges).places, place(wider, edges).places
    around = {frame}
    while items[max(around, default=0)].frame >= 0 and items[min(around)].frame not in around:
        around.add(items[min(around)].frame)
    for other in {item.frame for item in items if item.frame >= 0} - around:
        inside = [i for i, item in enumerate(items) if item.frame == other]
        moved = {(after[i].x - before[i].x, after[i].y - before[i].y) for i in inside if not items[i].is_frame}
        if not any(items[i].is_frame and i in around for i in inside):
            assert len(moved) <= 1


def test_equal_frames_look_equal():
    items = [Item(0, 0, is_frame=True), Item(0, 0, is_frame=True)]
    items += [Item(100, 38, frame) for frame in (0, 0, 0, 1, 1, 1)]
    edges = [(2, 3), (2, 4), (5, 6), (5, 7), (4, 5)]
    placed = place([*items, Item(90, 38)], [*edges, (8, 2), (7, 8)]).places
    shape = [
        [(placed[i].x - placed[f].x, placed[i].y - placed[f].y) for i in range(s, s + 3)] for f, s in ((0, 2), (1, 5))
    ]
    assert shape[0] == shape[1]


def test_small_pictures_are_routed_and_large_ones_placed_by_the_quicker_engine():
    assert place_flat(*network(200)).engine == "graphlay"
    assert place_flat(*network(3000)).engine == "sugiyama"


def test_a_cycle_and_boxes_without_edges_are_placed():
    sizes = [(100, 38)] * 5
    for engine in ENGINES:
        places, _ = engine(sizes, [(0, 1), (1, 2), (2, 0)])
        assert not any(overlap(a, b) for i, a in enumerate(places) for b in places[i + 1 :]), engine.__name__
    assert len(place_flat(sizes, []).places) == 5
    assert place([], []).places == ()


def test_frames_that_feed_each_other_are_placed():
    items = [Item(0, 0, is_frame=True), Item(0, 0, is_frame=True), *(Item(100, 38, i % 2) for i in range(8))]
    found = place(items, [(i, i + 1) for i in range(2, 9)])
    assert all(
        holds(found.places[item.frame], p) for item, p in zip(items, found.places, strict=True) if item.frame >= 0
    )


def test_if_an_engine_fails_the_next_one_places(monkeypatch):
    def broken(sizes, edges):
        raise PlacementError("out of order")

    monkeypatch.setattr(engines, "_graphlay", broken)
    assert place_flat(*network(20)).engine == "sugiyama"
    monkeypatch.setattr(engines, "_sugiyama", broken)
    with pytest.raises(PlacementError, match="no engine placed the graph: out of order; out of order"):
        place_flat(*network(20))


def test_a_box_of_many_edges_is_drawn_without_routing_them():
    """Routing takes time that grows faster than the edges of one box."""
    count = engines.MAX_EDGES_OF_BOX + 1
    sizes = [(100, 38)] * (count + 1)
    few, many = ([(0, i) for i in range(1, size)] for size in (20, count + 1))
    assert place_flat(sizes[:20], few).engine == "graphlay"
    found = place_flat(sizes, many)
    assert found.engine == "sugiyama" and all(found.places[0].y < other.y for other in found.places[1:])


def test_a_value_that_each_node_of_a_long_chain_reads_is_placed_as_the_chain_is():
    """Its edges cross half a million layers; the longest are drawn and do not shape the picture."""
    count = 1_000
    chain = [(i, i + 1) for i in range(1, count)]
    fan = [(0, i) for i in range(1, count + 1)]
    found = place_flat([(20, 10)] * (count + 1), chain + fan)
    assert found.engine == "sugiyama"
    assert all(found.places[a].y < found.places[b].y for a, b in chain + fan)
    shape = engines._without_long_edges(set(chain + fan))
    assert set(chain) <= set(shape) and sum(b - a - 1 for a, b in shape) <= engines._BENDS_PER_EDGE * 2 * count


def test_boxes_in_a_circle_are_placed():
    circle = [(i, (i + 1) % 1_000) for i in range(1_000)]
    assert len(place_flat([(20, 10)] * 1_000, circle).places) == 1_000


# ---- columns ------------------------------------------------------------------------------


def chain(count: int, *skips: tuple[int, int]) -> Placement:
    return place_flat([(100, 38)] * count, [*((i, i + 1) for i in range(count - 1)), *skips])


def test_a_long_chain_becomes_columns_that_are_read_from_left_to_right():
    tall = chain(60)
    found = wrapped(tall, 1.3)
    assert tall.height > 10 * tall.width and 0.5 < found.width / found.height < 3
    assert [(p.width, p.height) for p in found.places] == [(100, 38)] * 60
    assert not any(overlap(a, b) for i, a in enumerate(found.places) for b in found.places[i + 1 :])
    for a, b in pairwise(found.places):
        assert b.y > a.y or (b.left > a.right and b.y < a.y), "below, or at the top of the next column"


@pytest.mark.parametrize("seed", range(12))
def test_lines_still_run_from_border_to_border_after_wrapping_and_cross_no_box(seed):
    draw = random.Random(seed)
    count = 70
    skips = sorted({tuple(sorted(draw.sample(range(count), 2))) for _ in range(12)})
    edges = [*((i, i + 1) for i in range(count - 1)), *skips]
    tall = place_flat([(100, 38)] * count, edges)
    found = wrapped(tall, 1.3)
    assert found.width > tall.width
    for (a, b), route in zip(edges, found.routes, strict=True):
        assert on_border(found.places[a], route[0]) and on_border(found.places[b], route[-1])
        for (x1, y1), (x2, y2) in pairwise(route):
            assert x1 == x2 or y1 == y2
            through = [
                p
                for p in found.places
                if min(x1, x2) < p.right - 1
                and max(x1, x2) > p.left + 1
                and min(y1, y2) < p.bottom
                and max(y1, y2) > p.top
            ]
            assert not through


def test_a_low_picture_and_one_that_cannot_be_cut_stay_as_they_are():
    low = chain(6)
    assert wrapped(low, 1.3) is low
    solid = place_flat([(100, 4000)], [])
    assert wrapped(solid, 1.3) is solid


def test_frames_of_a_long_chain_are_in_columns_too():
    items = [Item(0, 0, is_frame=True), *(Item(100, 38, 0) for _ in range(60))]
    found = place(items, [(i, i + 1) for i in range(1, 60)])
    assert 0.5 < found.places[0].width / found.places[0].height < 3
