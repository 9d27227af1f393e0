"""What a file has besides its graph survives: defaults of inputs, sparse weights, what people wrote."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import workbench as wb
from tests.loading import refusal, saved
from tests.loading import run as run_file
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.ir import Edit

DEFAULT = """g (float[N,3] x, float[3] w) => (float[N,3] y) <float[3] w = {1, 2, 3}, float two = {2}> {
    u = Mul(w, two) z = Add(x, u) y = Relu(z) }"""
X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
W = np.array([4, 5, 6], np.float32)


def test_an_input_with_a_default_stays_one(tmp_path, run):
    path, out = saved(tmp_path, DEFAULT), tmp_path / "out.onnx"
    code, _, said = run("optimize", path, "-o", out, "--preset", "simplify")
    assert code == 0
    assert "input 'w' has a default value and stays an input; --freeze-defaults makes a constant of it" in said
    for given in ({"x": X}, {"x": X, "w": W}):
        np.testing.assert_array_equal(run_file(out, given)[0], run_file(path, given)[0])
    again = load_model(out)
    assert again.inputs == ("x", "w") and again.kept.defaults.keys() == {"w"}


def test_it_becomes_a_constant_where_that_is_wanted(tmp_path, run):
    path, out = saved(tmp_path, DEFAULT), tmp_path / "out.onnx"
    code, _, said = run("optimize", path, "-o", out, "--preset", "simplify", "--freeze-defaults")
    assert code == 0 and "default" not in said
    assert [node.op_type for node in onnx.load(out).graph.node] == ["Add", "Relu"]
    assert wb.load(path, freeze_defaults=True).inputs == ("x",)
    np.testing.assert_array_equal(run_file(out, {"x": X})[0], run_file(path, {"x": X})[0])


@pytest.mark.parametrize("words", [(), ("--freeze-defaults",)])
def test_a_certificate_holds_for_both(tmp_path, run, words):
    path, out, proof = saved(tmp_path, DEFAULT), tmp_path / "out.onnx", tmp_path / "c.json"
    assert run("optimize", path, "-o", out, "--certificate", proof, *words)[0] == 0
    assert run("check", path, out, proof)[0] == 0


def test_your_own_inputs_may_leave_it_out(tmp_path, run):
    path, given = saved(tmp_path, DEFAULT), tmp_path / "i.npz"
    np.savez(given, x=X)
    code, said, _ = run("optimize", path, "-o", tmp_path / "out.onnx", "--inputs", given)
    assert code == 0 and "the end: Equal to the last bit" in said


def test_an_input_with_a_default_is_not_fed_in_another_order(tmp_path):
    text = """g (float[1,2,4,4] x, float[1,2,1,1] w) => (float[1,4,4,2] y) <float[1,2,1,1] w = {1, 2}> {
        a = Transpose <perm = [0, 2, 3, 1]> (x) b = Transpose <perm = [0, 2, 3, 1]> (w) y = Mul(a, b) }"""
    history = wb.optimize(load_model(saved(tmp_path, text)), ["relayout_inputs"])
    assert [rewrite.sentence.split(" is ")[0] for rewrite in history[1].rewrites] == ["input 'x'"]


def sparse(name, array, flat):
    where = np.flatnonzero(array) if flat else np.argwhere(array)
    values = numpy_helper.from_array(array[array != 0], name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(where.astype(np.int64), name + "_i"), array.shape)


@pytest.fixture
def weights():
    random = np.random.default_rng(0)
    dense = random.standard_normal((2, 3, 3)).astype(np.float32)
    dense[random.random(dense.shape) < 0.6] = 0
    return dense


def test_sparse_weights_become_dense_ones(tmp_path, weights, run):
    a, b = weights
    body = helper.make_graph(
        [helper.make_node("MatMul", ["z", "b"], ["t"])], "t", [], [helper.make_empty_tensor_value_info("t")],
        sparse_initializer=[sparse("b", b, flat=True)],
    )  # fmt: skip
    other = helper.make_graph(
        [helper.make_node("Identity", ["z"], ["e"])], "e", [], [helper.make_empty_tensor_value_info("e")]
    )
    bias = np.array([0, 5, 0], np.float32)
    nodes = [
        helper.make_node("Constant", [], ["c"], sparse_value=sparse("", bias, flat=True)),
        helper.make_node("MatMul", ["x", "a"], ["m"]),
        helper.make_node("Add", ["m", "c"], ["z"]),
        helper.make_node("If", ["p"], ["y"], then_branch=body, else_branch=other),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3]),
              helper.make_tensor_value_info("p", TensorProto.BOOL, [])]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        sparse_initializer=[sparse("a", a, flat=False)],
    )  # fmt: skip
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert run("optimize", path, "-o", out)[0] == 0
    for p in (True, False):
        given = {"x": X, "p": np.array(p)}
        wanted = X @ a + bias
        np.testing.assert_allclose(run_file(out, given)[0], wanted @ b if p else wanted, rtol=1e-5, atol=1e-6)


@pytest.fixture
def with_sparse_weights(tmp_path):
    """A file of a weight, one that a Transpose changes, one of a body and one of a Constant, each sparse; the large ones
    in another file if external. Returns how to write it."""

    def write(external=False):
        random = np.random.default_rng(1)
        arrays = {}
        for name in ("kept", "turned", "inner", "held"):
            arrays[name] = np.zeros((40, 40), np.float32)
            arrays[name][random.integers(0, 40, 60), random.integers(0, 40, 60)] = 1 + random.random(60)
        body = helper.make_graph(
            [helper.make_node("MatMul", ["z", "inner"], ["t"])],
            "t",
            [],
            [helper.make_empty_tensor_value_info("t")],
            sparse_initializer=[sparse("inner", arrays["inner"], flat=True)],
        )
        other = helper.make_graph(
            [helper.make_node("Identity", ["z"], ["e"])], "e", [], [helper.make_empty_tensor_value_info("e")]
        )
        nodes = [
            helper.make_node("Constant", [], ["held"], sparse_value=sparse("", arrays["held"], flat=True)),
            helper.make_node("Transpose", ["turned"], ["u"]),
            helper.make_node("MatMul", ["x", "kept"], ["a"]),
            helper.make_node("MatMul", ["a", "u"], ["b"]),
            helper.make_node("MatMul", ["b", "held"], ["z"]),
            helper.make_node("If", ["p"], ["y"], then_branch=body, else_branch=other),
        ]
        inputs = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 40]),
            helper.make_tensor_value_info("p", TensorProto.BOOL, []),
        ]
        graph = helper.make_graph(
            nodes,
            "g",
            inputs,
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            sparse_initializer=[sparse(name, arrays[name], flat=name == "kept") for name in ("kept", "turned")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        if external:
            data = b""
            for tensor in (part for s in model.graph.sparse_initializer for part in (s.values, s.indices)):
                at, size = len(data), len(tensor.raw_data)
                data += tensor.raw_data
                tensor.ClearField("raw_data")
                tensor.data_location = TensorProto.EXTERNAL
                for key, value in {"location": "weights", "offset": at, "length": size}.items():
                    tensor.external_data.add(key=key, value=str(value))
            (tmp_path / "weights").write_bytes(data)
        onnx.save(model, tmp_path / "sparse.onnx")
        return tmp_path / "sparse.onnx"

    return write


def names_of_sparse(graph):
    """Of the graph, then of its bodies."""
    bodies = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    own = [message.values.name for message in graph.sparse_initializer]
    return [*own, *(name for body in bodies for name in names_of_sparse(body))]


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("written_as", [{}, {"external_data": True}, {"opset": "newest"}])
def test_sparse_weights_that_nothing_changes_are_written_sparse(tmp_path, with_sparse_weights, external, written_as):
    file, out, again = with_sparse_weights(external), tmp_path / "out.onnx", tmp_path / "again.onnx"
    wb.export(wb.optimize(file).graph, out, **written_as)
    written = onnx.load(out)
    assert sorted(names_of_sparse(written.graph)) == ["held", "inner", "kept"]
    assert [list(tensor.dims) for tensor in written.graph.initializer] == [[40, 40]]  # the one that was turned
    assert written.ir_version >= 6
    wb.export(wb.optimize(out).graph, again)
    assert sorted(names_of_sparse(onnx.load(again).graph)) == ["held", "inner", "kept"]
    x = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
    if not external:  # ONNX Runtime reads no sparse weights of other files
        for p in (True, False):
            expected, *others = (run_file(path, {"x": x, "p": np.array(p)})[0] for path in (file, out, again))
            for other in others:
                np.testing.assert_allclose(other, expected, rtol=1e-5, atol=1e-5)


def test_sparse_weights_of_a_part_stay_sparse_and_go_back(tmp_path, done, with_sparse_weights):
    file, part, whole = with_sparse_weights(), tmp_path / "part.onnx", tmp_path / "whole.onnx"
    done("extract", file, "--from", "x", "--to", "z", "-o", part)
    cut = onnx.load(part)
    assert sorted(names_of_sparse(cut.graph)) == ["kept", "turned"] and not cut.graph.initializer
    assert [node.attribute[0].name for node in cut.graph.node if node.op_type == "Constant"] == ["sparse_value"]
    done("extract", file, "--from", "x", "--to", "z", "--put-back", part, "-o", whole)
    put = onnx.load(whole)
    assert sorted(names_of_sparse(put.graph)) == ["inner", "kept", "turned"] and not put.graph.initializer
    x = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
    for p in (True, False):
        one, other = (run_file(path, {"x": x, "p": np.array(p)})[0] for path in (file, whole))
        np.testing.assert_array_equal(one, other)


def test_a_sparse_weight_of_another_name_and_order_is_written_under_its_new_one(tmp_path, with_sparse_weights):
    graph = wb.load(with_sparse_weights())
    graph.apply(Edit(constants={"new": graph.constants["kept"]}, replace={"kept": "new"}))
    wb.export(graph, tmp_path / "out.onnx")
    assert "new" in names_of_sparse(onnx.load(tmp_path / "out.onnx").graph)


@pytest.mark.parametrize(
    ("dims", "indices", "sentence"),
    [
        ([3, 3], [[0, 5]], "has indices that do not fit its shape [3, 3]"),
        ([3, 3], [9], "has indices that do not fit its shape [3, 3]"),
        ([100_000, 100_000], [[0, 1]], "has the shape [100000, 100000], which is not made dense here"),
    ],
)
def test_what_is_no_sparse_weight_is_a_sentence(tmp_path, dims, indices, sentence):
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    found = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(indices, np.int64), "i"), dims)
    x, y = (helper.make_tensor_value_info(v, TensorProto.FLOAT, None) for v in "xy")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], sparse_initializer=[found]
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert refusal(path) == f"m.onnx: sparse weight 'w' {sentence}"


@pytest.fixture
def annotated():
    """A model with all that people and tools write into a file."""
    model = onnx.parser.parse_model(
        """<ir_version: 11, opset_import: ["": 21], model_version: 7, domain: "my.domain", doc_string: "of the model">
        g (float[N,3] x) => (float[N,3] y) <float[3] w = {2, 2, 2}, float s = {0.5}> {
            [r] a = Relu(x) [i] b = Identity(a) [m] y = Mul(b, w) }"""
    )
    graph = model.graph
    graph.doc_string = "of the graph"
    graph.metadata_props.add(key="of", value="the graph")
    graph.node[0].doc_string = "of the node"
    graph.initializer[0].doc_string = "of the weight"
    graph.input[0].doc_string, graph.output[0].doc_string = "of the input", "of the output"
    graph.input[0].type.denotation = "IMAGE"
    graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    for tensor in ("a", "b"):
        note = graph.quantization_annotation.add(tensor_name=tensor)
        note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    model.configuration.add(name="two", num_devices=2)
    for node in graph.node:
        device = node.device_configurations.add(configuration_id="two", pipeline_stage=1)
        device.sharding_spec.add(tensor_name=node.output[0], device=[0, 1])
    return model


def test_what_people_wrote_survives(tmp_path, annotated, run):
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(annotated, path)
    assert run("optimize", path, "-o", out, "--preset", "simplify", "--no-verify")[0] == 0
    written = onnx.load(out)
    graph = written.graph
    assert [node.op_type for node in graph.node] == ["Relu", "Mul"]
    assert (written.model_version, written.domain, written.doc_string) == (7, "my.domain", "of the model")
    assert (graph.doc_string, graph.metadata_props[0].value) == ("of the graph", "the graph")
    assert graph.node[0].doc_string == "of the node"
    assert next(t for t in graph.initializer if t.name == "w").doc_string == "of the weight"
    assert (graph.input[0].doc_string, graph.output[0].doc_string) == ("of the input", "of the output")
    assert graph.input[0].type == annotated.graph.input[0].type
    assert [(a.tensor_name, a.quant_parameter_tensor_names[0].value) for a in graph.quantization_annotation] == [
        ("a", "s")
    ]
    assert "s" in {t.name for t in graph.initializer}
    assert written.configuration == annotated.configuration and written.ir_version == 11
    assert [d.pipeline_stage for node in graph.node for d in node.device_configurations] == [1, 1]
    assert [s.tensor_name for node in graph.node for d in node.device_configurations for s in d.sharding_spec] == [
        "a",
        "y",
    ]


def test_axes_keep_their_denotations_only_where_they_are_the_same(tmp_path):
    text = "g (float[N,3,4,5] x) => (float[N,4,5,3] y) { t = Transpose <perm = [0, 2, 3, 1]> (x) y = Relu(t) }"
    model = onnx.load(saved(tmp_path, text))
    for dim, name in zip(model.graph.input[0].type.tensor_type.shape.dim, "ABCD", strict=True):
        dim.denotation = name
    onnx.save(model, tmp_path / "m.onnx")
    graph = load_model(tmp_path / "m.onnx", {"N": 2})

    def denotations(graph):
        export_onnx(graph, tmp_path / "out.onnx")
        return "".join(d.denotation for d in onnx.load(tmp_path / "out.onnx").graph.input[0].type.tensor_type.shape.dim)

    assert denotations(graph) == denotations(wb.optimize(graph, [], fix_dims=True).graph) == "ABCD"
    assert denotations(wb.optimize(graph, ["relayout_inputs"]).graph) == ""


def test_a_large_weight_keeps_its_documentation(tmp_path):
    weight = numpy_helper.from_array(np.arange(1000, dtype=np.float32), "w")
    weight.doc_string = "of the weight"
    x, y = (helper.make_tensor_value_info(v, TensorProto.FLOAT, [1000]) for v in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    for beside in (False, True):
        export_onnx(load_model(tmp_path / "m.onnx"), tmp_path / "out.onnx", external_data=beside)
        assert onnx.load(tmp_path / "out.onnx").graph.initializer[0].doc_string == "of the weight"
    assert onnxruntime.InferenceSession(tmp_path / "out.onnx")
