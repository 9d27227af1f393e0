"""What the app draws and writes of a graph: bounded pictures, texts side by side."""

from __future__ import annotations

from passes.layout_convert_layout import LayoutConvertLayout
from tests.making import HOSTILE, hostile_model
from tests.pages import fine, opened_sample, through_optimize
from tests.running import typed
from workbench.ir import from_text, graph_text
from workbench.layout.classes import AGNOSTIC, HEAVILY, LIGHTLY, class_of
from workbench.layout.infer import infer_layouts
from workbench.layout.profile import load_profile
from workbench.loading import load_model
from workbench.rewrite import run_pass
from workbench.view.diff import diff
from workbench.view.picture import MOST_BOXES, draw
from workbench.view.text import side_by_side


def test_a_picture_is_bounded_and_starts_at_the_focus():
    graph = opened_sample("resnet50_narrow").graph
    layouts, target = infer_layouts(graph), load_profile("cuda")
    whole = draw(graph, layouts, target)
    assert (whole.start, whole.drawn, whole.nodes) == (0, MOST_BOXES, len(graph))
    late = graph.nodes[150]
    part = draw(graph, layouts, target, focus=[late.name])
    assert part.start < 150 < part.start + part.drawn
    assert f"{late.op}  {late.name}" in part.dot


def test_a_picture_says_what_a_box_holds():
    graph = opened_sample("silero_vad").graph
    inside = opened_sample("silero_vad").summary.nodes - len(graph)
    assert f"with {inside:,} nodes inside" in draw(graph, {}, load_profile("cuda")).dot


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
    assert list(classes.values()) == [HEAVILY, AGNOSTIC, LIGHTLY, LIGHTLY, ""]
    assert class_of(graph.node("MaxPool_c"), load_profile("cpu")) == HEAVILY, "the target demands it"
    step = run_pass(LayoutConvertLayout(), graph, cuda)
    assert graph.node("Conv_a").op == "workbench.Conv_NHWC"
    assert {name: class_of(graph.node(name), cuda) for name in NAMES} == classes
    for rewrite in step.rewrites:
        assert rewrite.case == classes[rewrite.nodes[0]] and rewrite.sentence.startswith(f"{rewrite.case}: ")


def test_boxes_say_the_class_where_it_is_asked():
    graph, target = typed(CLASSES), load_profile("cuda")
    layouts = infer_layouts(graph)
    said = draw(graph, layouts, target, classes=True).dot
    for words in (
        "Conv_a\nheavily layout-sensitive",
        "Relu_b\nlayout-agnostic",
        "MaxPool_c\nlightly layout-sensitive",
    ):
        assert words in said
    assert "Reshape_y\nkeeps its order of axes" in said
    assert "sensitive" not in draw(graph, layouts, target).dot


def test_the_page_shows_the_classes_of_a_step_by_class_and_elsewhere_when_asked():
    at = through_optimize("conv_relu_conv_relu", ("strategy", "convert-layout"))
    assert at.toggle[0].value and "heavily layout-sensitive" in boxes(at)
    fine(at.toggle[0].set_value(False).run())
    assert "sensitive" not in boxes(at)
    fine(at.radio(key="strategy").set_value("greedy").run())
    assert not at.toggle[0].value and "sensitive" not in boxes(at)
    fine(at.toggle[0].set_value(True).run())
    assert "heavily layout-sensitive" in boxes(at)


def test_a_new_list_is_shown_with_all_its_rewrites_done():
    at = through_optimize("resnet50_narrow", ("strategy", "record-then-insert"))
    at.slider[0].set_value(1).run()
    at.radio(key="strategy").set_value("optimal").run()
    assert not at.exception
    assert at.slider[0].value == at.slider[0].max > 1


def test_the_classes_are_those_of_the_steps_options():
    at = through_optimize("resnet50_narrow", ("strategy", "convert-layout"))
    assert "MaxPool  n3\nlightly" in boxes(at)
    fine(at.text_input(key="option_layout_convert_layout.operators").set_value("Conv MaxPool").run())
    assert "MaxPool  n3\nheavily" in boxes(at)


def boxes(at):
    """The Graphviz source of the page's pictures."""
    return "".join(chart.proto.spec for chart in at.get("graphviz_chart"))


def test_a_picture_writes_names_as_text(tmp_path):
    graph = load_model(hostile_model(tmp_path))
    dot = draw(graph, {}, load_profile("npu")).dot
    assert HOSTILE in dot
    assert "label=<" not in dot, "no HTML-like label"


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
