"""The first minute in a real browser: the numbered way, files dropped anywhere, samples that bring their own pipeline."""

from __future__ import annotations

import base64
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser import GraphView, go, open_sample, page_link, settle
from workbench.io.samples import FOLDER

pytestmark = pytest.mark.browser
DROP = """([name, data]) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], name));
    for (const kind of ["dragover", "drop"]) {
        document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }
}"""


def drop(page, name: str, data: bytes) -> None:
    with page.expect_response(lambda answer: "/upload_file/" in answer.url):
        page.evaluate(DROP, [name, base64.b64encode(data).decode()])
    settle(page)


def query(page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


@pytest.mark.slow
def test_the_way_is_numbered_and_next_leads_along_it(page):
    page.get_by_text("opens a neural network, shows what every optimization does").wait_for()
    for name in ("1 Open", "2 Optimize", "3 Measure", "4 Export", "Lessons", "Layouts", "Memory"):
        assert page.get_by_role("link", name=name, exact=True).is_visible(), name
    for name in ("2 Optimize", "3 Measure", "4 Export", "1 Open"):
        page.get_by_role("button", name=f"Next: {name}").click()
        settle(page)
        expect(page_link(page, name.split()[1])).to_have_attribute("aria-current", "page", timeout=30_000)
    go(page, "Lanes")
    page.get_by_role("button", name="Back to 2 Optimize").click()
    settle(page)
    GraphView(page)


@pytest.mark.slow
def test_a_file_dropped_on_any_page_opens_and_a_broken_one_is_a_sentence(page):
    go(page, "Export")
    drop(page, "mine.onnx", (FOLDER / "npu_path.onnx").read_bytes())
    page.get_by_text("mine.onnx · 1 node · 1,152 parameters").wait_for()
    assert page_link(page, "Open").get_attribute("aria-current") == "page"
    go(page, "Matrix")
    drop(page, "broken.onnx", b"no model")
    assert "broken.onnx" in page.get_by_role("alert").inner_text()
    page.get_by_text("mine.onnx · 1 node").wait_for()


@pytest.mark.slow
def test_a_sample_brings_its_pipeline_and_the_next_one_does_not_keep_it(page):
    open_sample(page, "npu_path")
    page.wait_for_url(lambda url: "passes=" in url)  # the script of the page writes it, after the page that opened it
    asked = query(page)
    assert (asked["passes"], asked["target"]) == (["layout{strategy=record-then-insert}"], ["npu"])
    page.reload()
    settle(page)
    go(page, "Open")
    open_sample(page, "ppocr_cls_v2")
    go(page, "Optimize")
    assert query(page)["target"] == ["cuda"] and "fold_batchnorm" in query(page)["passes"][0]
    page.locator(".st-key-strategy").get_by_text("greedy", exact=True).click()
    settle(page)
    go(page, "Open")
    open_sample(page, "resnet50_narrow")
    go(page, "Optimize")
    assert page.locator(".st-key-strategy").get_by_role("radio", name="greedy").is_checked()  # the user's own choice


def turn(page, key: str, stop: int) -> None:
    page.keyboard.press(key)
    page.get_by_text(f"stop {stop} of 5").wait_for()
    settle(page)


@pytest.mark.slow
def test_a_lesson_is_gone_through_by_keys_and_tried_on_optimize(page):
    go(page, "Lessons")
    page.locator(".st-key-begin_why_a_transpose button").click()
    settle(page)
    turn(page, "PageDown", 2)
    GraphView(page).wait("hook => hook.state().selected === 'to_nhwc_input' && hook.state().step === 1")
    page.keyboard.press("ArrowRight")  # at once, without a click on the graph
    GraphView(page).wait("hook => hook.state().rewrite === 2")
    page.keyboard.press("ArrowLeft")
    GraphView(page).wait("hook => hook.state().rewrite === 1")
    page.keyboard.press("a")
    page.get_by_text("is the order from before").wait_for()
    turn(page, "PageDown", 3)
    turn(page, "PageDown", 4)
    page.locator(".gw-inspector").get_by_text("12,544 elements").first.wait_for()  # of this moment
    turn(page, "PageUp", 3)
    page.locator(".gw-inspector").get_by_text("workbench.Conv_NHWC_HWOI output").wait_for()
    turn(page, "PageUp", 2)
    page.get_by_role("button", name="Try it in 2 Optimize").click()
    settle(page)
    page.wait_for_url(lambda url: "passes=" in url and "rewrite=1" in url and "node=to_nhwc_input" in url)
    asked = query(page)
    assert (asked["passes"], asked["rewrite"], asked["node"]) == (
        ["layout{strategy=record-then-insert}"],
        ["1"],
        ["to_nhwc_input"],
    )


def test_a_lesson_in_one_file_is_gone_through_by_keys(browser, done, tmp_path):
    file = tmp_path / "lesson.html"
    done("lesson", "export", "memory", "-o", file)
    with browser.new_context(offline=True) as context:
        page, errors = context.new_page(), []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(file.as_uri())
        GraphView(page).wait("hook => hook.state().selected === 'B'")
        page.keyboard.press("PageDown")
        assert page.locator("#place").inner_text() == "stop 2 of 9"
        GraphView(page).wait("hook => hook.state().selected === 'F'")
        page.keyboard.press("a")
        assert page.locator("section:not([hidden]) details").get_attribute("open") is not None
        assert page.locator("section:not([hidden]) svg").is_visible()
        page.reload()
        assert page.locator("#place").inner_text() == "stop 2 of 9"
        assert not errors
