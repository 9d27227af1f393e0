"""The scene that the browser gets: whole, small, the same at every asking, and still while one plays it."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from tests.conftest import CORPUS
from tests.making import HOSTILE, hostile_model
from tests.viewing import history_of, large_graph, sample_history, view_of
from workbench.formats.io import load_model
from workbench.formats.io.samples import FOLDER
from workbench.ir import DataType, Graph, Node, TensorType, from_text
from workbench.presentation.view.engines import MAX_ROUTED
from workbench.presentation.view.node_style import OWN, TARGET
from workbench.presentation.view.scene import Costs, View, packed

GREEDY = ("resnet50_narrow", "sum_to_add", "fold_batchnorm", "layout_greedy")


@pytest.fixture(scope="module")
def scene():
    return with_all_open(view_of(sample_history(*GREEDY))).scene()


def with_all_open(view: View) -> View:
    view.opened = {group.id for group in view.root.below()}
    return view


def at(scene: dict, moment: int) -> dict[str, dict]:
    """What each box that is there says."""
    looks = scene["looks"]
    return {
        box["id"]: looks[look]
        for box in scene["boxes"]
        for born, dies, look in box["v"]
        if born <= moment < dies and look >= 0
    }


def test_every_box_of_a_small_model_is_a_node_at_every_moment(scene):
    history = sample_history(*GREEDY)
    for moment, graph in ((0, history.initial), (scene["T"], history.graph)):
        nodes = {i: look for i, look in at(scene, moment).items() if not i.startswith(("in:", "out:"))}
        assert set(nodes) == {node.name for node in graph.nodes}
        assert all(nodes[node.name]["op"] == node.op.removeprefix("workbench.") for node in graph.nodes)


def test_numbers_point_at_what_there_is(scene):
    boxes = len(scene["boxes"])
    for edge in scene["edges"]:
        assert 0 <= edge["a"] < boxes and 0 <= edge["b"] < boxes and edge["a"] != edge["b"]
        assert all(-1 <= said[2] < len(scene["words"]) for said in edge["v"])
    for box in scene["boxes"]:
        assert -1 <= box["up"] < boxes
        assert all(look < len(scene["looks"]) for _, _, look in box["v"])
    for look in scene["looks"]:
        assert look["k"] < len(scene["categories"]) and look["c"] < len(scene["classes"])
    for rewrite in scene["rewrites"]:
        assert rewrite["b"] and all(0 <= number < boxes for number in rewrite["b"])


def test_all_boxes_lie_in_the_picture_and_short_lived_ones_on_edges(scene):
    short = [box for box in scene["boxes"] if box.get("chip")]
    assert len(short) > 100
    for box in scene["boxes"]:
        assert 0 <= box["x"] <= scene["width"] and 0 <= box["y"] <= scene["height"]
    standing = [b for b in scene["boxes"] if b["kind"] == "node" and not b.get("chip")]
    hidden = sum(any(meet(chip, box) and overlap(chip, box) for box in standing) for chip in short)
    assert hidden < len(short) / 12, (
        "they stand between the boxes, not on them, but where a chain turns to a new column"
    )


def meet(a: dict, b: dict) -> bool:
    """Are both there at some moment?"""
    return any(s[0] < t[1] and t[0] < s[1] for s in a["v"] for t in b["v"])


def overlap(a: dict, b: dict) -> bool:
    return abs(a["x"] - b["x"]) * 2 < a["w"] + b["w"] and abs(a["y"] - b["y"]) * 2 < a["h"] + b["h"]


def test_an_edge_runs_straight_where_what_it_was_routed_round_is_gone(scene):
    boxes = {box["id"]: number for number, box in enumerate(scene["boxes"])}
    edge = next(e for e in scene["edges"] if (e["a"], e["b"]) == (boxes["n0"], boxes["n2"]))
    conv, relu, norm = (scene["boxes"][boxes[name]] for name in ("n0", "n2", "n1"))
    assert len(edge["p"]) > 4, "placed for all moments: round the batch norm"
    assert norm["v"][0][1] <= edge["v"][0][0], "which is gone when the edge comes"
    for *_, x in edge["v"]:
        assert all(abs(x - box["x"]) < box["w"] / 2 for box in (conv, relu))
    standing = [b for b in scene["boxes"] if b["kind"] == "node" and not b.get("chip")]
    for edge in scene["edges"]:
        a, b = scene["boxes"][edge["a"]], scene["boxes"][edge["b"]]
        for said in edge["v"]:
            if len(said) == 6:
                line = {
                    "x": said[5],
                    "w": 0,
                    "y": (a["y"] + b["y"]) / 2,
                    "h": abs(a["y"] - b["y"]) - a["h"],
                    "v": [said],
                }
                assert not any(overlap(line, c) and meet(line, c) for c in standing if c is not a and c is not b)


def test_a_transpose_shows_its_permutation_and_the_bytes_that_it_moves(scene):
    details = {look["d"] for look in at(scene, scene["T"]).values() if look["op"] == "Transpose"}
    assert details == {"NCHW to NHWC [0,2,3,1] 0.60 MB"}


def test_edges_carry_shape_and_layout(scene):
    now = [said for edge in scene["edges"] for said in edge["v"] if said[0] <= scene["T"] < said[1]]
    words = {scene["words"][said[2]] for said in now if said[2] >= 0}
    assert {"1x3x224x224 NCHW", "1x112x112x8 NHWC", "1x250"} <= words


def test_where_types_differ_every_edge_names_its_own_and_marks_the_narrower_ones(scene, tmp_path):
    assert scene["widths"] == [] and not any(said[4] for edge in scene["edges"] for said in edge["v"])
    keys = ", ".join(f"float16[2] k_{number}" for number in range(6))
    sum_ = f"s = Sum ({', '.join(f'k_{number}' for number in range(6))})"
    file = tmp_path / "mixed.onnxtxt"
    file.write_text(f"""<ir_version: 10, opset_import: ["" : 23]>
        g (float[2] x, bool[2] c, double[2] d, {keys}) => (float[2] y, double[2] z) {{
            {sum_}
            t = Cast <to = 1> (s)
            m = Where (c, t, x)
            y = Neg (m)
            z = Neg (d)
        }}""")
    mixed = view_of(history_of(load_model(file), [])).scene()
    said = {(mixed["words"][said[2]], said[4]) for edge in mixed["edges"] for said in edge["v"]}
    assert mixed["widths"] == ["float32", "float16"]
    narrow = {("2 float16", 1), ("6 values, float16", 1)}
    assert said == narrow | {("2 float32", 0), ("2 bool", 0), ("2 double", 0)}
    inputs = {look["d"] for look in at(mixed, 0).values() if look["op"] == "input"}
    assert inputs == {"2 float32", "2 bool", "2 double"}


def test_an_input_and_an_output_say_the_type_that_they_have_at_a_moment():
    history = history_of(
        load_model(FOLDER / "precision" / "casts.onnxtxt"), ["precision_optimal{io=as-computed}"], "cpu"
    )
    scene = view_of(history, "cpu").scene()
    said = [(at(scene, moment)["in:x"]["d"], at(scene, moment)["out:y"]["d"]) for moment in (0, scene["T"])]
    assert said == [("1x2x8x8 NCHW float32",) * 2, ("1x2x8x8 NCHW float16", "1x2x8x8 NCHW float32")]


def test_weights_have_a_layout_and_a_colour():
    looks = at(view_of(sample_history("npu_path", "layout_greedy", target="npu"), "npu").scene(), 2)
    conv = next(look for look in looks.values() if look["op"].startswith("Conv"))
    assert conv["w"] == TARGET and "weights HWOI" in conv["d"]
    before = at(with_all_open(view_of(sample_history("npu_path", target="npu"), "npu")).scene(), 0)
    assert next(look for look in before.values() if look["op"] == "Conv")["w"] == OWN


def test_a_rewrite_has_its_sentence_its_case_and_its_text(scene):
    last = scene["rewrites"][-1]
    assert last["s"].startswith("Transpose 'restore_r172' and Reshape 'n173' move no element") and last["c"] == "tidied"
    fold = next(r for r in scene["rewrites"] if "BatchNormalization" in r["g"])
    assert "Conv" in fold["g"] and "BatchNormalization" not in fold["a"] and "Conv" in fold["a"]


def test_the_same_view_is_the_same_payload_and_another_is_not():
    view = with_all_open(view_of(sample_history(*GREEDY)))
    first, again = packed(view.scene()), packed(with_all_open(view_of(sample_history(*GREEDY))).scene())
    assert first == again
    view.constants = True
    assert packed(view.scene())[1] != first[1]
    assert json.loads(gzip.decompress(base64.b64decode(first[0])))["T"] == view.timeline.last


def test_constants_stand_left_of_the_node_that_reads_them():
    view = view_of(sample_history("npu_path"))
    plain = {box["id"] for box in view.scene()["boxes"]}
    view.constants = True
    scene = view.scene()
    boxes = {box["id"]: box for box in scene["boxes"]}
    added = [boxes[i] for i in boxes.keys() - plain]
    assert added and all(box["kind"] == "constant" for box in added)
    for edge in scene["edges"]:
        source, target = scene["boxes"][edge["a"]], scene["boxes"][edge["b"]]
        if source["kind"] == "constant":
            assert source["x"] + source["w"] / 2 < target["x"] - target["w"] / 2
            assert abs(source["y"] - target["y"]) < 60


@pytest.mark.slow
def test_opening_closing_and_revealing_boxes():
    view = view_of(history_of(large_graph(3000, scopes=True), []))
    view.opened = set()
    before = view.scene()
    group = next(box for box in before["boxes"] if box["kind"] == "group")
    view.set_open(group["id"], True, deep=False)
    view.set_open(group["id"], True, deep=False)  # asked for twice
    opened = view.scene()
    assert next(box for box in opened["boxes"] if box["id"] == group["id"])["open"]
    assert len(opened["boxes"]) > len(before["boxes"])
    view.set_open(group["id"], False, deep=False)
    assert packed(view.scene()) == packed(before)
    view.set_open(group["id"], True, deep=True)
    inside = view.members(group["id"])
    shown = {box["id"] for box in view.scene()["boxes"]}
    assert inside and set(inside) <= shown
    view.set_open(group["id"], False, deep=True)
    assert packed(view.scene()) == packed(before)
    view.reveal("no such node")
    view.set_open("group:no such group", True, deep=True)
    assert packed(view.scene()) == packed(before)
    last = list(view.timeline.versions)[-1]
    view.reveal(last)
    assert last in {box.id for box in view.boxes().boxes}


def test_what_was_opened_by_hand_is_open_in_the_next_view_of_the_model():
    view = view_of(history_of(large_graph(3000, scopes=True), []))
    closed = next(group.id for group in view.root.below() if group.id not in view.opened)
    view.set_open(closed, True, deep=False)
    again = View(view.timeline, view.title, view.target, dict(view.chosen))
    assert closed in again.opened


@pytest.mark.slow
def test_everything_open_is_flat_and_has_every_node():
    view = view_of(history_of(large_graph(3000, scopes=True), []))
    view.is_flat = True
    scene = view.scene()
    assert sum(box["kind"] == "node" for box in scene["boxes"]) == 3000 > MAX_ROUTED
    assert not any(box["kind"] == "group" for box in scene["boxes"])


@pytest.mark.slow
def test_a_value_that_many_read_is_a_tick_at_each_of_them():
    view = view_of(history_of(large_graph(600), []))
    view.is_flat = True
    scene = view.scene()
    mask = next(i for i, box in enumerate(scene["boxes"]) if box["id"] == "in:mask")
    ticks = [edge for edge in scene["edges"] if edge["a"] == mask]
    assert len(ticks) == 15 and all(edge.get("tick") == 1 for edge in ticks)
    assert not any(edge.get("tick") for edge in scene["edges"] if edge["a"] != mask)


def test_a_closed_group_tells_what_comes_and_goes_in_it():
    history = sample_history(*GREEDY)
    view = view_of(history)
    view.opened = set()
    scene = view.scene()
    groups = [box for box in scene["boxes"] if box["kind"] == "group"]
    assert groups
    for box in groups:
        members = view.members(box["id"])
        for moment, graph in ((0, history.initial), (scene["T"], history.graph)):
            still = sum(count for _, count in box["still"])
            inside = still + sum(born <= moment < dies for born, dies, _, _ in box["inner"])
            assert inside == sum(name in graph for name in members)


def test_many_inputs_of_one_beginning_are_one_box():
    names = [f"past_key_values.{i}.key" for i in range(24)]
    inputs = ", ".join(f"float[2] {name.replace('.', '_')}" for name in names)
    body = " ".join(f"y{i} = Relu({name.replace('.', '_')})" for i, name in enumerate(names))
    outputs = ", ".join(f"float[2] y{i}" for i in range(24))
    scene = view_of(history_of(from_text(f"g ({inputs}) => ({outputs}) {{ {body} }}"), [])).scene()
    assert [box["id"] for box in scene["boxes"] if box["kind"] == "input"] == ["in:past_key_values_*"]
    assert [box["id"] for box in scene["boxes"] if box["kind"] == "output"] == ["out:y*"]


def test_closed_groups_have_one_size():
    view = view_of(history_of(large_graph(2400, scopes=True), []))
    sizes = {(box["w"], box["h"]) for box in view.scene()["boxes"] if box["kind"] == "group" and not box["open"]}
    assert len(sizes) == 1


def test_a_closed_group_has_its_operators_shape_and_share_of_flops_at_every_moment():
    view = view_of(sample_history(*GREEDY))
    scene = view.scene()
    first, last = (looks_of_groups(scene, moment) for moment in (0, scene["T"]))
    assert (first["stem"]["name"], first["stem"]["d"]) == ("1 Conv, 1 BatchNormalization", "1x8x112x112")
    assert (last["stem"]["name"], last["stem"]["d"]) == ("1 Conv_NHWC, 1 Relu, 1 Transpose", "1x112x112x8")
    shares = [box["flops"] for box in scene["boxes"] if box.get("flops")]
    assert all(97 <= sum(share) <= 103 for share in zip(*shares, strict=True)), "rounded percentages"


def looks_of_groups(scene: dict, moment: int) -> dict[str, dict]:
    """By title of a closed group, its look at a moment."""
    titles = {box["id"]: box["title"] for box in scene["boxes"] if box["kind"] == "group"}
    return {titles[id_]: look for id_, look in at(scene, moment).items() if id_ in titles}


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real models is not on this machine")
def test_sizes_that_rewrites_leave_unknown_are_those_of_a_run_in_the_result():
    """Rules hold for all sizes; the picture is of one."""
    view = view_of(history_of(load_model(CORPUS / "ppocrv4_rec.onnx"), ["layout_greedy"]))
    scene = view.scene()
    now = looks_of_groups(scene, scene["T"])
    assert now["inverted residual 1"]["d"] == "1x112x112x64"
    assert sum("?" in look["d"] for look in now.values()) <= 1, "a size that inference does not find"


def test_a_group_that_loses_all_its_nodes_is_gone():
    nodes = [("Relu", f"/a/n{i}") for i in range(50)] + [("Identity", f"/b/n{i}") for i in range(50, 60)]
    nodes += [("Neg", f"/c/n{i}") for i in range(60, 100)]
    view = view_of(history_of(unary_chain(nodes), ["remove_noops"]))
    (gone,) = [box for box in view.scene()["boxes"] if box.get("title") == "b"]
    assert [dies for _, dies, _ in gone["v"]][-1] == view.timeline.last


def unary_chain(nodes: list[tuple[str, str]]) -> Graph:
    made = [Node(op, (f"v{i}",), (f"v{i + 1}",), name=name) for i, (op, name) in enumerate(nodes)]
    types = {f"v{i}": TensorType(DataType.FLOAT, (1, 4)) for i in range(len(nodes) + 1)}
    return Graph(inputs=("v0",), outputs=(f"v{len(nodes)}",), nodes=made, types=types, opset_imports={"": 23})


def test_a_line_of_one_value_with_two_readers_names_the_value():
    """The result of a residual block is read twice in the next one."""
    scene = view_of(sample_history("resnet50_narrow")).scene()
    ids = [box["id"] for box in scene["boxes"]]
    a, b = ids.index("group:bottleneck 1"), ids.index("group:bottleneck 2")
    (line,) = [edge for edge in scene["edges"] if (edge["a"], edge["b"]) == (a, b)]
    assert [scene["words"][said[2]] for said in line["v"]] == ["1x32x56x56 NCHW"]


def test_measured_times_stand_on_the_boxes_and_their_sum_on_closed_ones():
    history = sample_history(*GREEDY)
    costs = {node.name: Costs(2.0, 0.5) for node in history.graph.nodes}
    profile = view_of(history)
    view = with_all_open(View(profile.timeline, "model", "NHWC", costs=({}, costs), measured_in="torch"))
    scene = view.scene()
    assert scene["measured"] == {
        "us": [2.0, 2.0],
        "mb": [0.5, 0.5],
        "totals": [None, 2.0 * len(costs)],
        "backend": "torch",
    }
    assert all(look["us"] == 2.0 for i, look in at(scene, scene["T"]).items() if not i.startswith(("in:", "out:")))
    view.opened = set()
    assert view.scene()["measured"] == scene["measured"], "also of nodes in closed groups"
    closed = [box for box in view.scene()["boxes"] if box["kind"] == "group"]
    assert all(box["mb"] == [None, 0.5] for box in closed)
    assert closed and all(
        box["us"][1] == 2.0 * len([m for m in view.members(box["id"]) if m in costs]) for box in closed
    )
    assert all(box["us"][0] is None for box in closed), "the original was not measured"
    unmeasured = View(profile.timeline, "model", "NHWC")
    unmeasured.opened = set()
    assert {box["us"] for box in unmeasured.scene()["boxes"] if box["kind"] == "group"} == {None}
    before = {node.name: Costs(3.0, 0.5) for node in history.initial.nodes}
    both = with_all_open(View(profile.timeline, "model", "NHWC", costs=(before, costs)))
    scene = both.scene()
    assert scene["measured"]["us"] == [2.0, 3.0]
    assert scene["measured"]["totals"] == [3.0 * len(before), 2.0 * len(costs)]
    kept = [look for look in scene["looks"] if look["us0"] is not None]
    assert kept and all((look["us0"], look["us"]) == (3.0, 2.0) for look in kept), "in both graphs: both times"
    both.opened = set()
    for box in (box for box in both.scene()["boxes"] if box["kind"] == "group"):
        members = both.members(box["id"])
        assert box["us"] == [3.0 * len(before.keys() & members), 2.0 * len(costs.keys() & members)]
    assert profile.scene()["measured"] is None


def test_a_node_says_the_layout_of_its_result():
    scene = view_of(sample_history("npu_path", "layout_optimal", target="npu"), "npu").scene()
    looks = at(scene, scene["T"])
    layouts = {name: look["x"] for name, look in looks.items()}
    assert (layouts["in:input"], layouts["to_nhwc_input"], layouts["restore_output"]) == ("NCHW", "NHWC", "NCHW")


def test_hostile_names_are_text(tmp_path):
    scene = view_of(history_of(load_model(hostile_model(tmp_path)), [])).scene()
    assert any(HOSTILE in box["id"] for box in scene["boxes"])
    assert all(len(look["name"]) <= 40 for look in scene["looks"])


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real models is not on this machine")
def test_the_payload_of_a_thousand_boxes_of_a_unet_is_small():
    passes = ["fold_constants", "fold_batchnorm", "layout_record_then_insert"]
    view = view_of(history_of(load_model(CORPUS / "unet_sd15_raw.onnx"), passes))
    assert view.timeline.last > 1500
    payload, _ = packed(view.scene())
    assert len(payload) < 250_000


@pytest.mark.slow
def test_the_payload_of_ten_thousand_collapsed_nodes_is_small():
    payload, _ = packed(view_of(history_of(large_graph(10_000, scopes=True), [])).scene())
    assert len(payload) < 150_000


@pytest.mark.parametrize(("target", "own", "kinds"), [("cpu", True, {0}), ("cuda", False, {0, 1})])
def test_a_model_in_the_target_s_layout_has_the_colour_of_its_own(target, own, kinds):
    graph = load_model(FOLDER / "conv_relu_conv_relu.onnx")
    scene = view_of(history_of(graph, ["layout_record_then_insert"], target), target).scene()
    assert scene["own"] is own
    assert {look["l"] for look in scene["looks"]} - {2} == kinds
