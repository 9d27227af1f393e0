"""Placement: every engine gives every item a place of its own, frames hold what is in them."""

from __future__ import annotations

import random

import pytest

from workbench.view import placement
from workbench.view.placement import Item, Place, PlacementError, place

ENGINES = [placement._graphlay, placement._sugiyama]


def network(nodes: int, seed: int = 0) -> tuple[list[Item], list[tuple[int, int]]]:
    draw = random.Random(seed)
    edges = [(max(0, i - draw.choice((1, 1, 1, 2, 5))), i) for i in range(1, nodes)]
    edges += [(i - 2, i) for i in range(2, nodes, 5)]
    return [Item(draw.randint(80, 230), draw.choice((24, 38, 50))) for _ in range(nodes)], edges


def overlap(a: Place, b: Place) -> bool:
    return abs(a.x - b.x) * 2 < a.width + b.width - 4 and abs(a.y - b.y) * 2 < a.height + b.height - 4


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
@pytest.mark.parametrize("nodes", [2, 30, 150])
def test_no_two_boxes_overlap_and_edges_go_down(engine, nodes):
    items, edges = network(nodes)
    places, _ = engine(items, edges)
    assert [(p.width, p.height) for p in places] == [(item.width, item.height) for item in items]
    for i, a in enumerate(places):
        assert not any(overlap(a, b) for b in places[i + 1 :])
    assert all(places[a].y < places[b].y for a, b in edges)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
def test_frames_hold_what_is_in_them(engine):
    items = [Item(0, 0, is_frame=True), Item(0, 0, 0, is_frame=True)]
    items += [Item(100, 38, frame) for frame in (-1, 0, 1, 1, 0, -1)]
    places, _ = engine(items, [(2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (2, 7)])
    for item, inner in zip(items, places, strict=True):
        if item.frame >= 0:
            outer = places[item.frame]
            assert abs(inner.x - outer.x) * 2 + inner.width <= outer.width + 2
            assert abs(inner.y - outer.y) * 2 + inner.height <= outer.height + 2


def test_small_pictures_are_routed_and_large_ones_placed_by_the_quicker_engine():
    assert place(*network(200)).engine == "graphlay"
    assert place(*network(3000)).engine == "sugiyama"


def test_routes_run_from_border_to_border_and_nothing_lies_outside():
    items, edges = network(80)
    found = place(items, edges)
    for (a, b), route in zip(edges, found.routes, strict=True):
        assert abs(route[0][1] - (found.places[a].y + items[a].height / 2)) <= 2
        assert abs(route[-1][1] - (found.places[b].y - items[b].height / 2)) <= 2
    for x, y in [(p.x, p.y) for p in found.places] + [point for route in found.routes for point in route]:
        assert 0 <= x <= found.width and 0 <= y <= found.height


def test_a_cycle_and_what_has_no_edge_are_placed():
    items = [Item(100, 38)] * 5
    for engine in ENGINES:
        places, _ = engine(items, [(0, 1), (1, 2), (2, 0)])
        assert not any(overlap(a, b) for i, a in enumerate(places) for b in places[i + 1 :]), engine.__name__
    assert len(place(items, []).places) == 5
    assert place([], []).places == ()


def test_where_an_engine_fails_the_next_one_places(monkeypatch):
    def broken(items, edges):
        raise PlacementError("out of order")

    monkeypatch.setattr(placement, "_graphlay", broken)
    assert place(*network(20)).engine == "sugiyama"
    monkeypatch.setattr(placement, "_sugiyama", broken)
    with pytest.raises(PlacementError, match="no engine placed the graph: out of order; out of order"):
        place(*network(20))


def test_a_box_of_many_edges_is_drawn_without_routing_them():
    """Routing takes time that grows faster than the edges of one box."""
    count = placement.MOST_AT_ONE + 1
    items = [Item(100, 38) for _ in range(count + 1)]
    few, many = ([(0, i) for i in range(1, size)] for size in (20, count + 1))
    assert place(items[:20], few).engine == "graphlay"
    found = place(items, many)
    assert found.engine == "sugiyama" and all(found.places[0].y < other.y for other in found.places[1:])


def test_a_value_that_each_node_of_a_long_chain_reads_is_placed_as_the_chain_is():
    """Its edges cross half a million layers; the longest are drawn and do not shape the picture."""
    count = 1_000
    chain = [(i, i + 1) for i in range(1, count)]
    fan = [(0, i) for i in range(1, count + 1)]
    items = [Item(20, 10)] * (count + 1)
    found = place(items, chain + fan)
    assert found.engine == "sugiyama"
    assert all(found.places[a].y < found.places[b].y for a, b in chain + fan)
    shape = placement._that_shape(set(chain + fan))
    assert set(chain) <= set(shape) and sum(b - a - 1 for a, b in shape) <= placement._BENDS_PER_EDGE * 2 * count


def test_items_in_a_circle_are_placed():
    circle = [(i, (i + 1) % 1_000) for i in range(1_000)]
    assert len(place([Item(20, 10)] * 1_000, circle).places) == 1_000
