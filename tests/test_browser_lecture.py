"""The app in front of an audience: keys without a click, the sentence on top, a picture that fills its pane."""

from __future__ import annotations

import pytest

from tests.browser import GraphView, settle
from tests.pages import opened_sample

pytestmark = pytest.mark.browser
NPU = "model=sample_models/npu_path.onnx&target=npu"
PIPELINE = f"{NPU}&passes=fold_constants,layout_record_then_insert,dead_nodes"


@pytest.fixture
def view(tab, app):
    tab.goto(f"{app[0]}/optimize?{PIPELINE}")
    settle(tab)
    return GraphView(tab)


def test_keys_step_at_once_and_the_table_and_the_address_follow(view):
    page = view.page
    assert page.evaluate("document.activeElement.tagName") == "BODY"
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert view.state["rewrite"] == 1
    page.wait_for_function("() => new URL(location).searchParams.get('rewrite') === '1'")
    assert "transposed to NHWC" in page.locator(".gw-sentence").inner_text()
    page.keyboard.press("ArrowUp")
    page.wait_for_function("() => new URL(location).searchParams.get('step') === '0'")
    settle(page)
    page.wait_for_function("() => new URL(location).searchParams.get('step') === '0'")
    assert view.state["step"] == 0


def test_keys_work_after_a_pass_was_switched_and_are_text_in_a_field(view):
    page = view.page
    page.locator(".st-key-on_fold_constants label").click()
    settle(page)
    view.rest()
    page.keyboard.press("Home")
    assert view.state["rewrite"] == 0
    page.locator("input.gw-search").fill("c")
    page.keyboard.press("Home")
    page.keyboard.press("p")
    assert page.locator("input.gw-search").input_value() == "pc"


def test_the_sentence_stands_above_the_picture_and_is_large(view):
    sentence, canvas = view.page.locator(".gw-sentence"), view.canvas
    assert sentence.bounding_box()["y"] < canvas.bounding_box()["y"]
    assert sentence.evaluate("element => parseFloat(getComputedStyle(element).fontSize)") >= 16


def test_the_picture_fits_again_where_the_window_changes_and_nobody_moved_it(view):
    page = view.page
    page.keyboard.press("Escape")
    view.press("Space")
    before = view.state["zoom"]
    page.set_viewport_size({"width": 1000, "height": 600})
    view.rest()
    assert view.state["zoom"] < before
    assert all(view.box(name)["visible"] for name in ("in:input", "to_nhwc_input", "output", "restore_output"))


def test_show_it_selects_what_the_rewrite_made_and_compares_with_the_moment_before(tab, app):
    sample = opened_sample("npu_reshape_add").path
    tab.goto(f"{app[0]}/optimize?model={sample}&target=npu&passes=layout_wrong_on_purpose")
    settle(tab)
    tab.get_by_role("button", name="Show it").click(timeout=60_000)
    settle(tab)
    view = GraphView(tab).rest()
    view.wait("hook => hook.state().selected !== ''")
    state = view.state
    assert state["compare"] == "rewrite"
    assert view.box(state["selected"])["visible"]
