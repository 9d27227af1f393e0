"""Files that are no plain `.onnx`: packed in some way, in another format, or without their weights."""

from __future__ import annotations

import gzip
import os

import numpy as np
import onnx
import pytest
from google.protobuf import json_format, text_format
from onnx import TensorProto, helper, numpy_helper

from tests.conftest import ROOT
from tests.loading import refusal
from tests.loading import run as run_file
from workbench.formats.io import load_model
from workbench.interfaces import api

SAMPLE = ROOT / "sample_models" / "conv_relu_conv_relu.onnx"
X = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)


def packed(folder, kind):
    model = onnx.load(SAMPLE)
    path = folder / f"model.{kind}"
    if kind == "onnx.gz":
        path.write_bytes(gzip.compress(model.SerializeToString()))
    elif kind == "json":
        path.write_text(json_format.MessageToJson(model))
    else:
        path.write_text(text_format.MessageToString(model))
    return path


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("kind", ["onnx.gz", "json", "textproto", "pbtxt", "prototxt"])
def test_a_packed_model_is_opened_and_verified(tmp_path, run, kind):
    path, out = packed(tmp_path, kind), tmp_path / "out.onnx"
    code, said, _ = run("optimize", path, "-o", out)
    assert code == 0 and "the end: Equal" in said
    assert [n.op_type for n in onnx.load(out).graph.node] == [n.op_type for n in onnx.load(SAMPLE).graph.node]
    assert run("verify", path, SAMPLE)[0] == 0
    code, _, said = run("optimize", path, "-o", out, "--certificate", tmp_path / "c.json")
    assert code == 2 and "this model is packed as" in said


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("m.onnx", b"\x1c\0\0\0ORTM\0\0\0\0", "ONNX Runtime's own format (.ort), which is made from an .onnx file"),
        (
            "m.onnx.gz",
            gzip.compress(SAMPLE.read_bytes(), mtime=0)[:-50],
            "the compressed file is damaged, or it was cut off",
        ),
        ("m.onnx.gz", b"\x1f\x8b\x08garbage of some length", "the compressed file is damaged, or it was cut off"),
        ("m.onnx.gz", gzip.compress(b"no model", mtime=0), "the file is not ONNX, or it was cut off"),
        ("m.tflite", b"\x1c\0\0\0TFL3", "this is a model of TensorFlow; convert it to ONNX with tf2onnx"),
        ("m.safetensors", b"12345678{}", "this file has weights without a graph; export the program that uses them"),
        ("m.json", b"{", "the text is not a model as JSON"),
        ("m.json", b'{"graph": 3}', "the text is not a model as JSON"),
        ("m.json", b"\xff\xfe", "the file is not text"),
        ("m.textproto", b"graph {", "the text is not a model in protobuf's text format"),
    ],
)
def test_what_is_no_model_is_one_sentence(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    said = refusal(tmp_path / name)
    assert said.startswith(f"{name}: ") and sentence in said


def test_a_compressed_file_of_more_than_a_model_may_have_is_refused_early(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.formats.io.encodings.LARGEST", 10_000)
    (tmp_path / "m.onnx.gz").write_bytes(gzip.compress(bytes(100_000)))
    assert "it contains more than 2 GB" in refusal(tmp_path / "m.onnx.gz")


@pytest.fixture
def without_weights(tmp_path):
    random = np.random.default_rng(0)
    weights = [numpy_helper.from_array(random.standard_normal((64, 64)).astype(np.float32), name) for name in "vw"]
    weights.append(numpy_helper.from_array(np.ones(64, np.float32), "small"))
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["a"]),
        helper.make_node("Identity", ["a"], ["i"]),
        helper.make_node("MatMul", ["i", "w"], ["b"]),
        helper.make_node("Add", ["b", "small"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(v, TensorProto.FLOAT, ["N", 64]) for v in "xy")
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    os.rename(tmp_path / "w.bin", tmp_path / "elsewhere")
    return tmp_path / "m.onnx"


def test_a_model_without_its_weights_opens_as_a_graph(without_weights, run, tmp_path):
    code, said, notes = run("inspect", without_weights)
    assert code == 0 and "MatMul 2" in said and "8,256" in said
    assert notes == (
        "note: the external data file 'w.bin' is missing, with the elements of 3 weights; the model can be shown, "
        "not run, until it is put beside the model\n"
    )
    assert run("report", without_weights, "-o", tmp_path / "r.html", "--passes", "remove_noops", "--no-verify")[0] == 0


@pytest.mark.parametrize("name", ["share_constants", "layout_optimal", "layout_blocked", "layout_greedy"])
def test_passes_over_layouts_show_a_model_without_its_weights(tmp_path, name):
    """Two equal biases that a layout permutes, and a vector that could be the shape of a Reshape."""
    shapes = {"w": (8, 8, 1, 1), "b": (1, 8, 1, 1), "c": (1, 8, 1, 1)}
    weights = [numpy_helper.from_array(np.ones(shape, np.float32), value) for value, shape in shapes.items()]
    weights.append(numpy_helper.from_array(np.ones(5, np.int64), "five"))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["p"]),
        helper.make_node("Add", ["p", "c"], ["y"]),
        helper.make_node("Add", ["n", "five"], ["m"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 1, 1])
    n, m = (helper.make_tensor_value_info(value, TensorProto.INT64, [5]) for value in "nm")
    graph = helper.make_graph(nodes, "g", [x, n], [y, m], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    os.remove(tmp_path / "w.bin")
    history = api.optimize(load_model(tmp_path / "m.onnx"), [name], target="cuda")
    assert any("Conv_NHWC" in node.op for node in history.graph.nodes) == name.startswith("layout")


def test_a_missing_weight_that_decides_a_shape_is_named(tmp_path):
    x, y = (helper.make_tensor_value_info(v, TensorProto.FLOAT, ["N", 64]) for v in "xy")
    weight = numpy_helper.from_array(np.array([-1, 64]), "sizes")
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "sizes"], ["y"])], "g", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    os.remove(tmp_path / "w.bin")
    said = "weight 'sizes' decides a shape, and its external data file is missing; put it beside the model"
    assert refusal(tmp_path / "m.onnx") == f"m.onnx: {said}"


def test_what_needs_the_weights_says_so(without_weights, run, tmp_path):
    code, _, said = run(
        "optimize", without_weights, "-o", tmp_path / "out.onnx", "--passes", "remove_noops", "--no-verify"
    )
    assert code == 2 and not (tmp_path / "out.onnx").exists()
    assert "the external data file 'w.bin' is missing; put it beside the model" in said
    os.rename(tmp_path / "elsewhere", tmp_path / "w.bin")
    assert load_model(without_weights).warnings == ()
    assert run("optimize", without_weights, "-o", tmp_path / "out.onnx")[0] == 0
    np.testing.assert_array_equal(run_file(tmp_path / "out.onnx", {"x": X})[0], run_file(without_weights, {"x": X})[0])
