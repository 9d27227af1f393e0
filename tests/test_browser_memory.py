"""The pages Memory and Streams in a real browser: samples, pictures, the graph beside them, steps, downloads."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.browser import GraphView, go, open_sample, select, settle, watched_page

pytestmark = pytest.mark.browser


@pytest.mark.slow
def test_the_trap_is_seen_played_and_downloaded(page, tmp_path):
    page.locator(".st-key-samples_Memory").get_by_text("Memory (6)").click()
    open_sample(page, "in_place_trap")
    page.get_by_text("Exact, order file: 8.20 kB (8,196 bytes) for 3 blocks; no smaller arena exists").wait_for()
    GraphView(page).goto_node("C")
    page.get_by_text("Framed: what 'C' reads and computes").wait_for()
    page.locator(".js-plotly-plot .bars .point path").first.click(force=True)  # A
    page.get_by_text("Framed: what 'A' reads and computes").wait_for()
    page.get_by_role("tab", name="Step by step").click()
    for _ in range(2):
        page.get_by_role("button", name="Next", exact=True).click()
        settle(page)
    page.get_by_text("Exp 'C' cannot overwrite 'B': ReduceSum 'F' reads it later").first.wait_for()
    page.get_by_role("tab", name="Values").click()
    with page.expect_download() as coming:
        page.get_by_role("button", name="JSON", exact=True).click()
    coming.value.save_as(tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["total_bytes"] == 8196
    page.get_by_text("Side by side", exact=True).click()
    settle(page)
    page.get_by_text("No reuse, order file: 8.20 kB (8,196 bytes)").wait_for()
    assert page.locator(".js-plotly-plot").count() >= 2
    go(page, "Measure")
    go(page, "Memory")
    page.get_by_text("No reuse, order file: 8.20 kB (8,196 bytes)").wait_for()


@pytest.mark.slow
def test_branches_are_seen_on_streams(page, tmp_path):
    page.locator(".st-key-samples_Memory").get_by_text("Memory (6)").click()
    open_sample(page, "branches")
    page.get_by_text(
        "Measure the operators here to see their schedule"
    ).wait_for()  # no GPU, so none is modelled unasked
    page.get_by_text("Model of an H100", exact=True).click()
    page.get_by_text("at most 1.75 times faster on any number of streams").wait_for()
    page.get_by_text("The sequential plan is refused on these streams: 'left2'").wait_for()
    GraphView(page).goto_node("right2")
    page.locator(".js-plotly-plot .bars .point path").first.click(force=True)
    page.get_by_label("Scopes of the selected box").get_by_text("left1").wait_for()
    page.get_by_test_id("stDataFrame").last.hover()
    toolbar = page.get_by_test_id("stElementToolbar").last
    toolbar.wait_for()
    button = page.get_by_role("button", name="JSON", exact=True).bounding_box()
    assert button["x"] + button["width"] < toolbar.bounding_box()["x"]
    with page.expect_download() as coming:
        page.get_by_role("button", name="JSON", exact=True).click()
    coming.value.save_as(tmp_path / "streams.json")
    assert len(json.loads((tmp_path / "streams.json").read_text())["streams"]) == 2
    page.get_by_role("button", name="Measure", exact=True).click()
    page.get_by_text("Measured on cpu: ").wait_for()
    page.get_by_text("Times: each operator measured alone").wait_for()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "choices", "box", "option"),
    [
        ("memory", {"memory_two_graphs_planner_1": "No reuse"}, "memory_order_0", "depth_first"),
        ("precision", {"precision_graph": "result"}, "precision_type", "bfloat16"),
        ("streams", {"streams_graph": "original"}, "", ""),
    ],
)
def test_a_link_has_what_was_chosen_on_its_page(browser, app, name, choices, box, option):
    """Chosen in one browser, and there in another that has only the address."""
    model = "model=sample_models/conv_relu_conv_relu.onnx&passes=fold_batchnorm,layout_greedy&target=cuda"
    with watched_page(browser) as tab:
        tab.goto(f"{app[0]}/{name}?{model}&{urlencode(choices)}")
        settle(tab)
        if box:
            select(tab, tab.locator(f".st-key-{box} input"), option)
        link = tab.url
    asked = {key: value for key, [value] in parse_qs(urlsplit(link).query).items()}
    assert choices.items() <= asked.items() and asked["passes"].startswith("fold_batchnorm,layout")
    assert not box or asked.keys() >= {box}
    with watched_page(browser) as other:
        other.goto(link)
        settle(other)
        for key, value in (choices | ({box: option} if box else {})).items():
            shown = other.locator(f".st-key-{key} input").first.input_value().lower()
            assert value.lower() in shown, (key, shown)
        assert parse_qs(urlsplit(other.url).query) == parse_qs(urlsplit(link).query)
