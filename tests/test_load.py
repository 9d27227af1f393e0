"""Loading: every kind of file, every kind of bad file, symbolic dims, weights left in their files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

import workbench as wb
from tests.conftest import CORPUS, ROOT
from tests.loading import HEADER, big_model, refusal, run, saved
from workbench.analysis.inference.shapes import infer_types
from workbench.formats.io import LoadError, load_model
from workbench.formats.io.weights import MappedTensor
from workbench.ir import Graph, TensorType, check, from_text

# ---- what is read ----------------------------------------------------------------------


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


@pytest.mark.parametrize("form", ["raw", "typed", "node"])
def test_large_weights_stay_in_the_file(tmp_path, form):
    values = np.random.default_rng(0).standard_normal((37, 41)).astype(np.float32)
    path = tmp_path / "big.onnx"
    path.write_bytes(big_model(values, form).SerializeToString())
    graph = load_model(path)
    tensor = graph.constant("w")
    assert isinstance(tensor, MappedTensor)
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


def test_the_shape_of_an_output_takes_part_in_inference():
    """As decoders ask for the shape of the keys that they also return."""
    text = """g (float[2,3] x) => (float[2,3] y, int64[R] r) <int64 zero = {0}, int64 one = {1}, int64 axis = {1}> {
        y = Relu(x)
        s = Shape(y)
        n = Gather(s, axis)
        r = Range(zero, n, one)
    }"""
    assert infer_types(from_text(text))["r"].shape == (3,)


def test_small_external_data_takes_part_in_inference(tmp_path):
    model = parser.parse_model(HEADER + "g (float[2,6] x) => (y) <int64[2] s = {3, 4}> { y = Reshape(x, s) }")
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="d.bin", size_threshold=0)
    assert str(load_model(tmp_path / "m.onnx").type("y")) == "float[3,4]"


def test_external_data_that_is_short(tmp_path):
    path = with_external_data(tmp_path)
    os.truncate(tmp_path / "weights.bin", 100)
    assert "needs 1,600 bytes, and the file has 100" in refusal(path)


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


# ---- bad input -------------------------------------------------------------------------


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
        ("g (float[2] x) => (float[2] y) { y = Add(x, nowhere) }", "reads 'nowhere', which is not defined"),
        ("g (float[2] x) => (float[2] y) { y = Relu(x) y = Neg(x) }", "value 'y' is defined twice"),
        ("g (float[2] x) => (float[2] x2, float[2] z) { x2 = Relu(x) }", "output 'z' of graph 'g' is not defined"),
        ("g (float[2] x, int64[2] i) => (float[2] y) { y = Add(x, i) }", "ill-typed"),
        ("g (float[2,3] x, float[4,5] w) => (float[2,5] y) { y = MatMul(x, w) }", "ill-typed"),
        ("g (float[2] x) => (float[2] y) { y = Relu(x, x) }", "ill-typed"),
        ("g () => () { }", "contains no graph"),
        (
            "g (float[2] x, bool c) => (float[2] y) { y = If(c) <then_branch = t () => (float[2] a) { a = Add(x, lost) },"
            " else_branch = e () => (float[2] b) { b = Neg(x) }> }",
            "reads 'lost'",
        ),
    ],
)
def test_graphs_that_are_not_whole(tmp_path, text, sentence):
    assert sentence in refusal(saved(tmp_path, text))


@pytest.mark.parametrize(
    ("constants", "node", "sentence"),
    [
        ("int64[1,1] i = {0}", "y = ReduceSum(x, i)", "operand 'i' of ReduceSum 'ReduceSum_y' has the shape [1, 1]"),
        (
            "int64 i = {0}",
            "y = Squeeze(x, i)",
            "operand 'i' of Squeeze 'Squeeze_y' has the shape [], and must be a list",
        ),
        (
            "float[2] i = {0, 1}",
            "y = Clip(x, i)",
            "operand 'i' of Clip 'Clip_y' has the shape [2], and must be one number",
        ),
    ],
)
def test_operands_with_other_axes_than_their_operator_takes(tmp_path, constants, node, sentence):
    """ONNX's inference lets them pass, ONNX Runtime does not; in a branch their constant may be outside."""
    plain = f"g (float[1,2] x) => (y) <{constants}> {{ {node} }}"
    inside = f"""g (float[1,2] x, bool c) => (z) <{constants}> {{
        z = If(c) <then_branch = t () => (float[A,B] y) {{ {node} }}, else_branch = e () => (float[A,B] w) {{ w = Neg(x) }}>
    }}"""
    for text in (plain, inside):
        assert sentence in refusal(saved(tmp_path, text, header=HEADER.replace("17", "18")))


def test_branches_that_declare_wrong_ranks_are_not_believed(tmp_path):
    """As exporters write them, and ONNX Runtime runs them; what inference does not find is left open."""
    text = """g (float[1,2] x, bool c) => (float[A] y) <int64[1] i = {0}> {
        y = If(c) <then_branch = t () => (float[1,2] p) { p = Squeeze(x, i) }, else_branch = e () => (float[1] q) { q = Neg(x) }>
    }"""
    path = saved(tmp_path, text)
    assert run(path, {"x": np.ones((1, 2), np.float32), "c": np.array(True)})[0].shape == (2,)
    node = load_model(path).producer("y")
    ranks = {key: body.rank_of(body.outputs[0]) for key, body in node.bodies.items()}
    assert ranks == {"then_branch": None, "else_branch": 2}


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


@pytest.mark.parametrize(
    ("version", "sentence"), [(6, "opset 6"), (99, "opset 99, newer than"), (0, "does not import an opset")]
)
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
    assert infer_types(graph)["y"] == TensorType(graph.type("x").dtype)


# ---- dims ------------------------------------------------------------------------------


def test_outputs_without_a_shape_are_accepted(tmp_path):
    model = parser.parse_model(HEADER + "g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert str(load_model(path).type("y")) == "float[2,3]"


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
    assert graph.shape("in:0/x") == ("in_0_x_0", "in_0_x_1", "in_0_x_2", 0, 5)  # as ONNX Runtime reads it
    assert graph.shape("y") == graph.shape("in:0/x")
    assert set(graph.dims) == {f"in_0_x_{i}" for i in range(3)}


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


# ---- cost ------------------------------------------------------------------------------


def test_loading_imports_no_torch():
    code = "import sys, workbench.formats.io; print([m for m in ('torch', 'onnxruntime', 'streamlit') if m in sys.modules])"
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


@pytest.mark.parametrize("named", ["input", "output", "value inside", "value of a body", "value of a function"])
def test_an_unnamed_dim_never_shares_a_symbol_with_a_named_one(named, tmp_path):
    """x's first axis has no name; whatever is called x_0 has another size."""
    text = """<ir_version: 9, opset_import: ["": 18, "f": 1]>
        g (float[?,2] x, float[A,2] z, bool c) => (float[B,2] y, float[D,2] u) <float[C,2] v> {
            v = Neg(z)  y = Relu(v)
            u = If(c) <then_branch = t () => (float[E,2] a) { a = Neg(z) }, else_branch = e () => (float[E,2] b) { b = Abs(z) }>
        }
        <domain: "f", opset_import: ["": 18]> h (p) => (r) <float[F,2] q> { q = Neg(p) r = Relu(q) }"""
    places = {"input": "A", "output": "B", "value inside": "C", "value of a body": "E", "value of a function": "F"}
    model = onnx.parser.parse_model(text.replace(f"[{places[named]},", "[x_0,"))
    onnx.save(model, tmp_path / "m.onnx")
    graph = load_model(tmp_path / "m.onnx")
    first = graph.shape("x")[0]
    others = {dim for value in graph.values() if value != "x" for dim in graph.shape(value) or ()}
    assert isinstance(first, str) and first not in others
    written = onnx.load(wb.export(graph, tmp_path / "out.onnx").path)
    dims = [value.type.tensor_type.shape.dim[0].dim_param for value in written.graph.input[:2]]
    assert dims[0] not in ("x_0", dims[1])
