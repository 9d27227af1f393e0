"""The overview: boxes fill a pane, and what opens moves no box into another column and changes no size."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.viewing import sample_history, view_of
from workbench.presentation.view.overview import _ONLY_PANE, _PANE

HISTORIES = {
    "resnet50_narrow": ("sum_to_add", "fold_batchnorm"),
    "ppocr_cls_v2": ("fold_batchnorm",),
    "basic_pitch_nmp": ("remove_noops",),
}
FILLED, FILLED_ALONE = 0.5, 0.42
CLOSED = ("resnet50_narrow", "ppocr_cls_v2")


def fill(scene: dict[str, Any], pane: tuple[int, int]) -> float:
    """The share of a pane that boxes cover once the picture is fitted into it."""
    zoom = min((pane[0] - 28) / scene["width"], (pane[1] - 28) / scene["height"], 2.2)
    boxes = [box for box in scene["boxes"] if not box.get("open") and not box.get("chip")]
    return sum(box["w"] * box["h"] for box in boxes) * zoom**2 / (pane[0] * pane[1])


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("stem", HISTORIES)
def test_boxes_fill_half_of_the_pane_beside_the_result_and_alone(stem):
    changed, alone = (view_of(sample_history(stem, *passes)) for passes in (HISTORIES[stem], ()))
    assert changed.timeline.last and not alone.timeline.last
    assert fill(changed.scene(), _PANE) >= FILLED
    assert fill(alone.scene(), _ONLY_PANE) >= FILLED_ALONE


def groups(scene: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {box["id"]: box for box in scene["boxes"] if box["kind"] == "group" and box["up"] < 0}


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("stem", CLOSED)
def test_a_box_that_opens_moves_no_other_out_of_its_column_and_changes_no_size(stem):
    for id_ in groups(view_of(sample_history(stem, *HISTORIES[stem])).scene()):
        view = view_of(sample_history(stem, *HISTORIES[stem]))
        before = groups(view.scene())
        view.set_open(id_, is_open=True, deep=False)
        after = groups(view.scene())
        assert before.keys() == after.keys()
        others = [other for other in before if other != id_]
        assert all([before[i][side] for side in "wh"] == [after[i][side] for side in "wh"] for i in others)
        for one, other in pairwise(before):
            shift = [of[other]["x"] - of[one]["x"] for of in (before, after)]
            assert (shift[0] > 0) == (shift[1] > 0) and (shift[0] == 0) == (shift[1] == 0)
