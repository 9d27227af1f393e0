"""Room for nodes that live only for a moment: the picture is stretched, and nothing in it comes apart."""

from __future__ import annotations

import random

import pytest

from workbench.formats.io import load_model
from workbench.formats.io.samples import samples
from workbench.interfaces.api import optimize
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.arrangement import _MIN_SEGMENT
from workbench.presentation.view.engines import Place
from workbench.presentation.view.placement import Item, place
from workbench.presentation.view.scene import View
from workbench.presentation.view.spacing import MinGap, with_min_gaps
from workbench.presentation.view.timeline import timeline_of


def top(place: Place) -> float:
    return place.y - place.height / 2


def bottom(place: Place) -> float:
    return place.y + place.height / 2


def test_what_lies_below_moves_down_and_what_lies_beside_stays():
    places = {0: Place(50, 20, 80, 40), 1: Place(50, 80, 80, 40), 2: Place(200, 60, 80, 100), 3: Place(50, 140, 80, 40)}
    routes = {(0, 1): ((50, 40), (50, 60)), (2, 3): ((200, 110), (200, 115), (50, 115), (50, 120))}
    found = with_min_gaps(places, routes, (), [MinGap(0, 1, 70)])
    assert found.height == 50
    assert found.places == {**places, 1: Place(50, 130, 80, 40), 3: Place(50, 190, 80, 40)}
    assert found.routes == {(0, 1): ((50, 40), (50, 110)), (2, 3): ((200, 110), (200, 165), (50, 165), (50, 170))}


def test_a_frame_grows_with_what_is_in_it():
    places = {0: Place(50, 100, 100, 200), 1: Place(50, 40, 80, 40), 2: Place(50, 120, 80, 40)}
    found = with_min_gaps(places, {}, {0}, [MinGap(1, 2, 60)])
    assert (top(found.places[0]), found.places[0].height) == (0, 220)


def test_enough_room_stays_as_it_is():
    places = {0: Place(50, 20, 80, 40), 1: Place(50, 200, 80, 40)}
    assert with_min_gaps(places, {}, (), [MinGap(0, 1, 60)]).places == places


@pytest.mark.parametrize("seed", range(40))
def test_random_pictures_keep_their_order_and_every_need_is_met(seed):
    draw = random.Random(seed)
    edges = sorted({(a, b) for b in range(1, 14) for a in draw.sample(range(b), min(b, 2))})
    placed = place([Item(draw.randrange(40, 120), draw.randrange(20, 60)) for _ in range(14)], edges)
    places, routes = dict(enumerate(placed.places)), dict(zip(edges, placed.routes, strict=True))
    needs = [MinGap(a, b, draw.randrange(30, 160)) for a, b in draw.sample(edges, 5)]
    found = with_min_gaps(places, routes, (), needs)
    for need in needs:
        assert top(found.places[need.end]) - bottom(found.places[need.start]) >= need.pixels - 1  # half pixels
    for a, one in found.places.items():
        for b, other in found.places.items():
            apart = abs(one.x - other.x) >= (one.width + other.width) / 2
            assert a == b or apart or bottom(one) <= top(other) + 1 or bottom(other) <= top(one) + 1
    for (a, b), route in found.routes.items():
        if len(route) > 1 and found.height:
            assert abs(route[0][1] - bottom(found.places[a])) <= 1 and abs(route[-1][1] - top(found.places[b])) <= 1


def test_the_transpose_between_two_boxes_shows_its_arrows():
    sample = next(s for s in samples() if s.file.stem == "npu_path")
    target = load_profile("npu")
    history = optimize(load_model(sample.file), layout="record-then-insert", target="npu")
    scene = View(timeline_of(history, target), "npu", target.layout).scene()
    boxes = {box["id"]: box for box in scene["boxes"]}
    chips = [box for box in scene["boxes"] if box.get("chip")]
    assert chips
    for chip in chips:
        others = [box for box in boxes.values() if box is not chip and abs(box["x"] - chip["x"]) < box["w"] / 2]
        gaps = [abs(box["y"] - chip["y"]) - (box["h"] + chip["h"]) / 2 for box in others]
        assert min(gaps) >= _MIN_SEGMENT - 1
