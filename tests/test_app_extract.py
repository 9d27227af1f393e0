"""The page Extract: a part of the open model by selection, with real inputs; opened, optimized, put back."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from streamlit.testing.v1 import AppTest

from tests.browser import GraphView, guarded, running_app, settle
from tests.conftest import ROOT
from tests.faulty_models import outputs_of
from tests.pages import fine, opened_sample, page, words
from tests.running import typed
from tests.waiting import LIMIT_S
from workbench.interfaces.ui.state.extracting import EXTRACT_FROM, ExtractedParts, bounds_of, put_part_back
from workbench.pipeline.running import start
from workbench.planning.layout.profile import load_profile, machine_target
from workbench.presentation.view.ids import GROUP_ID
from workbench.presentation.view.scene import View
from workbench.presentation.view.timeline import timeline_of

SAMPLE = "resnet50_narrow"
TEXT = """g (float[4] x) => (float[4] y) <float[4] w = {1,2,3,4}> {
    a = Add(x, w)  b = Exp(a)  c = Neg(a)  y = Mul(b, c)
}"""


def root_of(graph):
    profile = load_profile(machine_target())
    return View(timeline_of(start(graph, profile), profile), "m", profile.layout).root


@pytest.mark.parametrize(
    ("box", "begins", "ends"),
    [
        ("in:x", ["x"], []),
        ("out:y", [], ["y"]),
        ("Add_a", ["x"], ["a"]),
        ("Mul_y", ["b", "c"], ["y"]),
        ("const:w", [], []),
        ("", [], []),
    ],
)
def test_a_part_begins_at_what_a_box_reads_and_ends_at_what_it_makes(box, begins, ends):
    graph = typed(TEXT)
    assert bounds_of(graph, root_of(graph), box) == (begins, ends)


def test_a_group_reads_and_makes_what_crosses_its_frame():
    graph = opened_sample(SAMPLE).graph
    root = root_of(graph)
    group = next(group for group in root.below() if 3 < len(list(group.members())) < 20)
    begins, ends = bounds_of(graph, root, group.id)
    inside = set(group.members())
    assert group.id.startswith(GROUP_ID) and begins and ends
    assert all(graph.producer(value) is None or graph.producer(value).name not in inside for value in begins)
    assert all(graph.producer(value).name in inside for value in ends)


def page_of(opened) -> AppTest:
    script = "from workbench.interfaces.ui.screens.extract_page import extract_page; extract_page(None)"
    at = AppTest.from_string(script, default_timeout=LIMIT_S)
    at.session_state["opened"] = opened
    return at


def cut(at: AppTest, begins: list[str], ends: list[str]) -> AppTest:
    number = at.session_state["opened"].number
    at.session_state[f"part_begins_{number}"], at.session_state[f"part_ends_{number}"] = begins, ends
    return at.run().button(key="cut_out").click().run()


def test_what_is_missing_is_said_and_taken_by_a_click():
    at = fine(page_of(opened_sample(SAMPLE)).run())
    assert at.button(key="cut_out").disabled
    (error,) = cut(at, ["r11"], ["r15"]).error
    assert error.value == "'r15' cannot be computed from 'r11' alone\\: it needs 'r13' too; begin at r11,r13"
    assert at.session_state["opened"].state(ExtractedParts).cut is None
    fine(at.button(key="begin_better").click().run())
    fine(at.button(key="cut_out").click().run())
    part = at.session_state["opened"].state(ExtractedParts).cut
    assert "of 176" in words(at) and part.cut.inputs == ("r11", "r13") and part.sources == ("r11", "r13")
    with np.load(part.inputs) as inputs:
        (found,) = outputs_of(onnx.load(part.model), dict(inputs))
    assert found.shape == (1, 32, 56, 56) and np.abs(found).max() > 0


def test_a_name_that_is_not_there_is_a_sentence():
    (error,) = cut(fine(page_of(opened_sample(SAMPLE)).run()), [], ["r1500"]).error
    assert error.value.startswith("the model has no value 'r1500'")


@pytest.mark.parametrize(("box", "ends"), [("n25", ["r25"]), ("made_by_a_pass", [])])
def test_what_was_selected_on_optimize_is_the_part(box, ends):
    at = page_of(opened_sample(SAMPLE))
    at.session_state[EXTRACT_FROM] = box
    fine(at.run())
    assert at.multiselect(key=f"part_ends_{at.session_state['opened'].number}").value == ends
    assert at.button(key="cut_out").disabled == (not ends)
    assert ("is not in the model as it was opened" in " ".join(info.value for info in at.info)) == (not ends)
    assert EXTRACT_FROM not in at.session_state, "only once"


@pytest.mark.slow
def test_a_part_is_opened_on_its_real_inputs_optimized_and_put_back():
    """In one session: the part's own pipeline, and the whole verified as a whole."""
    whole = opened_sample(SAMPLE)
    at = fine(cut(fine(page_of(whole).run()), ["r15"], ["r25"]))
    script = """
import streamlit as st
from workbench.interfaces.ui.state.extracting import ExtractedParts, open_part
opened = st.session_state["opened"]
open_part(opened, opened.state(ExtractedParts).cut)
"""
    opening = AppTest.from_string(script, default_timeout=LIMIT_S)
    opening.session_state["opened"] = at.session_state["opened"]
    part = fine(opening.run()).session_state["opened"]
    assert part.part_of.title == whole.title and part.inputs == "part.inputs.npz"
    assert list(part.verifier.inputs) == ["r15"]
    fine(page("optimize", part).run())
    assert part.history[-1].after.text("nodes") != part.history[0].before.text("nodes")
    back = put_part_back(part, lambda said, share: None)
    assert back.verdict.ok and back.put.nodes_before == 176 and back.put.nodes < 176 and back.put.staying == 0
    assert any(node.op_type == "Add" for node in onnx.load(back.model).graph.node), "as Optimize left it"
    at = fine(page_of(part).run())
    assert f"A part of {whole.title}, from r15 to r25; as it is on Optimize." in words(at).replace("\\", "")


@pytest.mark.slow
def test_by_selection_in_the_picture(browser):
    with running_app() as (address, _), guarded(browser, address) as tab:
        tab.goto(f"{address}/extract?model={ROOT / 'sample_models' / f'{SAMPLE}.onnx'}")
        settle(tab)
        for node, button in (("n16", "Begin here"), ("n25", "End here")):
            view = GraphView(tab).rest()
            view.goto_node(node)
            tab.get_by_text(f"Selected: {view.state['selected']}").wait_for()
            tab.get_by_role("button", name=button).click()
            settle(tab)
        tab.get_by_role("button", name="Cut it out").click()
        settle(tab)
        tab.get_by_text("10 nodes").wait_for()
        tab.get_by_role("button", name="Open it").click()
        tab.wait_for_url("**/optimize?*")
        settle(tab)
        tab.get_by_role("link", name="Extract").click()
        tab.get_by_text("A part of ResNet-50").wait_for()
        tab.get_by_role("button", name="Put it back").click()
        tab.get_by_text("Equal: 1 output").wait_for()
