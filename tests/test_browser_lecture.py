"""The app in front of an audience: keys without a click, the sentence on top, a picture that fills its pane."""

from __future__ import annotations

import pytest
from PIL import Image

from tests.browser import GraphView, open_advanced, press_more, settle, watched_page
from tests.pages import opened_sample

pytestmark = pytest.mark.browser
NPU = "model=sample_models/npu_path.onnx&target=npu"
PIPELINE = f"{NPU}&passes=fold_constants,layout_record_then_insert,dead_nodes&step=2"


@pytest.fixture
def view(tab, app):
    tab.goto(f"{app[0]}/optimize?{PIPELINE}")
    settle(tab)
    return GraphView(tab)


@pytest.mark.slow
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


@pytest.mark.slow
def test_keys_work_after_a_pass_was_switched_and_are_text_in_a_field(view):
    page = view.page
    open_advanced(page)
    page.locator(".st-key-on_fold_constants label").click()
    settle(page)
    view.rest()
    page.keyboard.press("Home")
    assert view.state["rewrite"] == 0
    page.locator("input.gw-search").fill("c")
    page.keyboard.press("Home")
    page.keyboard.press("p")
    assert page.locator("input.gw-search").input_value() == "pc"


@pytest.mark.slow
def test_the_sentence_stands_above_the_picture_and_is_large(view):
    sentence, canvas = view.page.locator(".gw-sentence"), view.canvas
    assert sentence.bounding_box()["y"] < canvas.bounding_box()["y"]
    assert sentence.evaluate("element => parseFloat(getComputedStyle(element).fontSize)") >= 16


@pytest.mark.slow
def test_the_picture_fits_again_where_the_window_changes_and_nobody_moved_it(view):
    page = view.page
    page.keyboard.press("Escape")
    view.press("Space")
    before = view.state["zoom"]
    page.set_viewport_size({"width": 1000, "height": 600})
    view.rest()
    assert view.state["zoom"] < before
    assert all(view.box(name)["visible"] for name in ("in:input", "to_nhwc_input", "output", "restore_output"))


@pytest.mark.slow
def test_show_it_selects_what_the_rewrite_made_and_compares_with_the_moment_before(tab, app):
    sample = opened_sample("npu_reshape_add").path
    tab.goto(f"{app[0]}/optimize?model={sample}&target=npu&passes=layout_wrong_on_purpose")
    settle(tab)
    tab.get_by_role("button", name="Show it").click()
    settle(tab)
    view = GraphView(tab).rest()
    view.wait("hook => hook.state().selected !== ''")
    state = view.state
    assert state["compare"] == "rewrite"
    assert view.box(state["selected"])["visible"]


def saved_as(page, kind: str):
    with page.expect_download() as coming:
        press_more(page, kind.upper())
    return coming.value


@pytest.mark.slow
def test_a_step_is_saved_as_a_gif_and_as_a_picture_with_its_reason_and_the_view_stays(view, tmp_path):
    view.rest()
    before = view.state
    saved_as(view.page, "gif").save_as(tmp_path / "step.gif")
    with Image.open(tmp_path / "step.gif") as gif:
        assert (gif.format, gif.n_frames) == ("GIF", 4)
        frames = []
        for number in range(gif.n_frames):
            gif.seek(number)
            frames.append(gif.convert("RGB").copy())
    assert len({frame.tobytes() for frame in frames}) == 4
    colours = {colour for _, colour in frames[-1].getcolors(1 << 24)}
    assert any(abs(r - 0xFF) + abs(g - 0xDA) + abs(b - 0xB9) < 24 for r, g, b in colours)  # the target's layout
    assert {key: view.state[key] for key in ("step", "t", "compare", "zoom")} == {
        key: before[key] for key in ("step", "t", "compare", "zoom")
    }
    drawn = saved_as(view.page, "svg").path().read_text(encoding="utf-8")
    assert view.page.locator(".gw-sentence").inner_text()[:40] in drawn and "before this step" in drawn


@pytest.mark.slow
def test_the_link_is_copied_and_the_report_downloaded(view, browser, tmp_path):
    page = view.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.keyboard.press("Home")
    press_more(page, "Copy link")
    page.locator(".gw-message").get_by_text("The link is copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.evaluate("location.href")
    settle(page)
    page.get_by_role("button", name="As command").click()
    settle(page)  # a file that is made on the click is not made while the page runs again
    with page.expect_download() as coming:
        page.get_by_role("button", name="Download the report (HTML)").click()
    coming.value.save_as(tmp_path / "report.html")
    with watched_page(browser) as alone:
        alone.goto((tmp_path / "report.html").as_uri())
        report = GraphView(alone)
        alone.keyboard.press("Home")
        alone.keyboard.press("ArrowRight")
        assert report.state["rewrite"] == 1
