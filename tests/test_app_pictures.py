"""What the app draws and writes of a graph: boxes and their classes, texts side by side."""

from __future__ import annotations

import pytest

from passes.layout.layout_convert_layout import LayoutConvertLayout
from tests.pages import drawn, fine, history, looks, opened_sample, page, through_optimize, words
from tests.running import typed
from tests.viewing import history_of, view_of
from workbench.interfaces.ui.widgets import panes
from workbench.ir import from_text, graph_text
from workbench.planning.layout.classes import HEAVILY, LAYOUT_AGNOSTIC, LIGHTLY, class_of
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.diff import diff
from workbench.presentation.view.text import side_by_side
from workbench.rewrite import PassContext, run_pass


def test_a_box_says_how_many_nodes_are_inside_it():
    opened = opened_sample("silero_vad")
    inside = opened.summary.nodes - len(opened.graph)
    at = fine(page("open", opened).run())
    assert any(f"{inside:,} nodes inside" in look["d"] for look in looks(at))


CLASSES = """g (float[1,2,6,6] x) => (float[1,72] y) <float[2,2,1,1] w = {1, 2, 3, 4}, int64[2] s = {1, -1}> {
    a = Conv(x, w)
    b = Relu(a)
    c = MaxPool<kernel_shape=[1,1]>(b)
    d = Concat<axis=1>(c)
    y = Reshape(d, s)
}"""
NAMES = ("Conv_a", "Relu_b", "MaxPool_c", "Concat_d", "Reshape_y")


def test_each_operator_is_in_one_of_tvms_classes_before_and_after():
    graph, cuda = typed(CLASSES), load_profile("cuda")
    classes = {name: class_of(graph.node(name), cuda) for name in NAMES}
    assert list(classes.values()) == [HEAVILY, LAYOUT_AGNOSTIC, LIGHTLY, LIGHTLY, ""]
    assert class_of(graph.node("MaxPool_c"), load_profile("cpu")) == HEAVILY, "the target demands it"
    step = run_pass(LayoutConvertLayout(), graph, PassContext(cuda))
    assert graph.node("Conv_a").op == "workbench.Conv_NHWC"
    assert {name: class_of(graph.node(name), cuda) for name in NAMES} == classes
    for rewrite in step.rewrites:
        assert rewrite.case == classes[rewrite.nodes[0]] and rewrite.sentence.startswith(f"{rewrite.case}: ")


def test_boxes_know_the_class_of_their_operator():
    graph = typed(CLASSES)
    scene = view_of(history_of(graph, [])).scene()
    named = {box["id"]: scene["looks"][box["v"][0][2]]["c"] for box in scene["boxes"] if box["kind"] == "node"}
    words = {name: scene["classes"][c] if c >= 0 else "" for name, c in named.items()}
    assert [words[name] for name in NAMES] == [HEAVILY, LAYOUT_AGNOSTIC, LIGHTLY, LIGHTLY, ""]


def test_the_classes_are_those_of_the_steps_options():
    def class_of_pool(at):
        found = drawn(at)["scene"]
        return {found["classes"][look["c"]] for look in found["looks"] if look["op"].startswith("MaxPool")}

    at = through_optimize("npu_types", ("strategy", "convert-layout"))  # its nodes have boxes at first
    assert class_of_pool(at) == {LIGHTLY}
    fine(at.text_input(key="option_layout_convert_layout.operators").set_value("Conv MaxPool").run())
    assert class_of_pool(at) == {HEAVILY}


@pytest.mark.slow
def test_a_new_list_is_shown_with_all_its_rewrites_done():
    at = through_optimize("resnet50_narrow", ("strategy", "record-then-insert"))
    first = drawn(at)["at"]
    at.session_state["view"] = "Text"
    at.run()
    at.slider[0].set_value(1).run()
    at.session_state["view"] = "Graph"
    fine(at.run())
    moved = drawn(at)["at"]
    assert (moved["rewrite"], moved["step"]) == (1, first["step"]) and moved["n"] > first["n"]
    at.radio(key="strategy").set_value("optimal").run()
    assert not at.exception
    last = drawn(at)["at"]
    assert last["rewrite"] is None, "as a whole, all its rewrites done"
    assert history(at)[last["step"]].pass_name == "layout_optimal"


def test_texts_side_by_side_mark_what_changed():
    first = from_text("g (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Abs(b) }")
    second = from_text("g (float[2] x) => (float[2] y) { a = Relu(x) b = Abs(a) c = Neg(b) y = Abs(c) }")
    lines = side_by_side(graph_text(first), graph_text(second))
    assert [line.mark for line in lines if line.mark] == ["-", "+", "+", "~"]
    changes = diff(first, second)
    assert (changes.removed, changes.added) == ({"Neg_b"}, {"Abs_b", "Neg_c"})
    assert changes.changed == {"Abs_y"}


def test_long_equal_stretches_of_a_text_are_left_out():
    before = "\n".join(f"line {i}" for i in range(100))
    lines = side_by_side(before, before.replace("line 50", "line 50 "))
    assert sum(line.hidden for line in lines) + sum(not line.hidden for line in lines) == 100
    assert len(lines) < 12


def test_the_text_of_a_step_is_drawn_by_graphviz_too_unless_it_is_large(monkeypatch):
    at = through_optimize("npu_path", ("strategy", "greedy"))
    at.session_state["view"] = "Text"
    fine(at.run())
    fine(at.segmented_control(key="text_kind").set_value("Graphviz").run())
    (chart,) = at.get("graphviz_chart")
    source = next(code.value for code in at.code if code.value.startswith("digraph"))
    assert chart.proto.spec.strip() == source.strip() and "peachpuff" in source and source.count("label=") > 5
    monkeypatch.setattr(panes, "_MAX_DRAWN", 2)
    fine(at.run())
    assert not at.get("graphviz_chart") and "Graphviz draws graphs of up to 2 nodes here" in words(at)
    assert any(code.value.startswith("digraph") for code in at.code), "its text can be copied all the same"
