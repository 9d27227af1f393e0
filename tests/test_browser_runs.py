"""Kept runs in a real browser: measured on one page, compared and downloaded on the other."""

from __future__ import annotations

import json

import pytest

from tests.browser import choose_strategy, go, open_sample, select, settle
from workbench.formats.io.samples import FOLDER
from workbench.run.records.store import file_hash

pytestmark = pytest.mark.browser
ONE = FOLDER / "conv_relu_conv_relu.onnx"


@pytest.mark.slow
def test_what_was_measured_is_compared_and_downloaded(page, tmp_path):
    open_sample(page, ONE.stem)
    go(page, "Optimize")
    choose_strategy(page, "greedy")
    settle(page)
    go(page, "Measure")
    page.get_by_role("spinbutton").fill("3")
    page.get_by_role("button", name="Measure", exact=True).click()
    settle(page)
    page.get_by_role("tab", name="Operators").click()
    settle(page)
    select(page, page.get_by_label("Variant").locator("visible=true"), "result")
    page.get_by_text("All operators, the slowest first").wait_for(state="visible")  # the tab stays
    go(page, "Runs")
    page.locator(
        ".js-plotly-plot"
    ).last.wait_for()  # runs of a busy machine have no bars, and are over time all the same
    page.get_by_text("They were measured together, interleaved").wait_for()
    with page.expect_download() as coming:
        page.get_by_role("button", name="JSON of 2").click()
    coming.value.save_as(tmp_path / "runs.json")
    runs = json.loads((tmp_path / "runs.json").read_text())["runs"]
    assert {run["model_hash"] for run in runs} == {file_hash(str(ONE))}
    assert ["greedy" in run["pipeline"] for run in runs] == [False, True]
    for run in runs:
        (variant,) = run["record"]["variants"].values()
        assert len(variant["times_ms"]) == 3


@pytest.mark.slow
def test_a_stopped_matrix_shows_the_blocks_that_are_done(page):
    open_sample(page, "ppocr_cls_v2")
    go(page, "Matrix")
    page.get_by_role("textbox", name="Batches").fill("1, 64")
    page.get_by_role("spinbutton", name="Repetitions").fill("20")
    page.get_by_role("button", name="Measure", exact=True).click()
    page.get_by_text("block 2 of 2").wait_for()
    page.get_by_role("button", name="Cancel").click()
    settle(page)
    page.get_by_text("Measure continues with the others").wait_for()
    page.get_by_text("2 variants in 1 block").wait_for()
