"""Queries and a user's own numbers in a real browser: hits beside the graph, colours, a file of numbers, a step inside."""

from __future__ import annotations

import json

import pytest

from tests.browser import GraphView, press_more, settle
from tests.viewing import large_graph
from workbench.formats.io.exporting import export_onnx

pytestmark = pytest.mark.browser
NARROW = "sample_models/resnet50_narrow.onnx"
CSV = "node,latency (us),watts\nn0,12.5,1\nn2,100.25,\nn3,3,\nnobody,1,2\n"


@pytest.fixture
def narrow(tab, app) -> GraphView:
    tab.goto(f"{app[0]}/optimize?model={NARROW}&passes=fold_batchnorm,layout_greedy&target=cuda&step=2")
    settle(tab)
    return GraphView(tab).rest()


def search(view: GraphView, query: str) -> None:
    view.press("/")
    view.page.keyboard.type(query)
    view.page.keyboard.press("Enter")
    settle(view.page)


@pytest.mark.slow
def test_a_scope_is_searched_its_hits_stand_beside_the_graph_and_the_address_keeps_the_query(tab, app, tmp_path):
    file = tmp_path / "scoped.onnx"
    export_onnx(large_graph(600, scopes=True), file)
    tab.goto(f"{app[0]}/?model={file}")
    settle(tab)
    view = GraphView(tab).rest()
    search(view, "scope:block4/ op:mul")
    panel = tab.locator(".gw-found")
    panel.get_by_role("heading", name="3 nodes found").wait_for()
    listed, canvas = panel.bounding_box(), view.canvas.bounding_box()
    assert listed["x"] >= canvas["x"] + canvas["width"], "beside the graph, not over it"
    assert panel.get_by_role("option").first.inner_text().startswith("Mul ")
    view.wait("hook => hook.state().selected.includes('/block4/')")  # its scopes are opened for it
    assert view.box(view.state["selected"])["visible"]
    panel.get_by_role("button", name="Colour").click()
    panel.get_by_role("button", name="Only hits").click()
    assert view.ask("hook => hook.legend()").startswith("◆ found by scope:block4/ op:mul")
    tab.reload()
    settle(tab)
    again = GraphView(tab)
    again.wait("hook => hook.state().hits > 0")
    state = again.state
    assert (state["query"], state["colouring"], state["only_hits"]) == ("scope:block4/ op:mul", "query", True)
    panel.get_by_role("button", name="Clear the query").click()
    again.wait("hook => hook.state().colouring === 'layout' && !hook.state().only_hits")
    assert panel.is_hidden() and "query" not in tab.url


@pytest.mark.slow
def test_a_query_that_cannot_be_read_is_a_sentence_and_the_next_one_works(narrow):
    search(narrow, "lay:NHWC")
    panel = narrow.page.locator(".gw-found")
    panel.get_by_text("There is no key 'lay'; the keys are op, scope, module, name, shape, layout").wait_for()
    search(narrow, "layout:NHWC op:maxpool*")
    panel.get_by_role("heading", name="1 node found").wait_for()
    assert narrow.state["selected"] == "n3"


@pytest.mark.slow
def test_ones_own_numbers_stand_on_the_nodes_in_the_legend_and_in_the_inspector(narrow, tmp_path):
    page = narrow.open_all().page
    choose_file(page, tmp_path, "mine.csv", CSV)
    narrow.wait("hook => hook.state().colouring === 'own:0'")
    assert narrow.box("n0")["number"] == "12.5 us" and narrow.box("n5")["number"] == ""
    legend = narrow.ask("hook => hook.legend()")
    assert "latency, from mine.csv: 3 us" in legend and "100.25 us" in legend
    said = "mine.csv has numbers for 3 nodes; 1 name in it is not a node of this model: nobody"
    page.locator(".gw-message").get_by_text(said).wait_for()
    assert said in legend
    narrow.goto_node("name:n0")
    page.locator(".gw-inspector").get_by_text("Your numbers, from mine.csv").wait_for()
    page.get_by_label("Colour by").select_option(label="watts")
    assert narrow.box("n0")["number"] == "1"
    choose_file(page, tmp_path, "other.json", json.dumps({"nobody": 1}))
    page.locator(".gw-message").get_by_text("other.json names no node of this model").wait_for()
    assert narrow.box("n0")["number"] == "1", "the numbers of before stay"


def choose_file(page, folder, name: str, text: str) -> None:
    (folder / name).write_text(text)
    with page.expect_file_chooser() as chooser:
        press_more(page, "Numbers…")
    chooser.value.set_files(str(folder / name))
    settle(page)


@pytest.mark.slow
def test_a_step_inside_a_closed_group_opens_it(narrow):
    view = narrow
    group = "group:bottleneck 3"
    assert not view.box(group)["open"]
    inside = next(t for t in range(54, 175) if group in view.ask(f"hook => {{ hook.go({t}); return hook.framed(); }}"))
    view.ask(f"hook => hook.go({inside})")
    view.wait(f"hook => hook.box({json.dumps(group)})?.open")
    view.rest()
    assert any(view.box(id_)["visible"] for id_ in view.ask("hook => hook.framed()"))
