"""Boxes in columns: no line crosses a box, lines run from border to border, and a box that grows keeps its column."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.test_placement import holds, on_border, overlap
from workbench.presentation.view.columns import balanced, place_in_columns
from workbench.presentation.view.engines import Place
from workbench.presentation.view.placement import Item, place


def network(seed: int, cycles: bool = False) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Sizes and edges of a chain with skips, forwards or in both directions."""
    draw = random.Random(seed)
    count = draw.randint(5, 26)
    edges = {(i, i + 1) for i in range(count - 1)}
    for _ in range(draw.randint(0, 14)):
        one, other = draw.sample(range(count), 2)
        edges.add((one, other) if cycles else (min(one, other), max(one, other)))
    return [(draw.choice((90, 140)), draw.choice((38, 52, 84))) for _ in range(count)], sorted(edges)


def crosses(box: Place, one: tuple[int, int], other: tuple[int, int]) -> bool:
    (x1, y1), (x2, y2) = one, other
    across = min(x1, x2) < box.right - 1 and max(x1, x2) > box.left + 1
    return across and min(y1, y2) < box.bottom - 1 and max(y1, y2) > box.top + 1


@pytest.mark.parametrize("cycles", [False, True])
@pytest.mark.parametrize("columns", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(12))
def test_no_boxes_overlap_and_lines_run_beside_them_from_border_to_border(seed, columns, cycles):
    sizes, edges = network(seed, cycles)
    found = place_in_columns(sizes, edges, balanced(sizes, edges, columns))
    assert [(p.width, p.height) for p in found.places] == sizes
    assert not any(overlap(a, b) for i, a in enumerate(found.places) for b in found.places[i + 1 :])
    for (a, b), route in zip(edges, found.routes, strict=True):
        assert on_border(found.places[a], route[0]) and on_border(found.places[b], route[-1])
        for one, other in pairwise(route):
            assert one[0] == other[0] or one[1] == other[1], "lines are orthogonal"
            assert not any(crosses(box, one, other) for box in found.places)
    for x, y in (point for route in found.routes for point in route):
        assert 0 <= x <= found.width and 0 <= y <= found.height


@pytest.mark.parametrize("seed", range(12))
def test_lines_from_different_boxes_share_no_part(seed):
    sizes, edges = network(seed)
    found = place_in_columns(sizes, edges, balanced(sizes, edges, 3))
    parts = [
        (source, one, other)
        for (source, _), route in zip(edges, found.routes, strict=True)
        for one, other in pairwise(route)
    ]
    for axis in (0, 1):
        along = [
            (source, one[axis], *sorted((one[1 - axis], other[1 - axis])))
            for source, one, other in parts
            if one[axis] == other[axis]
        ]
        for i, (source, at, first, last) in enumerate(along):
            for other_source, other_at, start, end in along[i + 1 :]:
                is_same = source == other_source or at != other_at
                assert is_same or last <= start or end <= first, "two lines lie on each other"


def test_a_chain_is_read_down_a_column_and_on_in_the_next():
    sizes, edges = [(100, 40)] * 9, [(i, i + 1) for i in range(8)]
    assert balanced(sizes, edges, 3) == (3, 3, 3)
    places = place_in_columns(sizes, edges, (3, 3, 3)).places
    for a, b in pairwise(places):
        assert (b.x == a.x and b.top > a.bottom) or (b.left > a.right and b.y < a.y)


def test_a_box_that_grows_keeps_its_column_and_the_others_theirs():
    sizes, edges = network(4)
    counts = balanced(sizes, edges, 3)
    grown = [*sizes[:3], (400, 600), *sizes[4:]]
    for before, after in pairwise([place_in_columns(of, edges, counts).places for of in (sizes, grown)]):
        for i, j in pairwise(range(len(sizes))):
            assert (before[i].x == before[j].x) == (after[i].x == after[j].x)
            assert (before[i].x < before[j].x) == (after[i].x < after[j].x)


def test_an_input_stands_before_its_reader_and_a_branch_behind_what_it_reads():
    items = [Item(100, 40) for _ in range(6)]
    edges = [(0, 2), (2, 3), (3, 4), (1, 4), (5, 3)]  # 1 is read late; 5 comes last in the graph and is read by 3
    places = place(items, edges, {-1: 1}).places
    assert sorted(range(6), key=lambda i: places[i].y) == [0, 2, 5, 3, 1, 4]


def test_a_frame_in_columns_holds_its_items():
    items = [Item(0, 0, is_frame=True), *(Item(100, 40, 0) for _ in range(8)), Item(100, 40), Item(100, 40)]
    edges = [(9, 1), *((i, i + 1) for i in range(1, 8)), (2, 7), (8, 10), (3, 10)]
    found = place(items, edges, {0: 2, -1: 1})
    assert all(holds(found.places[0], found.places[i]) for i in range(1, 9))
    assert len({found.places[i].x for i in range(1, 9)}) == 2
    for (a, b), route in zip(edges, found.routes, strict=True):
        assert on_border(found.places[a], route[0]) and on_border(found.places[b], route[-1])
