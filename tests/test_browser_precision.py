"""The page Precision in a browser: the way there, the run, and the way from its table to the graph."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser import GraphView, go, open_advanced, open_sample, optimized, select, settle
from workbench.formats.io.samples import FOLDER

SAMPLE = FOLDER / "ppocr_cls_v2.onnx"
_HEAD, _ROW = 34, 26  # pixels of the table

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_row_of_the_table_leads_to_its_node_and_the_graph_is_coloured_by_the_errors(page):
    open_sample(page, "ppocr_cls_v2")
    go(page, "Precision")
    page.get_by_role("button", name="Run in both types").click()
    sentence = page.get_by_text("loses most by itself")
    sentence.wait_for()
    settle(page)
    first = sentence.inner_text().split("'")[1]
    table = page.get_by_test_id("stDataFrame").bounding_box()
    page.mouse.click(table["x"] + 60, table["y"] + _HEAD + _ROW / 2)
    settle(page)
    view = GraphView(page)
    view.wait(f"hook => hook.state().selected === {first!r}")
    assert page.get_by_role("alert").count() == 0

    view.wait("hook => hook.state().colouring === 'own:0'")  # without a question: it is what was asked for
    alone = sentence.inner_text().split("itself: ")[1].split(";")[0]
    assert view.box(first)["number"] == alone
    legend = view.ask("hook => hook.legend()")
    assert "error alone, relative, in float16" in legend and alone in legend and "no number" in legend
    inspector = page.locator(".gw-inspector")
    inspector.get_by_text("Accuracy in float16").wait_for()
    assert alone in inspector.inner_text()
    page.get_by_label("Colour by").select_option(label="error cumulative")
    assert view.box(first)["number"] not in ("", alone)

    select(page, page.locator(".st-key-precision_type input"), "int8")
    page.get_by_role("button", name="Run in both types").click()
    page.get_by_text("in int8").first.wait_for()
    settle(page)
    in_int8 = sentence.inner_text().split("'")[1]
    view.open_all()
    assert view.box(in_int8)["number"] in sentence.inner_text() and "in int8" in view.ask("hook => hook.legend()")
    page.get_by_text("ONNX Runtime's static quantizer leaves them in float32").wait_for()


def test_the_links_to_parts_are_readable_beside_the_controls(page):
    open_sample(page, "ppocr_cls_v2")
    go(page, "Optimize")
    links = page.locator(".st-key-part_links a p")
    assert links.all_inner_texts() == ["Layouts", "Precision", "Extract", "Workshop"]
    assert links.evaluate_all("all => all.filter(one => one.scrollWidth > one.clientWidth).length") == 0
    sidebar = page.get_by_test_id("stSidebar").bounding_box()
    for link in links.all():
        place = link.bounding_box()
        assert place["x"] + place["width"] <= sidebar["x"] + sidebar["width"]


def test_the_goal_float16_is_found_by_its_name_and_leads_to_the_page_precision(tab, app):
    view = optimized(tab, app, SAMPLE)
    tab.mouse.click(700, 60)  # beside the view, which has no focus
    tab.keyboard.press("Control+k")
    tab.get_by_role("dialog", name="Command palette").wait_for()
    tab.keyboard.type("goal float16")
    tab.keyboard.press("Enter")
    tab.get_by_text("Largest relative error of an output").wait_for()
    view.wait("hook => hook.legend().includes('float16, narrower than float32')", limit_s=300)  # 60 runs of the model
    assert "max_error%3D0.001" in tab.url
    assert tab.locator(".st-key-part_links a p").all_inner_texts() == ["Layouts", "Extract", "Workshop"]
    tab.get_by_role("link", name="Where accuracy is lost").click()
    tab.wait_for_url("**/precision*")
    tab.get_by_role("button", name="Run in both types").wait_for()


def test_changes_and_passes_are_found_beside_the_whole_model_too(tab, app):
    view = optimized(tab, app, SAMPLE)
    tab.mouse.click(700, 60)
    tab.keyboard.press("Control+k")
    tab.keyboard.type("change hard swish")
    tab.keyboard.press("Enter")
    view.wait("hook => hook.state().step > 0")
    tab.get_by_text("1 of 18").wait_for()
    settle(tab)
    tab.keyboard.press("Control+k")
    tab.get_by_role("dialog", name="Command palette").wait_for()
    tab.keyboard.type("switch fold batch normalization into convolution")
    tab.keyboard.press("Enter")
    tab.wait_for_url(lambda url: "fold_channel_scale" in url and "fold_batchnorm" not in url)
    settle(tab)
    open_advanced(tab)  # where the switch itself is drawn
    box = tab.locator(".st-key-on_fold_batchnorm input")
    expect(box).not_to_be_checked()
    tab.mouse.click(700, 60)
    tab.keyboard.press("Control+k")
    tab.get_by_role("dialog", name="Command palette").wait_for()
    tab.keyboard.type("switch on fold batch normalization into convolution")
    tab.keyboard.press("Enter")
    expect(box).to_be_checked()
    settle(tab)
    assert not tab.locator(".stException").count()
