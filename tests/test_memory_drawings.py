"""Drawings of memory plans: the conflict graph in colours, and the labels with their recycle box."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from dataclasses import replace

import pytest

from tests.pages import fine, opened_sample, page, words
from workbench.errors import UserError
from workbench.formats.io import load_model
from workbench.formats.io.samples import FOLDER
from workbench.interfaces.lessons.pictures import picture_of
from workbench.ir import from_text
from workbench.planning.memory.blocks.actions import free_labels, labels_of
from workbench.planning.memory.planning import plan_memory, sharing_of
from workbench.presentation.charts.memory import arena_chart
from workbench.presentation.charts.memory_drawings import conflict_graph, recycle_box

SVG = "{http://www.w3.org/2000/svg}"


def plan(planner: str, stem: str = "memory/colouring"):
    return plan_memory(sharing_of(load_model(FOLDER / f"{stem}.onnx")), planner)


def texts(drawing: xml.Element) -> list[str]:
    return [element.text or "" for element in drawing.iter(f"{SVG}text")]


def test_an_edge_joins_two_blocks_that_are_in_use_at_once():
    made = plan("colouring")
    drawn = xml.fromstring(conflict_graph(made))
    packing = made.sharing.packing
    assert len(drawn.findall(f"{SVG}circle")) == len(packing.blocks) == 4
    assert len(drawn.findall(f"{SVG}line")) == sum(map(len, packing.conflicts)) // 2 == 5
    assert {"B", "C", "E", "F", "4,096 B"} <= set(texts(drawn))


def test_blocks_of_one_label_have_one_colour_and_those_that_are_joined_never():
    made = plan("colouring")
    circles = xml.fromstring(conflict_graph(made)).findall(f"{SVG}circle")
    colours = [circle.get("fill") for circle in circles]
    labels = labels_of(made.packed)
    assert len(set(colours)) == len(set(labels.values())) == 3
    for one, others in enumerate(made.sharing.packing.conflicts):
        assert colours[one] not in {colours[other] for other in others}


def test_a_planner_without_labels_leaves_the_graph_grey():
    circles = xml.fromstring(conflict_graph(plan("exact"))).findall(f"{SVG}circle")
    assert len({circle.get("fill") for circle in circles}) == 1


def test_the_recycle_box_holds_the_labels_that_nobody_has():
    made = plan("counters")
    assert [free_labels(made.packed, step) for step in range(5)] == [[], [], [], [], [0]]
    drawn = xml.fromstring(recycle_box(made))
    assert len(drawn.findall(f"{SVG}rect")) == 4
    assert len(drawn.findall(f"{SVG}circle")) == 1
    assert {"label 0", "label 1", "label 2", "recycle", "4: G"} <= set(texts(drawn))


def test_a_name_of_markup_stays_text():
    graph = from_text("g (float[4] x) => (float[4] y) { b = Relu(x) c = Abs(b) y = Add(b, c) }")
    made = plan_memory(sharing_of(graph), "colouring")
    blocks = tuple(replace(block, name=f"<b>{block.name}&") for block in made.sharing.packing.blocks)
    named = replace(made, sharing=replace(made.sharing, packing=replace(made.sharing.packing, blocks=blocks)))
    for drawing in (conflict_graph(named), recycle_box(named)):
        assert any(text.startswith("<b>") for text in texts(xml.fromstring(drawing)))


def test_lessons_refuse_a_recycle_box_without_labels_and_a_graph_of_too_many_blocks():
    graph = load_model(FOLDER / "memory" / "colouring.onnx")
    with pytest.raises(UserError, match="'exact' gives no labels"):
        picture_of("recycle exact", graph)
    with pytest.raises(UserError, match="blocks; at most 40 are drawn"):
        picture_of("conflicts colouring", load_model(FOLDER / "resnet50_narrow.onnx"))


def test_the_page_draws_what_can_be_read_and_says_so_of_the_rest():
    at = fine(page("memory", opened_sample("colouring")).run())
    assert "An edge joins two blocks" in words(at) and "The block that has each label" not in words(at)
    assert "is too large; it is drawn for up to 40 blocks" in words(
        fine(page("memory", opened_sample("resnet50_narrow")).run())
    )


def test_pictures_side_by_side_have_one_scale_and_one_legend():
    small, large = plan("exact", "memory/in_place_trap"), plan("no_reuse", "ppocr_cls_v2")
    assert small.packed.total < large.packed.total / 100
    alone = arena_chart(small)
    pair = [arena_chart(one, beside=[small, large]) for one in (small, large)]
    assert alone.layout.yaxis.range != pair[0].layout.yaxis.range
    assert pair[0].layout.yaxis.range == pair[1].layout.yaxis.range
    assert pair[0].layout.yaxis.title.text == pair[1].layout.yaxis.title.text == "offset in the arena (MB)"
    bars, others = ([trace.name for trace in figure.data if trace.type == "bar"] for figure in pair)
    assert bars == others and len(alone.data) < len(pair[0].data)


def test_memory_shows_the_original_beside_the_result_once_there_is_one():
    opened = opened_sample("rounded_constant")
    fine(page("optimize", opened).run())
    at = fine(page("memory", opened).run())
    assert [field.value for field in at.selectbox if field.label == "Graph"] == ["original", "result"]
    assert "original: 20 bytes; result: 16 bytes, 20.0 % less." in words(at).replace("\\", "")
    alone = fine(next(toggle for toggle in at.toggle if toggle.label == "Side by side").set_value(False).run())
    assert [field.value for field in alone.selectbox if field.label == "Graph"] == ["result"]
