"""The first minute in a real browser: the numbered way, files dropped anywhere, samples that bring their own pipeline."""

from __future__ import annotations

import base64
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests import journeys
from tests.browser import GraphView, choose_strategy, go, open_sample, page_link, settle, watched_page
from workbench.evidence.verification.pass_files.pass_template import new_pass_text
from workbench.formats.io.samples import FOLDER
from workbench.planning.layout.profile import machine_target

pytestmark = pytest.mark.browser
DROP = """(files) => {
    const transfer = new DataTransfer();
    for (const [name, data] of files) {
        transfer.items.add(new File([Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))], name));
    }
    for (const kind of ["dragover", "drop"]) {
        document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }
}"""


def drop(page, files: dict[str, bytes]) -> None:
    with page.expect_response(lambda answer: "/upload_file/" in answer.url):
        page.evaluate(DROP, [[name, base64.b64encode(data).decode()] for name, data in files.items()])
    settle(page)


def query(page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


@pytest.mark.slow
def test_the_way_is_numbered_and_next_leads_along_it(page):
    page.get_by_text("opens a neural network, shows what every optimization does").wait_for()
    for name in ("1 Open", "2 Optimize", "3 Measure", "4 Export", "Compare", "Memory", "Learn"):
        assert page.get_by_role("link", name=name, exact=True).is_visible(), name
    for name in ("2 Optimize", "3 Measure", "4 Export"):
        page.get_by_role("button", name=f"Next: {name}").click()
        settle(page)
        expect(page_link(page, name.split()[1])).to_have_attribute("aria-current", "page")
    expect(page.get_by_test_id("stSidebar")).to_be_hidden()  # nothing is in it here
    assert page.get_by_role("button", name="Next: ").count() == 0
    go(page, "Streams")
    page.get_by_role("button", name="Back to 2 Optimize").click()
    settle(page)
    GraphView(page)
    page.get_by_text("For a hardware layout", exact=True).click()
    settle(page)
    assert "layout{strategy=optimal}" in query(page)["passes"][0]
    page.locator("[data-testid=stMainMenu] button").first.click()
    page.get_by_role("menuitemradio", name="Dark").click()
    page.keyboard.press("Escape")
    go(page, "Memory")
    page.reload()  # Streamlit keeps the theme of the page that was loaded
    settle(page)
    background = page.locator("[data-testid=stApp]").evaluate("app => getComputedStyle(app).backgroundColor")
    assert max(map(int, re.findall("[0-9]+", background)[:3])) < 64, background


@pytest.mark.slow
def test_a_file_dropped_on_any_page_opens_and_a_broken_one_is_a_sentence(page):
    go(page, "Export")
    drop(page, {"mine.onnx": (FOLDER / "npu_path.onnx").read_bytes()})
    page.get_by_text("mine.onnx · 1 node · 1,152 parameters").wait_for()
    assert page_link(page, "Open").get_attribute("aria-current") == "page"
    go(page, "Matrix")
    drop(page, {"broken.onnx": b"no model"})
    assert "broken.onnx" in page.get_by_role("alert").inner_text()
    page.get_by_text("mine.onnx · 1 node").wait_for()
    drop(page, {"from_a_colleague.py": new_pass_text("from_a_colleague").encode()})
    page.wait_for_url(lambda url: "/workshop" in url)
    text = page.locator(".st-key-workshop_text textarea")
    expect(text).to_have_value(re.compile("class FromAColleague"))
    page.get_by_text("checks passed").wait_for()

    first, second = ((FOLDER / f"{stem}.onnx").read_bytes() for stem in ("npu_path", "conv_relu_conv_relu"))
    drop(page, {"first.onnx": first, "second.onnx": second})
    said = page.get_by_role("alert").inner_text()
    assert said.endswith("'first.onnx' is open, and 'second.onnx' is beside it on Compare.")
    go(page, "Compare")
    GraphView(page).wait("hook => hook.boxes().length > 4")
    assert page.get_by_text("second.onnx").count()
    page.get_by_role("button", name="Path of another").click()
    field = page.get_by_label("Path of another model on this machine")
    field.fill(str(FOLDER / "npu_reshape_add.onnx"))
    page.get_by_role("button", name="Compare", exact=True).click()
    settle(page)
    expect(field).to_be_hidden()  # it would cover the graph


@pytest.mark.slow
def test_a_sample_brings_its_pipeline_and_the_next_one_does_not_keep_it(page):
    open_sample(page, "npu_path")
    page.wait_for_url(lambda url: "passes=layout%7B" in url)  # the script of the page writes it, as its text
    asked = query(page)
    assert (asked["passes"], asked["target"]) == (["layout{strategy=record-then-insert}"], ["npu"])
    page.reload()
    settle(page)
    go(page, "Open")
    open_sample(page, "ppocr_cls_v2")
    go(page, "Optimize")
    assert query(page)["target"] == [machine_target()] and query(page)["passes"][0] == "simplify"
    choose_strategy(page, "greedy")
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
    assert GraphView(page).state["rewrite"] == 1
    page.keyboard.press("a")
    page.get_by_text("is the order from before").wait_for()
    turn(page, "PageDown", 3)
    turn(page, "PageDown", 4)
    page.locator(".gw-sentence").get_by_text("3 rewrites").wait_for()  # the whole step
    turn(page, "PageUp", 3)
    turn(page, "PageUp", 2)
    page.get_by_role("button", name="Open in Optimize").click()
    settle(page)
    page.wait_for_url(lambda url: "strategy%3Drecord" in url and "rewrite=1" in url and "node=to_nhwc_input" in url)
    asked = query(page)
    assert (asked["passes"], asked["rewrite"], asked["node"]) == (
        ["layout{strategy=record-then-insert}"],
        ["1"],
        ["to_nhwc_input"],
    )


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_is_drawn_stays_where_it_is(browser, app):
    """0.1 is what web.dev calls good. `benchmarks/first_minute.py` has all pages; these moved most."""
    shifts = {}
    for name in ("open", "optimize", "memory", "lessons", "precision", "workshop", "lockstep"):
        with watched_page(browser) as page:
            page.add_init_script(journeys.WATCH_SHIFTS)
            shifts[name] = journeys.layout_shift(page, f"{app[0]}/{name}?model=sample_models/resnet50_narrow.onnx")
    assert {name: shift for name, shift in shifts.items() if shift > 0.1} == {}


@pytest.mark.slow
def test_a_new_page_gets_few_messages(page, app):
    """What is folded is not sent: 56 messages where there were 521."""
    received = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(frame)))
    page.goto(f"{app[0]}/optimize?model=sample_models/resnet50_narrow.onnx&verify=off")
    settle(page)
    GraphView(page)
    assert len(received) < 100
