"""DOT: what Graphviz reads of it is the graph, whatever its names are."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.dot_files import boxes_and_edges
from tests.making import HOSTILE
from tests.viewing import sample_history
from workbench.formats.io import load_model
from workbench.formats.io.samples import FOLDER
from workbench.ir import DataType, Graph, Node, TensorType, from_text

ODD_NAMES = [
    'say "hi"',
    "back\\slash\\",
    "two\nlines",
    "a:b:c",
    "<b>bold</b>",
    HOSTILE,
    "\\N \\G",
    "n0",
    "graph",
    "é{|}",
]


def test_every_box_and_every_edge_is_there_with_its_colour_and_its_shape():
    graph = sample_history("resnet50_narrow", "fold_batchnorm", "layout_greedy").graph
    boxes, edges = boxes_and_edges(wb.dot(graph, target="cuda").source)
    assert boxes.keys() == {node.name for node in graph.nodes} | {"in:" + v for v in graph.inputs} | {
        "out:" + v for v in graph.outputs
    }
    read = [value for node in graph.nodes for value in node.inputs if graph.producer(value) or value in graph.inputs]
    assert len(edges) == len(read) + len(graph.outputs)
    assert {box.get("fillcolor") for box in boxes.values()} == {"peachpuff", "lightgrey", "white"}
    assert all("filled" in box["style"] for box in boxes.values())
    assert any(words.endswith(" NHWC") and words.startswith("1x") for *_, words in edges)


def test_where_types_differ_edges_name_them_and_the_narrower_ones_are_two_lines():
    graph = load_model(FOLDER / "precision" / "there_and_back.onnxtxt")
    source = wb.dot(graph).source
    _, edges = boxes_and_edges(source)
    assert {words for *_, words in edges} == {"4 float16", "4 float32", "4 double"}
    assert source.count('color="black:invis:black"') == sum(words == "4 float16" for *_, words in edges)


def test_every_box_is_filled_those_of_inputs_and_outputs_too():
    graph = sample_history("resnet50_narrow", "fold_batchnorm", "layout_greedy").graph
    boxes = [line for line in wb.dot(graph).source.splitlines() if "tooltip=" in line]
    assert len(boxes) == len(graph.nodes) + len(graph.inputs) + len(graph.outputs)
    assert [line for line in boxes if "fillcolor=" not in line or "filled" not in line] == []


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_survive(name):
    type_ = TensorType(DataType.FLOAT, (1, 4))
    nodes = [Node("Relu", (name,), ("mid",), name=f"{name}_relu"), Node("Neg", ("mid",), ("y",), name=f"{name}_neg")]
    graph = Graph(name=name, inputs=(name,), outputs=("y",), nodes=nodes, types={name: type_, "mid": type_})
    boxes, edges = boxes_and_edges(wb.dot(graph).source)
    said = [f"in:{name}", f"{name}_relu", f"{name}_neg", "out:y"]
    escaped = [text.replace("\\", "\\\\") for text in said]  # as DOT writes a backslash that stands for itself
    assert list(boxes) == escaped
    assert edges == [(escaped[0], escaped[1], "1x4"), (escaped[1], escaped[2], "1x4"), (escaped[2], "out:y", "")]
    assert escaped[1] in boxes[escaped[1]]["label"]


def test_bodies_are_clusters_and_captured_values_come_in_from_outside():
    graph = from_text("""
        g (bool c, float[4] x) => (float[4] y) {
            a = Relu(x)
            y = If (c) <then_branch = t () => (float[4] p) { p = Neg(a) },
                        else_branch = e () => (float[4] q) { q = Abs(x) }>
        }""")
    source = wb.dot(graph).source
    boxes, edges = boxes_and_edges(source)
    assert source.count("subgraph ") == 3
    assert set(boxes) == {"in:c", "in:x", "Relu_a", "If_y", "Neg_p", "Abs_q", "out:p", "out:q", "out:y"}
    assert {(a, b) for a, b, _ in edges} == {
        ("in:x", "Relu_a"),
        ("in:c", "If_y"),
        ("Relu_a", "Neg_p"),
        ("in:x", "Abs_q"),
        ("Neg_p", "out:p"),
        ("Abs_q", "out:q"),
        ("If_y", "out:y"),
    }


def test_report_writes_the_graph_at_the_end(done, refused, tmp_path):
    page, file = tmp_path / "r.html", tmp_path / "g.dot"
    model = FOLDER / "conv_relu_conv_relu.onnx"
    said = done("report", model, "--no-verify", "--layout", "greedy", "--target", "cuda", "-o", page, "--dot", file)
    assert page.exists() and f"dot -Tsvg {file} -O" in said
    boxes, _ = boxes_and_edges(file.read_text(encoding="utf-8"))
    assert any("Conv_NHWC" in box["label"] for box in boxes.values())
    told = refused("report", model, "-o", page, "--against", FOLDER / "npu_path.onnx", "--dot", file)
    assert "--dot writes one graph and --against shows two" in told
    assert "its folder does not exist" in refused("report", model, "-o", page, "--dot", tmp_path / "no" / "g.dot")
