"""Loading: every kind of file, every kind of bad file, one opset, symbolic dims, weights left in their files."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from tests.conftest import CORPUS, ROOT
from workbench.errors import UserError
from workbench.ir import Graph, TensorType, check
from workbench.loading import LoadError, fix_dims, load_model, load_torch
from workbench.ops.shapes import infer_types

HEADER = '<ir_version: 8, opset_import: ["": 17]>\n'


def saved(tmp_path: Path, text: str, name: str = "model.onnx", header: str = HEADER) -> Path:
    path = tmp_path / name
    path.write_bytes(parser.parse_model(header + text).SerializeToString())
    return path


def refusal(path: Path, **given) -> str:
    """The sentence with which the file is refused."""
    with pytest.raises(LoadError) as caught:
        load_model(path, **given)
    assert isinstance(caught.value, UserError)
    told = str(caught.value)
    assert "\n" not in told and "Traceback" not in told
    return told


def run(path: str | Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options).run(None, inputs)


# ---- what is read -----------------------------------------------------------------------


def test_a_model_becomes_a_typed_graph_at_our_opset(tmp_path):
    path = saved(
        tmp_path, "g (float[N,3] x) => (float[N,2] y) <float[3,2] w = {1,2,3,4,5,6}> { t = MatMul(x, w) y = Relu(t) }"
    )
    graph = load_model(path)
    check(graph)
    assert graph.opset_imports == {"": 23}
    assert graph.source == str(path)
    assert str(graph.type("t")) == "float[N,2]"
    assert graph.dims == {"N": 1}
    assert graph.warnings == ()
    assert graph.constant("w").numpy().tolist() == [[1, 2], [3, 4], [5, 6]]


def big_model(values: np.ndarray, form: str) -> onnx.ModelProto:
    """A model whose weight is stored as raw data, as typed data, or in a Constant node."""
    weight = numpy_helper.from_array(values, "w")
    if form == "typed":
        weight = helper.make_tensor("w", TensorProto.FLOAT, values.shape, values.ravel().tolist())
    node = helper.make_node("Add", ["x", "w"], ["y"], name="add")
    nodes = [helper.make_node("Constant", [], ["w"], value=weight), node] if form == "node" else [node]
    info = [helper.make_tensor_value_info(v, TensorProto.FLOAT, values.shape) for v in ("x", "y")]
    graph = helper.make_graph(nodes, "big", info[:1], info[1:], [] if form == "node" else [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("form", ["raw", "typed", "node"])
def test_large_weights_stay_in_the_file(tmp_path, form):
    values = np.random.default_rng(0).standard_normal((37, 41)).astype(np.float32)
    path = tmp_path / "big.onnx"
    path.write_bytes(big_model(values, form).SerializeToString())
    graph = load_model(path)
    tensor = graph.constant("w")
    assert type(tensor).__name__ == "LazyTensor"
    np.testing.assert_array_equal(tensor.numpy(), values)
    assert tensor.tobytes() == values.tobytes()
    path.unlink()  # the map keeps what was opened
    np.testing.assert_array_equal(graph.constant("w").numpy(), values)


@pytest.mark.parametrize("dtype", ["float16", "int8", "bfloat16", "uint4", "float64"])
def test_weights_of_every_width(tmp_path, dtype):
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    values = np.arange(4096).reshape(64, 64) % 8
    model = big_model(np.zeros((64, 64), np.float32), "raw")
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(values.astype(kind), "w"))
    element = model.graph.initializer[0].data_type
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("Identity", ["w"], ["y"]))
    model.graph.output[0].type.tensor_type.elem_type = element
    model.opset_import[0].version = 23
    path = tmp_path / "kind.onnx"
    path.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(load_model(path).constant("w").numpy().astype(np.int64), values)


def with_external_data(tmp_path: Path, location: str = "weights.bin") -> Path:
    values = np.arange(400, dtype=np.float32).reshape(20, 20)
    model = big_model(values, "raw")
    onnx.save_model(
        model, tmp_path / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    model = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    next(e for e in model.graph.initializer[0].external_data if e.key == "location").value = location
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    return tmp_path / "model.onnx"


def test_external_data(tmp_path):
    graph = load_model(with_external_data(tmp_path))
    assert graph.constant("w").numpy()[19, 19] == 399


def test_small_external_data_takes_part_in_inference(tmp_path):
    model = parser.parse_model(HEADER + "g (float[2,6] x) => (y) <int64[2] s = {3, 4}> { y = Reshape(x, s) }")
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="d.bin", size_threshold=0)
    assert str(load_model(tmp_path / "m.onnx").type("y")) == "float[3,4]"


def test_external_data_that_is_missing_or_short(tmp_path):
    path = with_external_data(tmp_path)
    os.truncate(tmp_path / "weights.bin", 100)
    assert "needs 1,600 bytes, and the file holds 100" in refusal(path)
    (tmp_path / "weights.bin").unlink()
    assert "'weights.bin' is missing" in refusal(path)


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "a/../../weights.bin", "link.bin", ""])
def test_external_data_outside_the_models_folder_is_not_read(tmp_path, location):
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(bytes(1600))
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    told = refusal(with_external_data(folder, location))
    assert "outside the model's folder" in told and "'w'" in told


def test_text(tmp_path):
    path = tmp_path / "model.onnxtxt"
    path.write_text(HEADER + "g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    graph = load_model(path)
    x = np.float32([[-1, 2, -3], [4, -5, 6]])
    np.testing.assert_array_equal(run(graph.source, {"x": x})[0], np.maximum(x, 0))
    path.write_text(HEADER + "g (float[2,3] x) => (float[2,3] y) { y = Relu(x }")
    assert "not ONNX's textual syntax" in refusal(path)
    path.write_text(HEADER + 'g (float[2,3] x) => (float[2,3] y) <float[2,3] w = ["location": "w"]> { y = Add(x, w) }')
    assert "numbers of 'w' are not in this text" in refusal(path)


def test_names_are_only_names(tmp_path):
    name = "<img src=x onerror=alert(1)>"
    model = parser.parse_model(HEADER + "g (float[2] x) => (float[2] y) { t = Relu(x) y = Neg(t) }")
    model.graph.node[0].name = model.graph.node[0].output[0] = model.graph.node[1].input[0] = name
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    graph = load_model(path)
    assert graph.producer(name).name == name


def test_errors_call_the_file_as_the_user_knows_it(tmp_path):
    path = tmp_path / "upload_1234"
    path.write_bytes(b"")
    assert refusal(path, name="mine.onnx").startswith("mine.onnx: ")


# ---- bad input ---------------------------------------------------------------------------


def test_missing_empty_folder(tmp_path):
    assert "there is no such file" in refusal(tmp_path / "none.onnx")
    (tmp_path / "empty.onnx").touch()
    assert "is empty" in refusal(tmp_path / "empty.onnx")
    assert "open 'empty.onnx' in it" in refusal(tmp_path)


def test_every_truncation_is_a_sentence(tmp_path):
    values = np.zeros((30, 30), np.float32)
    whole = big_model(values, "raw").SerializeToString()
    path = tmp_path / "cut.onnx"
    for length in (*range(1, 60), *range(60, len(whole), 311), len(whole) - 1):
        path.write_bytes(whole[:length])
        assert refusal(path)


def test_random_bytes_are_a_sentence(tmp_path):
    random = np.random.default_rng(0)
    path = tmp_path / "noise.onnx"
    for size in [1, 2, 3, 10, 100, 5000] * 20:
        path.write_bytes(random.bytes(size))
        assert refusal(path)


def test_flipped_bytes_are_a_sentence_or_a_graph(tmp_path):
    whole = bytearray(big_model(np.zeros((30, 30), np.float32), "raw").SerializeToString())
    random = np.random.default_rng(1)
    path = tmp_path / "flipped.onnx"
    for _ in range(200):
        damaged = bytearray(whole)
        for at in random.integers(0, 200, 3):
            damaged[at] = random.integers(0, 256)
        path.write_bytes(damaged)
        try:
            assert isinstance(load_model(path), Graph)
        except LoadError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("g (float[2] x) => (float[2] y) { a = Add(x, b) b = Relu(a) y = Neg(b) }", "has a cycle through"),
        ("g (float[2] x) => (float[2] y) { y = Add(x, nowhere) }", "reads 'nowhere', which nothing makes"),
        ("g (float[2] x) => (float[2] y) { y = Relu(x) y = Neg(x) }", "value 'y' is made twice"),
        ("g (float[2] x) => (float[2] x2, float[2] z) { x2 = Relu(x) }", "output 'z' of graph 'g' is made by no node"),
        ("g (float[2] x, int64[2] i) => (float[2] y) { y = Add(x, i) }", "ill-typed"),
        ("g (float[2,3] x, float[4,5] w) => (float[2,5] y) { y = MatMul(x, w) }", "ill-typed"),
        ("g (float[2] x) => (float[2] y) { y = Relu(x, x) }", "ill-typed"),
        ("g () => () { }", "holds no graph"),
        (
            "g (float[2] x, bool c) => (float[2] y) { y = If(c) <then_branch = t () => (float[2] a) { a = Add(x, lost) },"
            " else_branch = e () => (float[2] b) { b = Neg(x) }> }",
            "reads 'lost'",
        ),
    ],
)
def test_graphs_that_are_not_whole(tmp_path, text, sentence):
    assert sentence in refusal(saved(tmp_path, text))


def test_nodes_out_of_order_are_put_in_order(tmp_path):
    model = parser.parse_model(HEADER + "g (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) y = Abs(b) }")
    nodes = list(model.graph.node)[::-1]
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert [node.op_type for node in load_model(path).nodes] == ["Relu", "Neg", "Abs"]


def test_weights_of_a_wrong_length(tmp_path):
    model = big_model(np.zeros((30, 30), np.float32), "raw")
    for raw, dims in ((bytes(3599), [30, 30]), (bytes(3600), [30, 31]), (bytes(40), [30]), (bytes(40), [-10])):
        weight = model.graph.initializer[0]
        weight.raw_data = raw
        del weight.dims[:]
        weight.dims.extend(dims)
        path = tmp_path / "m.onnx"
        path.write_bytes(model.SerializeToString())
        assert "weight 'w'" in refusal(path)


def test_a_shape_larger_than_memory_loads(tmp_path):
    """Only running it needs the memory."""
    path = saved(tmp_path, "g (float[1000000,1000000] x) => (float[1000000,1000000] y) { y = Relu(x) }")
    assert load_model(path).tensor_type("y").bytes == 4 * 10**12


@pytest.mark.parametrize(("version", "sentence"), [(6, "opset 6"), (99, "opset 99, newer than"), (0, "which opset")])
def test_opsets_that_are_too_old_or_too_new(tmp_path, version, sentence):
    model = parser.parse_model(HEADER + "g (float[2] x) => (float[2] y) { y = Relu(x) }")
    model.opset_import[0].version = version
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert sentence in refusal(path)


@pytest.mark.parametrize("op", ["Foo", "my.domain.Foo", "workbench.Foo"])
def test_an_unknown_operator_is_shown_with_a_warning(tmp_path, op):
    header = '<ir_version: 8, opset_import: ["": 17, "my.domain": 1, "workbench": 1]>\n'
    graph = load_model(saved(tmp_path, f"g (float[2] x) => (float[2] y) {{ t = {op}(x) y = Relu(t) }}", header=header))
    assert len(graph) == 2
    (warning,) = graph.warnings
    assert "can be shown, not run" in warning and f"'{op}'" in warning
    assert infer_types(graph)["y"] == TensorType(graph.type("x").dtype, (2,))


# ---- inputs with constants, opsets, functions, bodies ------------------------------------------


def test_inputs_with_a_default_become_constants(tmp_path):
    text = "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
    new = load_model(saved(tmp_path, text))
    assert new.inputs == ("x",)
    assert new.warnings == ("input 'w' has a default value in the model and became a constant of it",)
    old = load_model(saved(tmp_path, text, header='<ir_version: 3, opset_import: ["": 9]>\n'))
    assert old.inputs == ("x",) and old.warnings == ()


def test_conversion_changes_the_form_and_not_the_result(tmp_path):
    text = "g (float[2,3,4] x) => (float[2,3,4] y) { s = Softmax <axis = 1> (x) u = Unsqueeze <axes = [0]> (s) y = Squeeze <axes = [0]> (u) }"
    path = saved(tmp_path, text, header='<ir_version: 7, opset_import: ["": 11]>\n')
    graph = load_model(path)
    check(graph)
    assert graph.opset_imports[""] == 23
    assert all("axes" not in node.attributes for node in graph.nodes)
    from workbench.exporting import export_onnx

    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    export_onnx(graph, tmp_path / "out.onnx")
    np.testing.assert_allclose(run(tmp_path / "out.onnx", {"x": x})[0], run(path, {"x": x})[0], rtol=1e-6)


def test_bodies_are_converted_and_their_new_values_have_names_of_their_own(tmp_path):
    text = """g (bool c, float[2,3] x) => (float[2,3] y) {
        z = Softmax <axis = 0> (x)
        y = If (c) <then_branch = t () => (float[2,3] a) { a = Softmax <axis = 0> (z) },
                    else_branch = e () => (float[2,3] b) { r = ReduceSum <axes = [1], keepdims = 1> (z) b = Add(z, r) }> }"""
    path = saved(tmp_path, text, header='<ir_version: 7, opset_import: ["": 11]>\n')
    graph = load_model(path)
    check(graph)
    names = [v for node in graph.nodes for v in node.outputs]
    for node in graph.nodes:
        for body in node.bodies.values():
            names += [*body.constants, *(v for inner in body.nodes for v in inner.outputs)]
            assert all("axes" not in inner.attributes for inner in body.nodes)
    assert len(names) == len(set(names))
    from workbench.exporting import export_onnx

    export_onnx(graph, tmp_path / "out.onnx")
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    for c in (True, False):
        given = {"c": np.array(c), "x": x}
        np.testing.assert_allclose(run(tmp_path / "out.onnx", given)[0], run(path, given)[0], rtol=1e-6)


def test_conversion_keeps_names_metadata_and_large_weights(tmp_path):
    values = np.random.default_rng(0).standard_normal((37, 41)).astype(np.float32)
    model = big_model(values, "node")
    model.metadata_props.add(key="author", value="someone")
    model.graph.node[1].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'layer1']")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    graph = load_model(path)
    assert graph.metadata["author"] == "someone"
    assert graph.node("add").metadata["pkg.torch.onnx.name_scopes"] == "['', 'layer1']"
    np.testing.assert_array_equal(graph.constant("w").numpy(), values)


FUNCTION = """<ir_version: 9, opset_import: ["": 17, "f": 1]>
g (float[2,3] x) => (float[2,3] y) { z = f.twice(x) y = Relu(z) }
<domain: "f", opset_import: ["": 17]>
twice (a) => (b) { two = Constant <value_float = 2.0> () b = Mul(a, two) }"""


def test_functions_survive(tmp_path):
    graph = load_model(saved(tmp_path, FUNCTION, header=""))
    (function,) = graph.functions.values()
    assert function.name == "twice" and function.graph.opset_imports[""] == 23
    assert graph.opset_imports == {"": 23, "f": 1}
    assert str(graph.type("z")) == "float[2,3]"


def test_a_function_that_cannot_be_converted_keeps_the_models_opset(tmp_path):
    text = """<ir_version: 9, opset_import: ["": 12, "f": 1]>
    g (float[2,3] x) => (float[2,1] y) { y = f.sum <dims = [1]> (x) }
    <domain: "f", opset_import: ["": 12]>
    sum <dims> (a) => (b) { b = ReduceSum <axes: ints = @dims> (a) }"""
    graph = load_model(saved(tmp_path, text, header=""))
    assert graph.opset_imports[""] == 12
    (warning,) = graph.warnings
    assert "stays at opset 12" in warning and "'ReduceSum' in function 'sum'" in warning


def test_a_function_that_calls_itself_is_refused(tmp_path):
    assert "calls itself" in refusal(saved(tmp_path, FUNCTION.replace("Mul(a, two)", "f.twice(a)"), header=""))


X = "float[2,3,4,4] x"
SCALES = "<float[4] s = {1, 1, 1.5, 3}>"
CONVERTED = [
    (7, f"g ({X}) => (y) {{ y = Upsample <mode = 'nearest', scales = [1.0, 1.0, 1.5, 2.0]> (x) }}"),
    *((9, f"g ({X}) => (y) {SCALES} {{ y = Upsample <mode = '{mode}'> (x, s) }}") for mode in ("nearest", "linear")),
    *((10, f"g ({X}) => (y) {SCALES} {{ y = Resize <mode = '{mode}'> (x, s) }}") for mode in ("nearest", "linear")),
    (11, f"g ({X}) => (y) <float[0] r = {{}}, float[4] s = {{1, 1, 0.7, 2}}> {{ y = Resize (x, r, s) }}"),
    *((11, f"g ({X}) => (y) {{ y = Hardmax <axis = {axis}> (x) }}") for axis in (0, 1, 3, -1)),
    *((v, f"g ({X}) => (y) {{ y = {op} <axis = 2> (x) }}") for op in ("Softmax", "LogSoftmax") for v in (9, 12)),
    *(
        (v, f"g ({X}) => (y) {{ y = Reduce{op} <axes = [1, -1], keepdims = 0> (x) }}")
        for v in (9, 12, 17)
        for op in ("Sum", "Mean", "Max", "Min", "L1", "L2", "LogSumExp", "SumSquare", "Prod")
        if not (op == "Sum" and v > 12)
    ),
    (7, f"g ({X}) => (y) <float[3] s = {{1, 2, 3}}> {{ y = BatchNormalization (x, s, s, s, s) }}"),
    (8, f"g ({X}) => (y) {{ y = Dropout (x) }}"),
    (9, f"g ({X}) => (y) {{ y = Clip <min = -0.5, max = 0.25> (x) }}"),
    (10, f"g ({X}) => (y) {{ y = Pad <pads = [0, 0, 1, 1, 0, 0, 2, 2], value = 3.0> (x) }}"),
    (9, f"g ({X}) => (y) {{ y = Slice <axes = [1, 2], starts = [0, 1], ends = [2, 3]> (x) }}"),
    (9, f"g ({X}) => (y) {{ y, i = TopK <k = 2> (x) }}"),
    (11, f"g ({X}) => (y) {{ a, y = Split <axis = 2, split = [1, 3]> (x) }}"),
    (13, f"g ({X}) => (y) {{ a, y = Split <axis = 2> (x) }}"),
    (7, "g (float[4,4] x) => (y) <float[1,4] c = {1, 2, 3, 4}> { y = Gemm <transB = 1> (x, x, c) }"),
    (10, f"g ({X}) => (y) {{ y = AveragePool <kernel_shape = [2, 2], ceil_mode = 1, strides = [3, 3]> (x) }}"),
    (10, "g (float[2,3] x) => (y) <int64[1,1] i = {1}, float[1,1] u = {9}> { y = Scatter (x, i, u) }"),
    (17, "g (float[1,8,1] x) => (y) { y = DFT <axis = 1, onesided = 1> (x) }"),
    (10, f"g ({X}) => (y) <float[1,4] r = {{0, 0, 5, 5}}, int64[1] b = {{0}}> {{ y = RoiAlign <output_height = 3, output_width = 3> (x, r, b) }}"),
    (9, f"g ({X}) => (y) {{ y = GlobalLpPool (x) }}"),
]  # fmt: skip


@pytest.mark.parametrize(("opset", "text"), CONVERTED, ids=[f"{o}-{t[10:90]}" for o, t in CONVERTED])
def test_conversion_keeps_what_each_operator_computes(tmp_path, opset, text):
    header = f'<ir_version: 7, opset_import: ["": {opset}]>\n'
    path = saved(tmp_path, text.replace("'", '"'), header=header)
    graph = load_model(path)
    assert graph.warnings == () and graph.opset_imports[""] in (21, 23)
    from workbench.exporting import export_onnx

    export_onnx(graph, tmp_path / "out.onnx")
    x = np.random.default_rng(0).standard_normal(graph.shape("x")).astype(np.float32)
    np.testing.assert_allclose(run(tmp_path / "out.onnx", {"x": x})[0], run(path, {"x": x})[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("opset", "call", "reason"),
    [
        (18, "GroupNormalization <num_groups = 2> (x, s, s)", "scales groups there, and channels here"),
        (11, 'Resize <coordinate_transformation_mode = "tf_half_pixel_for_nn"> (x, r, w)', "coordinate mode"),
        (10, "Resize (x, w)", "makes images smaller"),
    ],
)
def test_what_cannot_be_converted_stays_and_is_named(tmp_path, opset, call, reason):
    text = f"g (float[1,4,2,2] x) => (y) <float[2] s = {{1, 2}}, float[0] r = {{}}, float[4] w = {{1, 1, 0.5, 0.5}}> {{ y = {call} }}"
    graph = load_model(saved(tmp_path, text, header=f'<ir_version: 8, opset_import: ["": {opset}]>\n'))
    assert graph.opset_imports[""] == opset and len(graph) == 1
    (warning,) = graph.warnings
    assert f"stays at opset {opset}" in warning and call.split()[0] in warning and reason in warning


def test_newer_opsets_stay(tmp_path):
    header = '<ir_version: 11, opset_import: ["": 24]>\n'
    graph = load_model(saved(tmp_path, "g (float[2] x) => (float[2] y) { y = Relu(x) }", header=header))
    assert graph.opset_imports[""] == 24 and graph.warnings == ()
    graph = load_model(saved(tmp_path, "g (float[2] x) => (float[2] y) { y = Swish(x) }", header=header))
    assert "'Swish'" in graph.warnings[0] and "newer form in opset 24" in graph.warnings[0]


def test_outputs_without_a_shape_are_accepted(tmp_path):
    model = parser.parse_model(HEADER + "g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert str(load_model(path).type("y")) == "float[2,3]"


# ---- dims ---------------------------------------------------------------------------------------


def test_unknown_dims_get_names(tmp_path):
    model = parser.parse_model(HEADER + "g (float[a,b,c,d,5] x) => (y) { y = Relu(x) }")
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[0].Clear()
    dims[1].dim_param = "?"
    dims[2].dim_value = -1
    dims[3].dim_value = 0
    model.graph.input[0].name = model.graph.node[0].input[0] = "in:0/x"
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    graph = load_model(path)
    assert graph.shape("in:0/x") == ("in_0_x_0", "in_0_x_1", "in_0_x_2", "in_0_x_3", 5)
    assert graph.shape("y") == graph.shape("in:0/x")
    assert set(graph.dims) == {f"in_0_x_{i}" for i in range(4)}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("N,3,H,W", {"N": 1, "H": 224, "W": 224}),
        ("a,p,q,3", {"a": 1, "p": 224, "q": 224}),
        ("batch_size,sequence_length", {"batch_size": 1, "sequence_length": 32}),
        ("seq,batch,64", {"seq": 32, "batch": 1}),
        ("2,b,128", {"b": 1}),
        ("n", {"n": 1}),
        ("k", {"k": 32}),
    ],
)
def test_defaults_of_dims(tmp_path, shape, expected):
    assert load_model(saved(tmp_path, f"g (float[{shape}] x) => (y) {{ y = Relu(x) }}")).dims == expected


def test_the_user_binds_dims_and_the_types_stay_symbolic(tmp_path):
    path = saved(tmp_path, "g (float[N,3,H,W] x) => (float[N,3,H,W] y) { y = Relu(x) }")
    graph = load_model(path, {"N": 4, "H": 64})
    assert graph.dims == {"N": 4, "H": 64, "W": 224}
    assert graph.shape("y") == ("N", 3, "H", "W")
    assert infer_types(graph)["y"].shape == (4, 3, 64, 224)
    assert infer_types(graph, {})["y"].shape == ("N", 3, "H", "W")
    fixed = fix_dims(graph, {"N": 4})
    assert fixed.shape("x") == fixed.shape("y") == (4, 3, "H", "W")
    assert graph.shape("x") == ("N", 3, "H", "W")


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True])
def test_dims_that_are_no_sizes(tmp_path, value):
    path = saved(tmp_path, "g (float[N] x) => (float[N] y) { y = Relu(x) }")
    assert "'N' must be a whole number" in refusal(path, dims={"N": value})


def test_dims_that_the_model_has_not(tmp_path):
    path = saved(tmp_path, "g (float[N,K] x) => (float[N,K] y) { y = Relu(x) }")
    assert "no dimension 'M'; it has N, K" in refusal(path, dims={"M": 1})


def test_numbers_that_exporters_compute_are_followed(tmp_path):
    text = """g (float[2,8,4,4] x) => (y) {
        start = Constant <value_int = 1> ()
        end = Constant <value_int = 3> ()
        step = Constant <value_int = 1> ()
        axes = Range(start, end, step)
        scale = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> ()
        wide = Unsqueeze(scale, axes)
        y = Mul(x, wide) }"""
    graph = load_model(saved(tmp_path, text))
    assert [node.op_type for node in graph.nodes] == ["Range", "Unsqueeze", "Mul"]  # inference changes no graph
    assert str(graph.type("wide")) == "float[8,1,1]" and str(graph.type("y")) == "float[2,8,4,4]"


# ---- torch ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    torch = pytest.importorskip("torch")

    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)
            self.register_buffer("scale", torch.full((4, 1, 1), 2.0))

        def forward(self, x, extra):
            return {"out": torch.relu(self.conv(x) * self.scale) + extra[0]}

    torch.manual_seed(0)
    args = (torch.randn(2, 3, 8, 8), [torch.randn(4, 6, 6)])
    dims = {"x": {0: torch.export.Dim("batch", min=1, max=64)}, "extra": [None]}
    path = tmp_path_factory.mktemp("torch") / "small.pt2"
    torch.export.save(torch.export.export(Small().eval(), args, dynamic_shapes=dims), path)
    return path


def test_a_torch_program(program):
    import torch

    graph = load_model(program)
    check(graph)
    assert graph.opset_imports[""] == 23
    assert len(graph.dims) == 1
    x, extra = torch.randn(5, 3, 8, 8), torch.randn(4, 6, 6)
    with torch.no_grad():
        expected = torch.export.load(program).module()(x, [extra])["out"].numpy()
    given = dict(zip(graph.inputs, (x.numpy(), extra.numpy()), strict=True))
    np.testing.assert_allclose(run(graph.source, given)[0], expected, rtol=1e-4, atol=1e-6)


class Bomb:
    """A pickle that makes a file when it is opened."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return (os.mkdir, (str(self.target),))


def bomb(target: Path) -> bytes:
    import torch

    out = io.BytesIO()
    torch.save((Bomb(target),), out)
    return out.getvalue()


def rewritten(program: Path, target: Path, change) -> Path:
    """A copy of the archive; `change` gets (name without the root, data) and returns data or more entries."""
    with zipfile.ZipFile(program) as source, zipfile.ZipFile(target, "w") as copy:
        root = source.namelist()[0].split("/")[0]
        for name in source.namelist():
            inner = name.removeprefix(f"{root}/")
            for entry, data in change(inner, source.read(name)).items():
                copy.writestr(f"{root}/{entry}", data)
    return target


def test_the_bomb_works(tmp_path):
    """Else the tests below would prove nothing: torch.export.load itself runs it."""
    import torch

    mark = tmp_path / "ran"
    with pytest.raises(Exception):  # noqa: B017
        torch.load(io.BytesIO(bomb(mark)), weights_only=True)
    assert not mark.exists()
    torch.load(io.BytesIO(bomb(mark)), weights_only=False)
    assert mark.exists()


def test_a_pickle_among_the_sample_inputs_is_not_opened(program, tmp_path):
    mark = tmp_path / "ran"
    bad = rewritten(
        program,
        tmp_path / "bad.pt2",
        lambda name, data: {name: bomb(mark) if name.startswith("data/sample_inputs/") else data},
    )
    assert len(load_model(bad)) == len(load_model(program))
    assert not mark.exists()


@pytest.mark.parametrize("part", ["weights", "constants"])
def test_a_pickled_weight_is_refused(program, tmp_path, part):
    mark = tmp_path / "ran"

    def change(name, data):
        if name == f"data/{part}/model_{part}_config.json":
            entry = {"path_name": "tensor_9" if part == "constants" else "weight_9", "is_param": True}
            config = {"config": {"w": {**entry, "use_pickle": True, "tensor_meta": None}}}
            return {name: json.dumps(config), f"data/{part}/{entry['path_name']}": bomb(mark)}
        return {name: data}

    told = refusal(rewritten(program, tmp_path / "bad.pt2", change))
    assert "pickle" in told and "runs code" in told
    assert not mark.exists()


@pytest.mark.parametrize(
    "entry",
    ["data/constants/custom_obj_0", "data/constants/opaque_obj_0", "data/weights/model.pt", "data/constants/model.pt"],
)
def test_pickled_objects_and_old_forms_are_refused(program, tmp_path, entry):
    mark = tmp_path / "ran"

    def change(name, data):
        return {name: data, entry: bomb(mark)} if name == "archive_format" else {name: data}

    assert f"'{entry}', which may run code" in refusal(rewritten(program, tmp_path / "bad.pt2", change))
    assert not mark.exists()


@pytest.mark.parametrize("field", ["expr_str", "name", "guards_code"])
def test_code_in_the_description_of_a_program_does_not_run(program, tmp_path, field):
    mark = tmp_path / "ran"
    code = f"__import__('os').mkdir({str(mark)!r})"

    def planted(item):
        if isinstance(item, dict):
            if field == "guards_code" and "guards_code" in item:
                return {**item, "guards_code": [code]}
            return {k: code if k == field and isinstance(v, str) else planted(v) for k, v in item.items()}
        return [planted(v) for v in item] if isinstance(item, list) else item

    def change(name, data):
        return {name: json.dumps(planted(json.loads(data))) if name == "models/model.json" else data}

    bad = rewritten(program, tmp_path / "bad.pt2", change)
    if field == "guards_code":
        load_model(bad)
    else:
        assert "the program has the" in refusal(bad)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.pkl", "model.pickle", "model.onnx", "model"])
@pytest.mark.parametrize("form", ["pickle", "torch"])
def test_pickles_are_refused(tmp_path, name, form):
    mark = tmp_path / "ran"
    path = tmp_path / name
    path.write_bytes(pickle.dumps(Bomb(mark)) if form == "pickle" else bomb(mark))
    told = refusal(path)
    assert "a pickle runs code when it is opened" in told and "torch.export.save" in told
    assert not mark.exists()


def test_a_pt2_that_is_none(tmp_path):
    path = tmp_path / "m.pt2"
    path.write_bytes(b"not a zip")
    assert "not a program saved by torch.export" in refusal(path)
    path.write_bytes(bomb(tmp_path / "ran"))
    assert "no program of torch.export" in refusal(path)
    assert not (tmp_path / "ran").exists()


FACTORY = """
import torch
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 3)
        self.drop = torch.nn.Dropout(0.5)
    def forward(self, x, scale=1.0):
        return self.drop(self.lin(x)) * scale
def plain(): return M(), (torch.ones(2, 4),)
def full(): return M(), (torch.ones(2, 4),), {"scale": torch.tensor(2.0)}, {"x": {0: torch.export.Dim("rows")}, "scale": None}
def exported(): return torch.export.export(M().eval(), (torch.ones(2, 4),))
def wrong(): return 7
def broken(): raise RuntimeError("no weights here")
def unexportable():
    class Bad(torch.nn.Module):
        def forward(self, x): return x if x.sum() > 0 else -x
    return Bad(), (torch.ones(2),)
"""


@pytest.fixture
def factories(tmp_path, monkeypatch) -> str:
    (tmp_path / "my_factories.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_factories", raising=False)
    return "my_factories"


@pytest.mark.parametrize("name", ["plain", "full", "exported"])
def test_factories(factories, name):
    graph = load_torch(f"{factories}:{name}")
    check(graph)
    assert not any(node.op_type == "Dropout" for node in graph.nodes)
    assert (len(graph.dims) == 1) == (name == "full")


@pytest.mark.parametrize(
    ("factory", "sentence"),
    [
        ("my_factories:wrong", "the factory must return"),
        ("my_factories:broken", "the factory failed: RuntimeError: no weights here"),
        ("my_factories:unexportable", "torch.export failed"),
        ("my_factories:none", "has no 'none'"),
        ("no_such_module:f", "cannot be imported"),
        ("my_factories", "package.module:function"),
    ],
)
def test_factories_that_do_not_work(factories, factory, sentence):
    with pytest.raises(LoadError) as caught:
        load_torch(factory)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


# ---- cost ------------------------------------------------------------------------------------------


def test_loading_imports_no_torch():
    code = (
        "import sys, workbench.loading; print([m for m in ('torch', 'onnxruntime', 'streamlit') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.onnx")) or [CORPUS / "absent"], ids=lambda p: p.stem)
def test_every_type_of_the_corpus_is_known_once_its_dims_are_bound(path):
    if not path.exists():
        pytest.skip(f"NOT TESTED: no models in {CORPUS}")
    graph = load_model(path, {"x_2": 48} if path.stem == "ppocrv4_rec" else None)
    check(graph)
    types = infer_types(graph)
    open_ = [
        n.op_type for n in graph.nodes for v in n.outputs if v and (v not in types or types[v].static_shape is None)
    ]
    assert set(open_) <= {"If", "Identity", "SplitToSequence"}
