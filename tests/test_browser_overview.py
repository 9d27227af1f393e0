"""The whole graph at first sight: its share of the screen, boxes that open where they are, bars that lead to nodes."""

from __future__ import annotations

import json

import pytest

from tests.browser import SCREEN, GraphView, go, open_sample, optimized, settle, show_in_graph, watched_page
from tests.conftest import CORPUS
from tests.slow import thorough_unless
from workbench.formats.io.samples import FOLDER

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NARROW = FOLDER / "resnet50_narrow.onnx"
MIN_SHARE = 0.6  # of the height of the screen, for the panes
SHARES = {"": 0.55, "memory": 0.45, "layouts": 0.55, "streams": 0.6, "extract": 0.6}  # by page, beside tables and forms
FEW, MANY = 5, 30  # boxes at first sight, inputs and outputs among them
LETTERS = 11  # px of height, at least


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (1920, 1080), (900, 768)])
def test_the_graph_has_most_of_the_screen_and_nothing_of_it_is_below(browser, app, width, height):
    with watched_page(browser) as page:
        page.set_viewport_size({"width": width, "height": height})
        view = optimized(page, app, NARROW)
        canvas = view.canvas.bounding_box()
        assert canvas["height"] >= MIN_SHARE * height
        assert canvas["y"] + canvas["height"] <= height
        if width >= SCREEN["width"]:
            page.locator("[class*=st-key-show_kind_] button").first.click()
            settle(page)
            canvas = GraphView(page).rest().canvas.bounding_box()
            assert canvas["height"] >= MIN_SHARE * height, "with a rewrite open"
            assert canvas["y"] + canvas["height"] <= height
        if width >= SCREEN["width"]:  # on a narrower one the link is in a menu
            go(page, "Compare")
            canvas = GraphView(page).rest().canvas.bounding_box()
            assert canvas["height"] >= MIN_SHARE * height
            assert canvas["y"] + canvas["height"] <= height
        for path, share in SHARES.items():
            page.goto(f"{app[0]}/{path}?model={NARROW}")
            settle(page, limit_s=300)
            assert GraphView(page).rest().canvas.bounding_box()["height"] >= share * height, path or "open"


def test_on_a_phone_the_graph_is_in_the_first_screen_or_one_touch_away(browser, app):
    with watched_page(browser, has_touch=True, is_mobile=True) as page:
        page.set_viewport_size({"width": 390, "height": 844})
        view = optimized(page, app, FOLDER / "npu_path.onnx", passes="layout_greedy", target="npu")
        canvas = view.canvas.bounding_box()
        assert canvas["y"] < 420
        assert canvas["x"] >= 0 and canvas["x"] + canvas["width"] <= 390
        assert view.box("output")["y"] > canvas["y"] + canvas["height"] / 2, "the result is below the original"
        original, result = page.locator(".gw-pane-label").all()
        assert result.bounding_box()["y"] > original.bounding_box()["y"] + canvas["height"] / 3
        box = view.box("output")
        page.touchscreen.tap(box["x"] + box["w"] / 2, box["y"] + box["h"] / 2)
        view.wait("hook => hook.state().selected === 'output'")
        inspector = page.locator(".gw-inspector").bounding_box()
        assert inspector["width"] > 300 and inspector["y"] > view.canvas.bounding_box()["y"] + 100
        go_to_graph = page.get_by_role("link", name="Skip to the graph")
        page.goto(f"{app[0]}/?model={FOLDER / 'npu_path.onnx'}")
        settle(page)
        assert GraphView(page).canvas.bounding_box()["y"] > 844
        go_to_graph.tap()
        page.wait_for_function(
            "canvas => canvas.getBoundingClientRect().bottom <= innerHeight", arg=view.canvas.element_handle()
        )


@pytest.mark.parametrize(
    "stem",
    [
        "open_nsfw_resnet",
        "ppocrv4_rec",
        *(thorough_unless(False, name) for name in ("basic_pitch_nmp", "bert_12l_raw", "ppocrv4_det", "unet_sd15_raw")),
    ],
)
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real models is not on this machine")
def test_a_real_model_is_few_boxes_whose_names_can_be_read(tab, app, stem):
    view = optimized(tab, app, CORPUS / f"{stem}.onnx")
    assert FEW <= len(view.ask("hook => hook.drawn()")) <= MANY
    groups = [box for box in view.ask("hook => hook.boxes()") if box.startswith("group:")]
    closed = [group for group in groups if not view.box(group).get("open")]
    assert len(closed) >= 3
    for group in closed:
        box = view.box(group)
        assert box["w"] >= 60 and box["h"] >= 2 * LETTERS, f"{group} has no room for its name and its shape"


def closed_group(view: GraphView) -> str:
    groups = [box for box in view.ask("hook => hook.boxes()") if box.startswith("group:bottleneck")]
    return next(group for group in groups if not view.box(group).get("open"))


def test_a_group_opens_where_it_is_by_a_double_click_and_stays_open(tab, app):
    view = optimized(tab, app, NARROW)
    group = closed_group(view)
    before = view.box(group)
    tab.mouse.dblclick(before["x"] + before["w"] / 2, before["y"] + before["h"] / 2)
    view.wait(f"hook => hook.box({json.dumps(group)}).open")
    assert view.rest().state["selected"] == group
    stage = view.canvas.bounding_box()
    opened = view.box(group)
    assert stage["x"] <= opened["x"] and stage["y"] <= opened["y"], "its upper left corner is in sight"
    view.press("Space")
    after = view.rest().box(group)
    assert after["open"]
    assert stage["x"] <= after["x"] and after["x"] + after["w"] <= stage["x"] + stage["width"]


def test_a_group_opens_once_it_is_zoomed_in_to(tab, app):
    view = optimized(tab, app, NARROW)
    group = closed_group(view)
    box = view.box(group)
    tab.mouse.move(box["x"] + box["w"] / 2, box["y"] + box["h"] / 2)
    tab.keyboard.down("Control")
    for _ in range(4):
        tab.mouse.wheel(0, -120)
    tab.keyboard.up("Control")
    view.wait(f"hook => hook.box({json.dumps(group)}).open")


def test_a_colouring_shows_on_closed_groups_too(tab, app):
    view = optimized(tab, app, NARROW)
    before = view.canvas.screenshot()
    tab.get_by_label("Colour by").select_option(label="Operator category")
    view.wait("hook => hook.state().colouring === 'category'")
    assert view.rest().canvas.screenshot() != before


def test_a_rewrite_in_a_closed_group_is_shown_and_can_be_read(tab, app):
    view = optimized(tab, app, NARROW, passes="fold_batchnorm", step="1")
    assert not any(id_ == "n171" for id_ in view.boxes)
    view.press("ArrowLeft")
    view.wait("hook => hook.framed().length && hook.framed().every(id => !id.startsWith('group:'))")
    view.rest()
    assert view.state["zoom"] >= 0.45
    framed = view.ask("hook => hook.framed()")
    assert framed and view.box(framed[0])["visible"]


def test_a_bar_of_where_the_time_went_leads_to_its_nodes_in_the_graph(page):
    open_sample(page, "resnet50_narrow")
    go(page, "Measure")  # the original alone: changes have no bars on a busy machine
    page.get_by_label("Repetitions", exact=True).fill("3")
    page.get_by_role("button", name="Measure", exact=True).click()
    settle(page)
    page.get_by_role("tab", name="Where the time went").click()
    page.get_by_text("Show in the graph").wait_for()
    show_in_graph(page, "Conv")
    view = GraphView(page)
    view.wait("hook => hook.state().query === 'op:Conv' && hook.state().hits > 0 && hook.state().colouring === 'query'")
    assert "/optimize" in page.url
    go(page, "Measure")
    assert "/run" in page.url, "the choice is not made again on the way back"


def test_the_palette_leads_to_passes_nodes_actions_and_pages(tab, app):
    view = optimized(tab, app, NARROW, passes="sum_to_add,fold_batchnorm", step="0")
    tab.mouse.click(700, 60)  # beside the view, which has no focus

    def choose(text: str) -> None:
        tab.keyboard.press("Control+k")
        tab.get_by_role("dialog", name="Command palette").wait_for()
        tab.keyboard.type(text)
        tab.keyboard.press("Enter")

    choose("pass fold batch")
    view.wait("hook => hook.state().step === 2")
    choose("n25")
    view.wait("hook => hook.state().selected === 'n25' && hook.state().zoom >= 0.45")
    choose("one pane, two")
    view.wait("hook => hook.state().panes === 1")
    choose("op:Relu")
    view.wait("hook => hook.state().query === 'op:Relu' && hook.state().hits > 0")
    tab.keyboard.press("Control+k")
    tab.keyboard.press("Escape")
    assert tab.get_by_role("dialog", name="Command palette").is_hidden()
    choose("page memory")
    tab.wait_for_url("**/memory*")


def test_the_palette_opens_on_pages_without_a_graph_too(tab, app):
    tab.goto(f"{app[0]}/runs?model={NARROW}")
    settle(tab)

    def offered(text: str) -> str:
        tab.keyboard.press("Control+k")
        tab.get_by_role("dialog", name="Command palette").wait_for()
        tab.keyboard.type(text)
        return tab.get_by_role("option").first.text_content() or ""

    assert "3 Measure (bench)" in offered("bench")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/run?*")
    settle(tab)
    assert offered("action measure").startswith("action")
    tab.keyboard.press("Escape")
    assert tab.get_by_role("dialog", name="Command palette").is_hidden()
    assert "Runs" in offered("page runs")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/runs?*")


@pytest.mark.slow
def test_what_is_selected_is_cut_out_with_two_clicks(tab, app):
    view = optimized(tab, app, NARROW, passes="sum_to_add", step="0", verify="off")
    view.goto_node("n25")
    tab.get_by_role("button", name="Extract", exact=True).click()
    tab.wait_for_url("**/extract*")
    settle(tab)
    tab.get_by_role("button", name="Cut it out").click()
    tab.get_by_text("1 node of 176").wait_for()  # a process with torch begins first
    GraphView(tab).wait("hook => hook.state().selected === 'n25'")
