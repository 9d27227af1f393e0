"""Why not, in a real browser: what a pass refused, a click on a refused node, and what a node tells of the passes."""

from __future__ import annotations

import pytest

from tests.browser import GraphView, settle
from tests.pages import fine, opened_sample, page, words
from workbench.interfaces.ui.state.session import Spec

HEAD, ROW = 34, 24  # px of a table


@pytest.mark.slow
@pytest.mark.browser
def test_a_click_on_a_refused_node_shows_it_and_the_node_tells_what_each_pass_said(tab, app):
    passes = "fold_batchnorm,fold_pad,layout_greedy"
    tab.goto(f"{app[0]}/optimize?model=sample_models/resnet50_narrow.onnx&passes={passes}&target=cuda&step=2")
    settle(tab)
    tab.locator(".st-key-view").get_by_text("Why not").click()
    settle(tab)
    tab.get_by_text("Fold padding into convolutions and pools ran").wait_for()
    tab.get_by_text("considered 55, acted on 0, refused 55.").wait_for()
    tab.get_by_text("fold/fold_pad.py, line").first.wait_for()
    nodes = tab.get_by_test_id("stDataFrame").nth(1).bounding_box()
    tab.mouse.click(nodes["x"] + 60, nodes["y"] + HEAD + 1.5 * ROW)
    settle(tab)
    view = GraphView(tab)
    view.wait("hook => hook.state().selected === 'n4' && hook.box('n4')?.visible")
    assert (view.state["step"], view.state["t"]) == (2, 53)
    panel = tab.locator(".gw-inspector")
    panel.get_by_text("Every pass at this node").wait_for()
    panel.get_by_text("before the operator: Conv 'n4' does not follow a Pad").wait_for()
    panel.get_by_role("button", name="1 Fold batch normalization into convolution").first.click()
    view.wait("hook => hook.state().step === 1 && hook.state().rewrite > 0")


@pytest.mark.slow
def test_every_pass_of_the_list_answers_whether_it_ran():
    at = fine(page("optimize", opened_sample("resnet50_narrow")).run())
    at.segmented_control(key="view").set_value("Why not")
    at.session_state["step"] = 0
    fine(at.run())
    spec: Spec = at.session_state["opened"].spec
    table = at.dataframe[0].value
    assert len(table) == len(spec.pipeline.passes) == len(at.session_state["opened"].history) - 1
    told = dict(zip(table["pass"], table["in words"], strict=True))
    assert told["Fold batch normalization into convolution"] == "considered 53, acted on 53, refused 0"
    assert told["Remove dropout"] == "changed nothing; no node has an operator that it looks at (Dropout)"
    at.session_state["step"] = 1
    assert "Remove dropout ran, in" in words(fine(at.run())).replace("\\", "")
