"""What stands beside a lesson's graph, and the room that its picture takes."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from workbench.errors import UserError
from workbench.interfaces.lessons import find_lesson, play, shipped_lessons
from workbench.interfaces.lessons.exporting import lesson_html
from workbench.interfaces.lessons.lesson_view import lesson_view
from workbench.interfaces.lessons.list_picture import list_picture
from workbench.interfaces.lessons.playing import shown_in_list
from workbench.interfaces.lessons.stop_text import expressions, node_lines, stop_text
from workbench.interfaces.lessons.text_html import expressions_html, nodes_html
from workbench.interfaces.lessons.tightening import tightened
from workbench.ir import from_text
from workbench.planning.fusion.opened_groups import OpenedGroups
from workbench.planning.layout.profile import load_profile
from workbench.presentation.view.scene import View

SVG = "{http://www.w3.org/2000/svg}"


def graph(body: str, head: str = "g (float[3] x, float[3] z) => (float[3] y)"):
    return from_text(f"{head} {{ {body} }}")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("y = Add (x, z)", "x + z"),
        ("a = Add (x, z)  y = Mul (a, z)", "(x + z) * z"),
        ("a = Mul (x, z)  y = Add (z, a)", "z + x * z"),
        ("a = Add (x, z)  y = Add (a, z)", "x + z + z"),
        ("a = Add (x, z)  y = Add (z, a)", "z + (x + z)"),  # another order of additions
        ("a = Sub (x, z)  y = Sub (z, a)", "z - (x - z)"),
        ("a = Div (x, z)  y = Div (a, z)", "x / z / z"),
        ("a = Neg (x)  y = Neg (a)", "-(-x)"),
        ("a = Neg (x)  y = Mul (a, z)", "-x * z"),
        ("a = Pow (x, z)  y = Pow (a, z)", "(x ** z) ** z"),
        ("a = Pow (x, z)  y = Pow (z, a)", "z ** x ** z"),
        ("a = Neg (x)  y = Pow (a, z)", "(-x) ** z"),
        ("a = Add (x, z)  y = Sqrt (a)", "Sqrt(x + z)"),
    ],
)
def test_an_expression_has_the_parentheses_that_it_needs(body, text):
    assert expressions(graph(body)) == (f"y = {text}",)


def test_numbers_are_written_out_and_an_output_has_its_own_equation():
    head = "g (float[3] x, float[3] z) => (float[3] y, float[3] p) <float[1] two = {2}, float[3] c = {1, 2, 3}>"
    shown = graph("p = Mul (x, two)  q = Add (p, c)  y = ReduceSum (q)", head)
    assert expressions(shown) == ("y = ReduceSum(p + c)", "p = x * 2")
    assert node_lines(shown) == ("p = Mul(x, 2)", "q = Add(p, c)", "y = ReduceSum(q)")


def test_what_has_no_room_is_refused_with_what_to_do():
    long = " ".join(f"a{i + 1} = Add (a{i}, z)" for i in range(20)).replace("(a0,", "(x,") + " y = Neg (a20)"
    with pytest.raises(UserError, match=r"of 'y' has \d+ characters.* take `beside: nodes`"):
        expressions(graph(long))
    with pytest.raises(UserError, match="21 nodes, and beside the picture is room for 12"):
        node_lines(graph(long))
    with pytest.raises(UserError, match="no text 'expresion'; did you mean 'expression'"):
        stop_text("expresion", None, graph("y = Neg (x)"))


def test_the_equations_stand_over_their_panes_and_nodes_have_signs():
    before, after = graph("a = Mul (x, z)  y = Neg (a)"), graph("y = Mul (x, z)")
    text = stop_text("expression", before, after)
    assert expressions_html(text).index("-(x * z)") < expressions_html(text).index("y = x * z")
    assert text.equation_rows == 1
    lines = nodes_html(stop_text("nodes", before, after))
    assert "\u2212 a = Mul(x, z)" in lines and "+ y = Mul(x, z)" in lines and "\u2212 y = Neg(a)" in lines


def boxes_at(stop, moment: int) -> dict[str, str]:
    """The details of the nodes that exist at the first (0) or the second (1) moment of the stop, by box."""
    view = lesson_view(stop, load_profile(stop.stop.pipeline.profile))
    view.show(stop)
    scene = view.scene()
    at = view.moments[moment]
    alive = {b["id"]: v[2] for b in scene["boxes"] if b["kind"] == "node" for v in b["v"] if v[0] <= at < v[1]}
    return {box: scene["looks"][look]["d"] for box, look in alive.items()}


def test_in_algebra_a_box_is_an_equation_and_no_box_computes_something_else_under_its_old_name():
    stops = play(find_lesson("algebra"))
    shared, involution = stops[4], stops[11]
    assert boxes_at(shared, 0) == {"Mul_p": "p = x * a", "Mul_q": "q = z * a", "Add_y": "y = p + q"}
    assert boxes_at(shared, 1) == {"y_add": "x + z", "y": "y = (x + z) * a"}
    assert boxes_at(involution, 1) == {"Neg_a": "a = -x", "Relu_y": "y = Relu(x)"}
    layouts = play(find_lesson("why_a_transpose"))[3]
    assert boxes_at(layouts, 0)["output"] == "NCHW, weights OIHW"


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("lesson", shipped_lessons(), ids=lambda lesson: lesson.name)
def test_the_picture_in_the_list_is_of_the_lessons_own_graph_and_is_small(lesson):
    drawing = list_picture(lesson)
    root = ElementTree.fromstring(drawing)
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert len(texts) >= 2 and len(drawing) < 15_000
    graph = OpenedGroups(shown_in_list(lesson).graph).opened
    known = {node.op.removeprefix("workbench.") for node in graph.nodes} | {*graph.inputs, *graph.outputs}
    if lesson.name in ("last_bit", "algebra", "saturation"):
        assert any(" = " in text for text in texts)
    elif lesson.name == "two_orders":
        assert texts[:2] == ["NCHW", "a0"]
    elif lesson.name == "memory":
        assert {"A", "B", "C", "E"} < set(texts)
    else:
        assert set(texts) <= known
    if lesson.name in ("two_orders", "memory"):
        return
    boxes = [[float(box.get(key, 0)) for key in ("x", "y", "width", "height")] for box in root.iter(f"{SVG}rect")]
    starts = [[float(number) for number in path.get("d", "")[1:].split()[:2]] for path in root.iter(f"{SVG}path")]
    assert any(left < x < left + width and y == top + height for left, top, width, height in boxes for x, y in starts)


# ---- the room of a picture ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["greedy_against_record", "fusion", "insert_and_cancel"])
def test_a_stops_picture_has_all_of_its_boxes_in_order_and_no_room_for_others(name):
    for stop in play(find_lesson(name)):
        view = lesson_view(stop, load_profile(stop.stop.pipeline.profile))
        union = View.scene(view)
        view.show(stop)
        scene = view.scene()
        assert scene["height"] <= union["height"]
        shown = [i for i, box in enumerate(scene["boxes"]) if lives(box, view.moments) and not box.get("open")]
        for i in shown:
            for j in shown:
                one, other = scene["boxes"][i], scene["boxes"][j]
                assert i == j or not overlap(one, other), (one["id"], other["id"])
                if union["boxes"][i]["y"] < union["boxes"][j]["y"]:
                    assert one["y"] <= other["y"]
        for box in scene["boxes"]:
            assert box["h"] > 0 and 0 <= box["y"] <= scene["height"]


def lives(box, moments) -> bool:
    return any(born <= t < dies for born, dies, *_ in box["v"] for t in moments)


def overlap(one, other) -> bool:
    across = abs(one["x"] - other["x"]) < (one["w"] + other["w"]) / 2
    return across and abs(one["y"] - other["y"]) < (one["h"] + other["h"]) / 2


def test_the_ends_of_an_edge_stay_at_its_boxes():
    (stop, *_) = play(find_lesson("why_a_transpose"))
    view = lesson_view(stop, load_profile("npu"))
    scene = tightened(View.scene(view), (0, 3))
    boxes = scene["boxes"]
    for edge in scene["edges"]:
        if "p" in edge and all(lives(boxes[end], (0, 3)) for end in (edge["a"], edge["b"])):
            assert edge["p"][1] == pytest.approx(boxes[edge["a"]]["y"] + boxes[edge["a"]]["h"] / 2, abs=1.5)
            assert edge["p"][-1] == pytest.approx(boxes[edge["b"]]["y"] - boxes[edge["b"]]["h"] / 2, abs=1.5)


def test_a_file_has_a_scene_for_each_stop_and_no_inspector():
    lesson = find_lesson("why_a_transpose")
    text = lesson_html(lesson, play(lesson))
    assert all(f'"{number}": {{"scene"' in text for number in range(5))
    assert '"inspectors": ""' in text
