"""What the app draws and writes of a graph: bounded pictures, texts side by side."""

from __future__ import annotations

from tests.making import HOSTILE, hostile_model
from tests.pages import opened_sample
from workbench.ir import from_text, graph_text
from workbench.layout.infer import infer_layouts
from workbench.layout.profile import load_profile
from workbench.loading import load_model
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
