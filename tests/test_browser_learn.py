"""Learn in a real browser: every question is answerable from the picture; presenting; keys; the way to the next lesson."""

from __future__ import annotations

import contextlib
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from passes import find_pass
from tests.browser import SCREEN, GraphView, settle, watched_page
from tests.slow import thorough_unless
from workbench.interfaces.lessons import find_lesson, shipped_lessons
from workbench.interfaces.lessons.exporting import lesson_html
from workbench.interfaces.lessons.playing import play
from workbench.planning.fusion.opened_groups import OpenedGroups

pytestmark = pytest.mark.browser
TEXT_PX = 11  # of the smallest text of a box at zoom 1
NAMES = [lesson.name for lesson in shipped_lessons()]
SHOWN = ("two_orders", "algebra", "memory", "where_are_the_casts")  # layouts, equations, pictures, types
OVERFLOWS = """() => ["[data-testid=stMain]", ".st-key-lesson_question", ".st-key-lesson_about"].map((name) => {
    const element = document.querySelector(name);
    return element.scrollHeight - element.clientHeight;
})"""
DRAWING = """() => {
    const image = document.querySelector(".st-key-lesson_beside img");
    if (!image) return null;
    const [box, pane] = [image, image.closest(".st-key-lesson_beside")].map((element) => element.getBoundingClientRect());
    const drawn = new DOMParser().parseFromString(atob(image.src.split(",")[1]), "image/svg+xml");
    const sizes = [...drawn.querySelectorAll("text")].map((text) => Number(text.getAttribute("font-size")));
    const [width, height] = ["width", "height"].map((name) => Number(drawn.documentElement.getAttribute(name)));
    return { text: Math.min(...sizes) * Math.min(box.width / width, box.height / height), below: box.bottom - pane.bottom };
}"""


def query(page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def at_stop(page, number: int, of: int) -> GraphView:
    page.get_by_text(f"stop {number} of {of}").wait_for()
    settle(page)
    return GraphView(page).rest()


def assert_in_sight(view: GraphView, names) -> None:
    """All of these boxes are in the last pane as a whole. Both panes have one camera."""
    canvas, panes = view.canvas.bounding_box(), view.state["panes"]
    left = canvas["x"] + (canvas["width"] / 2 if panes == 2 else 0)
    for name in names:
        box = view.box(name)
        assert box is not None, name
        assert left <= box["x"] and box["x"] + box["w"] <= canvas["x"] + canvas["width"], (name, box)
        assert canvas["y"] <= box["y"] and box["y"] + box["h"] <= canvas["y"] + canvas["height"], (name, box)


def in_sight(view: GraphView, name: str) -> bool:
    with contextlib.suppress(AssertionError):
        assert_in_sight(view, [name])
        return True
    return False


def assert_answer_in_sight(view: GraphView, played) -> None:
    """What the stop frames, else the whole graph, and each node that the question or the answer names."""
    stop, boxes = played.stop, view.boxes
    ids = {f"in:{value}" for value in played.graph.inputs} | {f"out:{value}" for value in played.graph.outputs}
    graphs = [played.graph, *([played.history.before(played.step)] if played.panes == 2 else [])]
    nodes = [node for graph in graphs for node in OpenedGroups(graph).opened.nodes]
    wanted = set(stop.frame) or ids | {node.name for node in nodes}
    said = set(re.findall(r"[\w.]+", f"{stop.question} {stop.answer}".replace("'", " ")))
    assert_in_sight(view, {stop.node} | {name for name in wanted if name in boxes})
    assert_in_sight(
        view, {node.name for node in nodes if node.name in said and len(node.name) > 1 and node.name in boxes}
    )
    for op in {node.op.removeprefix("workbench.") for node in nodes} & said:
        of_op = [node.name for node in nodes if node.op.removeprefix("workbench.") == op and node.name in boxes]
        assert not of_op or any(in_sight(view, name) for name in of_op), (stop.title, op)
    if played.panes == 2 and played.rewrites is not None:  # what one rewrite did
        assert_in_sight(
            view, {box for box in boxes if view.box(box)["mark"] in set("+-~") and not box.startswith("group")}
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", [thorough_unless(name in SHOWN, name) for name in NAMES])
def test_a_teacher_goes_through_the_lesson_and_every_answer_is_in_the_picture(tab, app, name):
    if name == "saturation" and find_pass("saturate_algebra").missing():
        pytest.skip(find_pass("saturate_algebra").missing())
    lesson = find_lesson(name)
    played = play(lesson)
    last = len(lesson.stops)
    tab.set_viewport_size({"width": 1366, "height": 768})
    tab.goto(f"{app[0]}/lessons?lesson={name}")
    for number, stop in enumerate(lesson.stops, 1):
        view = at_stop(tab, number, last)
        if number > 1:
            assert query(tab) == {"lesson": [name], "stop": [str(number)]}
        assert view.state["zoom"] * TEXT_PX >= TEXT_PX, (number, view.state["zoom"])
        assert_answer_in_sight(view, played[number - 1])
        drawing = tab.evaluate(DRAWING)
        assert drawing is None or (drawing["text"] >= TEXT_PX and drawing["below"] <= 0), (number, drawing)
        assert view.canvas.bounding_box()["height"] >= 0.6 * SCREEN["height"], number
        assert view.state["selected"] == stop.node
        marks = {view.box(id_)["mark"] for id_ in view.boxes}
        assert view.state["panes"] == 1 or marks & set("+-~"), f"before and after look alike at stop {number}"
        tab.keyboard.press("a")
        tab.get_by_role("button", name="Hide the answer").wait_for()
        settle(tab)
        assert max(tab.evaluate(OVERFLOWS)) <= 0, number
        assert tab.locator(".st-key-lesson_question").bounding_box()["y"] < SCREEN["height"] - 40
        tab.keyboard.press("PageDown")
    following = NAMES[NAMES.index(name) + 1 :][:1]
    if following:
        at_stop(tab, 1, len(find_lesson(following[0]).stops))
        assert query(tab) == {"lesson": following, "stop": ["1"]}
    else:
        tab.locator(".st-key-begin_two_orders").wait_for()


@pytest.mark.slow
def test_keys_pressed_faster_than_stops_are_drawn_are_as_many_stops(tab, app):
    tab.goto(f"{app[0]}/lessons?lesson=memory&stop=1")
    at_stop(tab, 1, 9)
    for _ in range(5):
        tab.keyboard.press("PageDown")
    at_stop(tab, 6, 9)
    for key in ("ArrowLeft", "PageUp", "ArrowLeft", "PageUp", "ArrowRight"):
        tab.keyboard.press(key)
    at_stop(tab, 3, 9)
    for _ in range(4):
        tab.keyboard.press("PageUp")
    at_stop(tab, 1, 9)
    settle(tab)
    tab.keyboard.press("PageDown")
    at_stop(tab, 2, 9)


@pytest.mark.slow
def test_a_lesson_has_no_controls_of_the_graph_and_the_arrow_keys_turn_its_stops(tab, app):
    tab.goto(f"{app[0]}/lessons?lesson=why_a_transpose&stop=3")
    view = at_stop(tab, 3, 5)
    for part in ("toolbar", "where", "playbar", "side", "search"):
        expect(tab.locator(f".gw-{part}").first).to_be_hidden()
    assert tab.locator(".wb-key").evaluate("element => getComputedStyle(element).fontSize") == "28px"
    assert tab.locator(".gw-sentence").is_visible() and tab.locator(".gw-legend").is_visible()
    moment = view.state["t"]
    view.press("ArrowUp", "Home", "i", "t")
    assert (view.state["t"], view.state["step"]) == (moment, 1)
    tab.keyboard.press("ArrowRight")
    at_stop(tab, 4, 5)
    tab.keyboard.press("ArrowLeft")
    at_stop(tab, 3, 5)
    tab.reload()
    at_stop(tab, 3, 5)
    tab.go_back()
    tab.get_by_role("button", name="Present").focus()
    assert (
        tab.get_by_role("button", name="Present").evaluate("element => getComputedStyle(element).boxShadow") != "none"
    )


@pytest.mark.slow
def test_presenting_has_a_clock_and_notes_and_survives_a_reload(tab, app):
    tab.goto(f"{app[0]}/lessons?lesson=why_a_transpose&stop=1")
    at_stop(tab, 1, 5)
    tab.keyboard.press("?")
    expect(tab.get_by_role("dialog")).to_contain_text("after the last one the next lesson")
    expect(tab.get_by_role("dialog")).to_contain_text("present: larger letters, the notes, a clock")
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("dialog")).to_be_hidden()
    settle(tab)
    tab.keyboard.press("p")
    tab.get_by_text("Ask who chose this order").wait_for()
    settle(tab)
    expect(tab.get_by_test_id("stHeader")).to_be_hidden()
    assert tab.locator(".wb-key").evaluate("element => getComputedStyle(element).fontSize") == "34px"
    clock = tab.get_by_role("timer")
    expect(clock).to_have_text(re.compile(r"0:0[2-9]"))
    tab.keyboard.press("ArrowRight")
    at_stop(tab, 2, 5)
    assert query(tab) == {"lesson": ["why_a_transpose"], "stop": ["2"], "present": ["1"]}
    tab.get_by_text("Let somebody apply both permutations").wait_for()
    tab.keyboard.press("n")
    expect(tab.get_by_text("Let somebody apply both permutations")).to_be_hidden()
    tab.reload()
    at_stop(tab, 2, 5)
    expect(clock).not_to_have_text(re.compile(r"^0:0[01]$"))
    tab.keyboard.press("Escape")
    expect(tab.get_by_test_id("stHeader")).to_be_visible()
    settle(tab)
    assert "present" not in query(tab)


@pytest.mark.slow
def test_the_first_screen_offers_the_lessons(page):
    page.get_by_role("link", name=re.compile("New here. Learn has 16 lessons")).click()
    page.locator(".st-key-begin_two_orders button").click()
    at_stop(page, 1, 3)
    assert query(page) == {"lesson": ["two_orders"], "stop": ["1"]}


_NOTES_CUT_TEXTS = """
window.cutTexts = new Set();
const paint = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
  if (String(text).endsWith("\u2026")) window.cutTexts.add(text);
  return paint.call(this, text, ...place);
};
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["insert_and_cancel", "where_are_the_casts"])
def test_the_file_of_a_lesson_cuts_no_name_in_the_fonts_of_its_reader(browser, tmp_path, name):
    lesson = find_lesson(name)
    (tmp_path / "lesson.html").write_text(lesson_html(lesson, play(lesson)))
    with watched_page(browser) as alone:
        alone.add_init_script(_NOTES_CUT_TEXTS)
        alone.set_viewport_size({"width": 1366, "height": 768})
        alone.goto((tmp_path / "lesson.html").as_uri())
        for number in range(1, len(lesson.stops) + 1):
            alone.locator("#place").get_by_text(f"stop {number} of ").wait_for()
            GraphView(alone).rest()
            alone.evaluate("cutTexts.clear()")  # what was drawn before the fonts were there
            GraphView(alone).press("+", "-")
            GraphView(alone).rest()
            assert alone.evaluate("[...cutTexts]") == [], number
            alone.keyboard.press("PageDown")


@pytest.mark.slow
def test_the_file_of_a_lesson_shows_the_same_pictures_is_presented_and_leads_to_the_next(browser, tmp_path):
    lesson, following = find_lesson("algebra"), find_lesson("fusion")
    (tmp_path / "algebra.html").write_text(lesson_html(lesson, play(lesson), "fusion.html"))
    (tmp_path / "fusion.html").write_text(lesson_html(following, play(following)))
    with watched_page(browser) as alone:
        alone.set_viewport_size({"width": 1366, "height": 768})
        alone.goto((tmp_path / "algebra.html").as_uri())
        for number, stop in enumerate(lesson.stops, 1):
            alone.locator("#place").get_by_text(f"stop {number} of 14").wait_for()
            view = GraphView(alone).rest()
            view.wait(f"hook => hook.state().selected === '{stop.node}'")
            assert view.state["zoom"] >= 1, number
            assert_in_sight(view, {stop.node})
            assert alone.locator(".gw-toolbar").is_hidden()
            expect(alone.locator(".wb-expressions:visible span")).to_have_count(2)
            if number < 14:
                alone.keyboard.press("PageDown")
        notes, clock = alone.locator(".notes:visible"), alone.get_by_role("timer")
        expect(notes).to_have_count(0)
        alone.keyboard.press("p")
        expect(notes).to_contain_text("The usual wrong answer is 1x3")
        expect(clock).to_have_text(re.compile(r"0:0[1-9]"))
        alone.keyboard.press("n")
        expect(notes).to_have_count(0)
        alone.keyboard.press("?")
        expect(alone.get_by_role("dialog", name="Keys")).to_contain_text("after the last one the next lesson")
        alone.keyboard.press("Escape")
        assert alone.get_by_role("link", name=following.title).is_visible()
        alone.keyboard.press("ArrowRight")
        alone.wait_for_url(lambda url: "fusion.html#stop=1&presents=" in url)
        expect(notes).to_contain_text("Point at the one arrow out of conv1")
        expect(clock).not_to_have_text("0:00")
        alone.keyboard.press("Escape")
        expect(clock).to_be_hidden()
        alone.goto(f"{(tmp_path / 'fusion.html').as_uri()}#stop=7")
        alone.reload()
        expect(alone.get_by_text("The next lesson is: A pattern and its mask")).to_be_visible()
        assert alone.get_by_role("button", name="Next").is_disabled()
