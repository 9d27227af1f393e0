"""The app in a real browser, as a user meets it: clicks, uploads, downloads, cancel, a killed run, two sessions."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

import numpy as np
import onnx
import onnxruntime
import psutil
import pytest

import passes as library
from tests.browser import (
    SCREEN,
    GraphView,
    choose_strategy,
    go,
    open_advanced,
    open_sample,
    settle,
    show_last_step,
    upload,
    watched_page,
)
from tests.making import HOSTILE, hostile_model
from workbench.formats.io.samples import FOLDER

pytestmark = pytest.mark.browser
ONE = FOLDER / "conv_relu_conv_relu.onnx"
LONG = "10000"  # repetitions that take longer than a test


def start_measuring(page, repetitions: str) -> None:
    page.get_by_label("Repetitions", exact=True).fill(repetitions)
    page.get_by_role("button", name="Measure", exact=True).click()


def measure(page, repetitions: str = "3") -> None:
    start_measuring(page, repetitions)
    settle(page)
    page.get_by_role("tab", name="Where the time went").wait_for()


@pytest.mark.slow
def test_from_a_sample_to_the_downloaded_file(page, tmp_path):
    open_sample(page, ONE.stem)
    go(page, "Optimize")
    choose_strategy(page, "greedy")
    settle(page)
    GraphView(page).wait("hook => hook.boxes().some(id => id.startsWith('to_nhwc'))")
    show_last_step(page)
    page.locator(".st-key-view").get_by_text("Rewrites").click()
    settle(page)
    page.locator(".st-key-view").get_by_text("Text").click()
    settle(page)
    page.locator(".wb-text").wait_for()
    go(page, "Measure")
    measure(page)
    page.get_by_role("tab", name="Latency and memory").click()
    busy = page.get_by_text("The machine was busy, so the latencies are not drawn")
    page.locator(".js-plotly-plot:visible").or_(busy).first.wait_for()
    go(page, "Export")
    settle(page)
    with page.expect_download() as coming:
        page.get_by_role("button", name="Download conv_relu_conv_relu.opt.onnx").click()
    file = tmp_path / "downloaded.onnx"
    coming.value.save_as(file)
    onnx.checker.check_model(str(file), full_check=True)
    assert any(node.op_type == "Transpose" for node in onnx.load(file).graph.node)
    before, after = onnxruntime.InferenceSession(str(ONE)), onnxruntime.InferenceSession(str(file))
    x = before.get_inputs()[0]
    inputs = {x.name: np.random.default_rng(0).standard_normal(x.shape).astype(np.float32)}
    for a, b in zip(before.run(None, inputs), after.run(None, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_sample_of_algebra_opens_at_its_rewrite_also_in_a_session_that_looked_at_something_else(page):
    open_sample(page, ONE.stem)
    go(page, "Optimize")
    go(page, "Open")
    page.locator(".st-key-samples_Algebra summary").click()
    open_sample(page, "reciprocal_of_a_product")
    view = GraphView(page)
    view.wait("hook => hook.state().step === 1 && hook.boxes().length > 0")
    view.press("ArrowLeft", "ArrowRight")
    page.locator(".gw-sentence").get_by_text("becomes that of 'z', which is smaller than 'x'").wait_for()
    asked = parse_qs(urlsplit(page.url).query)
    assert (asked["passes"], asked["mode"], asked["step"]) == (["algebra_products"], ["fast"], ["1"])
    assert page.get_by_role("alert").count() == 0


@pytest.mark.slow
def test_what_was_chosen_is_still_there_after_a_look_at_another_page(page):
    open_sample(page, ONE.stem)
    go(page, "Optimize")
    choose_strategy(page, "greedy")
    settle(page)
    go(page, "Measure")
    go(page, "Optimize")
    assert page.locator(".st-key-strategy").get_by_role("radio", name="greedy").is_checked()


@pytest.mark.slow
def test_a_pass_that_was_off_is_off_after_a_look_at_another_page(page):
    go(page, "Optimize")
    open_advanced(page)
    page.locator(".st-key-on_fold_constants label").first.click()
    settle(page)
    boxes = page.locator("[class*=st-key-on_] input")
    before = [box.is_checked() for box in boxes.all()]
    assert not all(before)
    go(page, "Measure")
    go(page, "Optimize")
    assert [box.is_checked() for box in boxes.all()] == before


@pytest.mark.slow
def test_a_profile_is_made_and_every_strategy_compared_and_measured_with_it(page, profiles_of_app):
    open_sample(page, "npu_path")
    go(page, "Layouts")
    page.get_by_role("button", name="Edit targets").click()
    page.get_by_label("Name", exact=True).fill("browser-made")
    page.get_by_label("Title", exact=True).fill("Made in a browser")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("dialog").wait_for(state="hidden")
    settle(page)
    assert page.locator(".st-key-target input").input_value() == "browser-made: Made in a browser"
    page.get_by_role("button", name="Measure latency").wait_for()
    settle(page)
    page.get_by_role("button", name="Measure latency").click()
    page.get_by_text("Measured on").wait_for()
    settle(page)
    assert page.get_by_role("alert").count() == 0
    (made,) = profiles_of_app.iterdir()
    made.unlink()  # other tests ask the same app


@pytest.mark.slow
def test_the_panes_end_on_the_screen_whatever_stands_above_them(page, app):
    for strategy in ("greedy", "optimal", "wrong_on_purpose"):
        page.goto(f"{app[0]}/optimize?model={FOLDER / 'npu_reshape_add.onnx'}&target=cuda&passes=layout_{strategy}")
        settle(page)
        pane = page.locator(".graph-workbench").bounding_box()
        assert pane["y"] + pane["height"] <= SCREEN["height"] + 20, strategy


@pytest.mark.slow
def test_what_is_looked_at_stays_where_it_is_when_a_strategy_is_chosen(page):
    """The whole graph is in sight before and after, and a node is where it was, but for a few pixels."""
    open_sample(page, "resnet50_narrow")
    go(page, "Optimize")
    settle(page)
    GraphView(page).rest()
    before = place_in_pane(page, "group:stem")
    shown = GraphView(page).state["scene_id"]
    choose_strategy(page, "greedy")
    settle(page)
    GraphView(page).wait(f"hook => hook.state().scene_id !== {json.dumps(shown)}")
    GraphView(page).rest()
    after = place_in_pane(page, "group:stem")
    assert abs(after[0] - before[0]) <= 40 and abs(after[1] - before[1]) <= 40


def place_in_pane(page, node: str) -> tuple[float, float]:
    """How far a box is from the pane's upper left corner."""
    view = GraphView(page)
    canvas, box = view.canvas.bounding_box(), view.box(node)
    assert box["visible"], box
    return box["x"] - canvas["x"], box["y"] - canvas["y"]


@pytest.mark.slow
def test_a_hostile_name_is_shown_as_text(page, tmp_path):
    upload(page, hostile_model(tmp_path))
    GraphView(page).wait(f"hook => hook.boxes().some(id => id.includes({json.dumps(HOSTILE)}))")
    for name in ("Optimize", "Measure", "Export"):
        go(page, name)
    go(page, "Optimize")
    GraphView(page).wait(f"hook => hook.boxes().some(id => id.includes({json.dumps(HOSTILE)}))")
    assert page.locator("img[src=x]").count() == 0


@pytest.mark.slow
def test_a_truncated_upload_is_one_sentence_and_the_last_model_stays(page, tmp_path):
    open_sample(page, "npu_path")
    go(page, "Open")
    broken = tmp_path / "cut_off.onnx"
    broken.write_bytes(ONE.read_bytes()[:4000])
    upload(page, broken)
    alerts = page.get_by_role("alert")
    alerts.first.wait_for()
    assert alerts.count() == 1
    assert "cut_off.onnx" in alerts.inner_text()
    assert "Traceback" not in page.content()
    assert page.get_by_text("NPU: one CNN path · ", exact=False).count()


@pytest.mark.slow
def test_a_cancelled_measurement_keeps_its_runs(page):
    go(page, "Measure")
    start_measuring(page, LONG)
    page.get_by_text(re.compile(r"Measuring [^:]*: run \d+")).wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Ended early, as asked, after").wait_for()
    page.get_by_role("tab", name="Where the time went").wait_for()
    measure(page)
    assert not page.get_by_text("Ended early").count()


@pytest.mark.slow
def test_a_killed_run_is_a_message_and_the_next_works(page, app):
    go(page, "Measure")
    start_measuring(page, LONG)
    page.get_by_text(re.compile(r"Measuring [^:]*: (warming up|run \d+)")).wait_for()
    workers = [p for p in psutil.Process(app[1]).children(recursive=True) if "workbench.run.tasks" in p.cmdline()]
    assert workers  # one that measures, one that computes outputs
    for worker in workers:
        worker.kill()
    page.get_by_text("The run was killed").wait_for()
    measure(page)


@pytest.mark.slow
def test_two_sessions_do_not_disturb_each_other(page, browser, app):
    go(page, "Measure")
    start_measuring(page, LONG)
    page.get_by_role("button", name="Cancel").wait_for()
    with watched_page(browser) as other:
        other.goto(app[0])
        settle(other)
        other.locator(".st-key-sample_npu_path button").click()  # it opens on Optimize, while the first measures
        other.get_by_text("NPU: one CNN path").first.wait_for()
        GraphView(other)
        assert not other.get_by_text("waiting for its turn").count()  # who looks does not wait for who measures
        page.get_by_role("button", name="Cancel").click()
        page.get_by_text("Ended early, as asked").wait_for()
        settle(other)
        assert "ResNet-50" in page.locator("[data-testid=stMainBlockContainer]").inner_text()
        assert "NPU: one CNN path" in other.locator("[data-testid=stMainBlockContainer]").inner_text()


@pytest.mark.slow
def test_after_a_reload_and_from_a_link_every_strategy_does_what_it_says(page):
    """The link names the passes that run: those it does not name are off, but which layout pass runs is free."""
    open_sample(page, "conv_relu_conv_relu")
    go(page, "Optimize")
    choose_strategy(page, "greedy")
    settle(page)
    show_last_step(page)
    link = passes_in_link(page)
    page.reload()
    settle(page)
    assert passes_in_link(page) == link
    assert page.locator(".st-key-strategy").get_by_role("radio", name="greedy").is_checked()
    for strategy, layout in library.compared_strategies().items():
        open_advanced(page)
        words = page.locator(".st-key-strategy").get_by_text(strategy, exact=True)
        words.click()
        settle(page)
        wanted = link.replace("{strategy=greedy}", f"{{strategy={strategy}}}")
        page.wait_for_url(lambda url, wanted=wanted: passes_of(url) == wanted)  # the browser writes it, a moment later
        told = page.locator("select.gw-steps option").filter(has_text=layout.title)
        told.first.wait_for(state="attached")


def passes_in_link(page) -> str:
    return passes_of(page.url)


def passes_of(link: str) -> str:
    return parse_qs(urlsplit(link).query)["passes"][0]
