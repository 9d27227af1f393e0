"""The picture of a value's bytes: the order of elements against NumPy, what is drawn of which value, and in the app."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.browser import GraphView, settle
from tests.viewing import sample_history
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.inspection import inspect_element
from workbench.presentation.view.memory_order import caption, drawing, elements_in_order, memory_order, strides
from workbench.presentation.view.report import report_html
from workbench.presentation.view.scene import View
from workbench.presentation.view.timeline import timeline_of

SIZES = {"N": 2, "C": 16, "H": 3, "W": 2, "O": 5, "I": 4}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CNHW", "OIHW", "HWOI", "OHWI", "HWIO"])
def test_the_order_of_elements_and_the_strides_are_those_of_a_transposed_array(layout):
    axes = "OIHW" if "O" in layout else "NCHW"
    sizes = [SIZES[axis] for axis in axes]
    array = np.arange(math.prod(sizes)).reshape(sizes)
    stored = np.ascontiguousarray(array.transpose([axes.index(axis) for axis in layout]))
    found = elements_in_order(layout, axes, SIZES)
    assert [array[element] for element in found] == stored.ravel().tolist()
    assert [strides(layout, SIZES)[axis] * stored.itemsize for axis in layout] == list(stored.strides)


def test_blocked_channels_are_a_reshape_and_a_transpose():
    array = np.arange(2 * 16 * 3 * 2).reshape(2, 16, 3, 2)
    stored = array.reshape(2, 2, 8, 3, 2).transpose(0, 1, 3, 4, 2)
    found = elements_in_order("NCHW8c", "NCHW", SIZES)
    assert [array[element] for element in found] == stored.ravel().tolist()
    assert strides("NCHW8c", SIZES) == {"N": 96, "C": 48, "H": 16, "W": 8, "c": 1}


@pytest.mark.parametrize(
    ("layout", "shape", "rows", "drawn"),
    [
        ("NHWC", (1, 56, 56, 3), ("NHWC", "NCHW"), {"N": 1, "C": 3, "H": 2, "W": 3}),
        ("NCHW", (4, 64, 56, 56), ("NCHW", "NHWC", "NCHW8c"), {"N": 1, "C": 16, "H": 1, "W": 2}),
        ("NCHW8c", (1, 1, 9, 9, 8), ("NCHW8c", "NCHW", "NHWC"), {"N": 1, "C": 8, "H": 1, "W": 4}),
        ("NCHW16c", (1, 2, 9, 9, 16), ("NCHW16c", "NCHW", "NHWC", "NCHW8c"), {"N": 1, "C": 16, "H": 1, "W": 2}),
        ("HWIO", (3, 3, 8, 64), ("HWIO", "OIHW", "HWOI", "OHWI"), {"O": 4, "I": 2, "H": 2, "W": 2}),
        ("NCW", (1, 5, 9), ("NCW", "NWC"), {"N": 1, "C": 4, "W": 3}),
        ("Tensor", (3, 300), ("RS", "SR"), {"R": 3, "S": 5}),
    ],
)
def test_what_is_drawn_of_which_value(layout, shape, rows, drawn):
    order = memory_order(layout, shape, 4)
    assert order is not None
    assert (order.rows, order.drawn) == (rows, drawn)
    svg = ElementTree.fromstring(drawing(order))
    words = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert f"{'by rows' if layout == 'Tensor' else layout} (this value)" in words
    cells = math.prod(drawn.values())
    assert words.count("a0") == 1 + len(rows) and words.count(str(4 * (cells - 1))) == len(rows)
    arrows = [path for group in svg.iter() if group.get("marker-end") for path in group]
    assert len(arrows) == cells * (len(rows) - 1)


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        ("Tensor", (1, 2, 3)),
        ("NCHW", (1, "N", 4, 4)),
        ("NCHW", None),
        ("NGCHW", (1, 2, 4, 3, 3)),
        ("NCHW32c", (1,) * 5),
    ],
)
def test_values_without_an_order_have_no_drawing(layout, shape):
    assert memory_order(layout, shape, 4) is None


def test_orders_that_are_the_same_bytes_are_said_to_be():
    assert caption(memory_order("HWOI", (1, 1, 8, 8), 4)).endswith(" HWOI and OIHW and OHWI are the same bytes here.")
    assert caption(memory_order("NHWC", (1, 5, 5, 3), 4)).endswith("the offset of its first byte.")


def test_the_inspector_has_a_drawing_for_images_and_weights_and_a_report_has_each_once():
    history = sample_history("conv_relu_conv_relu", "layout_greedy", target="npu")
    profile = load_profile("npu")
    conv = next(node.name for node in history.graph.nodes if node.op_type.startswith("Conv"))
    content = inspect_element(history, 1, None, conv, target=profile)
    (section,) = (section for section in content["sections"] if section["title"] == "Memory order")
    words = [told["words"].partition(" of ")[0] for told in section["drawings"]]
    assert "NHWC" in words and "HWOI" in words
    view = View(timeline_of(history, profile), "model", profile.layout)
    once = report_html(view, {conv: content})
    assert len(report_html(view, {conv: content, "again": content})) < len(once) + 2_000


@pytest.mark.slow
@pytest.mark.browser
def test_a_layout_is_opened_as_a_picture_from_the_inspector(tab, app):
    words = "model=sample_models/conv_relu_conv_relu.onnx&passes=layout_greedy&target=npu&step=1"
    tab.goto(f"{app[0]}/optimize?{words}")
    settle(tab)
    view = GraphView(tab).rest()
    view.goto_node("op:Conv*")
    tab.get_by_role("button", name="Draw HWOI of").click()
    picture = tab.get_by_role("dialog", name="Memory order")
    picture.get_by_text("HWOI (this value)").wait_for()
    assert picture.locator("svg text").filter(has_text="a0").count() == 4
    selected = view.state["selected"]
    tab.keyboard.press("Escape")
    assert picture.is_hidden() and view.state["selected"] == selected
