"""Export: valid ONNX, put in place whole or not at all; the NPU's operators; round trips."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import workbench as wb
import workbench.formats.io.exporting as export_module
from tests.conftest import CORPUS
from workbench.analysis.inference.shapes import infer_types
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.formats.io import load_model
from workbench.formats.io.exporting import ExportError, export_onnx, to_bytes
from workbench.ir import Edit, Graph, Node, TensorType, constant, from_text, to_text
from workbench.ir.types import DataType
from workbench.ops.channels_last import FUSED_CONVOLUTIONS
from workbench.ops.npu import OWN_SIGNATURES, is_own, own_function
from workbench.run.inputs import seed_inputs


def session(model: str | Path | bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"]
    )


def checked(path: Path) -> onnxruntime.InferenceSession:
    onnx.checker.check_model(str(path), full_check=True)
    return session(path)


SMALL = """g (float[N,3,8,8] x) => (y) {
    c = Conv <pads = [1, 1, 1, 1]> (x, w)
    y = Relu(c) }"""


@pytest.fixture
def small() -> Graph:
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 23]>\n' + SMALL)
    values = np.random.default_rng(0).standard_normal((16, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(values, "w"))
    return typed(model)


def typed(model: onnx.ModelProto) -> Graph:
    from workbench.formats.io.onnx_file import load_proto

    return load_proto(model)


# ---- the file -----------------------------------------------------------------------------


def test_a_file_and_its_report(small, tmp_path):
    path = tmp_path / "out.onnx"
    report = export_onnx(small, path)
    run = checked(path)
    assert report.path == path and report.files == (path,) and report.checks == ("onnx.checker",)
    assert report.bytes == path.stat().st_size
    assert report.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [(i.name, i.type, i.shape) for i in run.get_inputs()] == [("x", "tensor(float)", ["N", 3, 8, 8])]
    assert [(o.name, o.shape) for o in run.get_outputs()] == [("y", ["N", 16, 8, 8])]
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_bytes_in_memory_and_on_disk(small, tmp_path):
    export_onnx(small, tmp_path / "out.onnx")
    assert to_bytes(small) == (tmp_path / "out.onnx").read_bytes()


def test_what_is_written_is_what_onnx_ir_writes(small):
    """Our own writer against the library's: what it reads of ours, it writes the same, weights and all."""
    import onnx_ir

    ours = onnx.ModelProto.FromString(to_bytes(small))
    assert onnx_ir.to_proto(onnx_ir.from_proto(ours)) == ours


def test_dims_stay_symbolic_unless_fixed(small, tmp_path):
    small.dims = {"N": 5}
    export_onnx(wb.optimize(small, [], fix_dims=True).graph, tmp_path / "out.onnx")
    run = checked(tmp_path / "out.onnx")
    assert run.get_inputs()[0].shape == [5, 3, 8, 8] and run.get_outputs()[0].shape == [5, 16, 8, 8]
    assert small.shape("x") == ("N", 3, 8, 8)


def test_external_data_when_asked(small, tmp_path):
    path = tmp_path / "out.onnx"
    report = export_onnx(small, path, external_data=True)
    assert report.files == (path, tmp_path / "out.onnx.data")
    assert report.bytes == sum(file.stat().st_size for file in report.files)
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    expected = session(to_bytes(small)).run(None, {"x": x})[0]
    np.testing.assert_array_equal(checked(path).run(None, {"x": x})[0], expected)
    again = load_model(path)
    np.testing.assert_array_equal(again.constant("w").numpy(), small.constant("w").numpy())


@pytest.mark.parametrize(("limit", "files"), [(1727, 2), (1728, 1)])
def test_external_data_where_the_file_would_be_too_large(small, tmp_path, monkeypatch, limit, files):
    monkeypatch.setattr(export_module, "LARGEST_FILE", limit)  # the weight has 16 * 3 * 3 * 3 * 4 = 1,728 bytes
    assert len(export_onnx(small, tmp_path / "out.onnx").files) == files
    checked(tmp_path / "out.onnx")


def test_a_model_can_be_written_over_its_own_file(small, tmp_path):
    path = tmp_path / "out.onnx"
    for external in (True, False, True):
        export_onnx(small, path, external_data=external)
        graph = load_model(path)
        export_onnx(graph, path, external_data=external)
        np.testing.assert_array_equal(graph.constant("w").numpy(), small.constant("w").numpy())
        np.testing.assert_array_equal(load_model(path).constant("w").numpy(), small.constant("w").numpy())


def test_only_used_constants_are_written(small):
    small.apply(Edit(constants={"unused": constant(np.zeros(1000, np.float32))}))
    assert [t.name for t in onnx.ModelProto.FromString(to_bytes(small)).graph.initializer] == ["w"]


def test_an_output_without_a_type_gets_one(small, tmp_path):
    small.apply(Edit(types={"y": None}))
    export_onnx(small, tmp_path / "out.onnx")
    assert checked(tmp_path / "out.onnx").get_outputs()[0].shape == ["N", 16, 8, 8]


def test_a_rank_that_nobody_knows_is_told(tmp_path):
    graph = from_text("g (float[N] x, int64[K] s) => (float[] y) { y = Reshape(x, s) }")
    report = export_onnx(graph, tmp_path / "out.onnx")
    assert "'y' is unknown" in report.checks[0]
    y = session(tmp_path / "out.onnx").run(None, {"x": np.zeros(6, np.float32), "s": np.array([2, 3])})[0]
    assert y.shape == (2, 3)


def test_a_graph_that_is_not_onnx_leaves_what_was_there(small, tmp_path):
    path = tmp_path / "out.onnx"
    export_onnx(small, path)
    before = path.read_bytes()
    wrong = Graph(
        inputs=("x",),
        outputs=("y",),
        nodes=[Node("Conv", ("x",), ("y",), name="conv")],
        types={v: TensorType(DataType.FLOAT, (2,)) for v in ("x", "y")},
        opset_imports={"": 23},
    )
    with pytest.raises(ExportError) as caught:
        export_onnx(wrong, path)
    assert "not valid ONNX, and nothing was written" in str(caught.value) and "\n" not in str(caught.value)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_be_written(small, tmp_path):
    with pytest.raises(ExportError, match="is a folder"):
        export_onnx(small, tmp_path)
    with pytest.raises(ExportError, match="cannot be written: No such file"):
        export_onnx(small, tmp_path / "none" / "out.onnx")


# ---- operators of our own ---------------------------------------------------------------------


def test_channels_last_operators_are_functions_with_bodies(small, tmp_path):
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    expected = session(to_bytes(small)).run(None, {"x": x})[0]
    conv = small.producer("c")
    to_last = Node("Transpose", ("x",), ("x_nhwc",), {"perm": (0, 2, 3, 1)}, name="to_nhwc")
    weight = constant(np.ascontiguousarray(small.constant("w").numpy().transpose(2, 3, 0, 1)))
    native = Node(
        "Conv_NHWC_HWOI", ("x_nhwc", "w_hwoi"), ("c_nhwc",), conv.attributes, name="native", domain="workbench"
    )
    back = Node("Transpose", ("c_nhwc",), ("c",), {"perm": (0, 3, 1, 2)}, name="to_nchw")
    small.apply(Edit(remove=(conv.name,), insert=(to_last, native, back), constants={"w_hwoi": weight}))
    assert infer_types(small, {"N": 2})["c_nhwc"].shape == (2, 8, 8, 16)
    export_onnx(small, tmp_path / "out.onnx")
    model = onnx.load(tmp_path / "out.onnx")
    assert [f.name for f in model.functions] == ["Conv_NHWC_HWOI"]
    assert {o.domain: o.version for o in model.opset_import} == {"": 23, "workbench": 1}
    np.testing.assert_allclose(checked(tmp_path / "out.onnx").run(None, {"x": x})[0], expected, rtol=1e-5, atol=1e-6)
    assert load_model(tmp_path / "out.onnx").warnings == ()


def test_an_operator_of_ours_that_has_no_body(small, tmp_path):
    relu = small.producer("y")
    small.apply(Edit(remove=(relu.name,), insert=(Node("Nothing", ("c",), ("y",), name="n", domain="workbench"),)))
    with pytest.raises(ExportError, match=r"workbench.Nothing 'n' has no body"):
        export_onnx(small, tmp_path / "out.onnx")


def test_functions_of_the_model_are_written_with_their_constants(tmp_path):
    text = """<ir_version: 10, opset_import: ["": 23, "f": 1]>
    g (float[2,3] x) => (float[2,3] y) { z = f.twice(x) y = Relu(z) }
    <domain: "f", opset_import: ["": 23]>
    twice (a) => (b) { two = Constant <value_float = 2.0> () b = Mul(a, two) }"""
    export_onnx(typed(onnx.parser.parse_model(text)), tmp_path / "out.onnx")
    y = checked(tmp_path / "out.onnx").run(None, {"x": np.ones((2, 3), np.float32)})[0]
    np.testing.assert_array_equal(y, np.full((2, 3), 2, np.float32))


# ---- the NPU's operators -----------------------------------------------------------------------

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 3, 6, 8)).astype(np.float32)
W = RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float32)
DY = RANDOM.standard_normal((2, 4, 3, 4)).astype(np.float32)
MASK = RANDOM.integers(0, 2, (2, 3, 12, 16)).astype(bool)
NPU = {
    "BPA": ((DY, W), {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)}),
    "BPW": ((X, DY), {"strides": (2, 2), "pads": (1, 1, 1, 1), "kernel_shape": (3, 3)}),
    "img2col": ((X,), {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 0), "dilations": (1, 2)}),
    "unpool": ((X,), {"factor": 2}),
    "maskunpool": ((X, MASK), {"factor": 2}),
    "mirror": ((X,), {}),
    "rotate": ((X,), {}),
    "tensornorm": ((X,), {"epsilon": 1e-3}),
    "bilinear": ((X,), {"size": (9, 5)}),
}


def defined(name: str) -> np.ndarray:
    """What the operator means, by numpy or by torch's gradients; never by our own functions."""
    import torch

    if name in ("BPA", "BPW"):
        x, w = torch.from_numpy(X).requires_grad_(), torch.from_numpy(W).requires_grad_()
        torch.nn.functional.conv2d(x, w, stride=2, padding=1).backward(torch.from_numpy(DY))
        return (x if name == "BPA" else w).grad.numpy()
    if name == "img2col":
        padded = np.pad(X, ((0, 0), (0, 0), (1, 1), (0, 0)))
        taps = [padded[:, :, i : i + 6 : 2, 2 * j : 2 * j + 6] for i in range(3) for j in range(2)]
        return np.stack(taps, 2).reshape(2, 18, -1)
    larger = X.repeat(2, 2).repeat(2, 3)
    if name in ("unpool", "maskunpool"):
        return larger if name == "unpool" else larger * MASK
    if name == "mirror":
        return X[..., ::-1]
    if name == "rotate":
        return np.rot90(X, 1, (2, 3))
    if name == "tensornorm":
        axes = {"axis": (1, 2, 3), "keepdims": True}
        return (X - X.mean(**axes)) / np.sqrt(X.var(**axes) + 1e-3)
    rows = np.clip((np.arange(9) + 0.5) * 6 / 9 - 0.5, 0, 5)
    columns = np.clip((np.arange(5) + 0.5) * 8 / 5 - 0.5, 0, 7)
    high = np.apply_along_axis(lambda v: np.interp(rows, np.arange(6), v), 2, X)
    return np.apply_along_axis(lambda v: np.interp(columns, np.arange(8), v), 3, high)


def test_every_operator_of_the_npu_is_tested():
    assert NPU.keys() == OWN_SIGNATURES.keys() - FUSED_CONVOLUTIONS.keys()


@pytest.mark.parametrize("last", [False, True], ids=["NCHW", "NHWC"])
@pytest.mark.parametrize("name", NPU)
def test_npu_operators(name, last, tmp_path):
    inputs, attributes = NPU[name]
    own = OWN_SIGNATURES[name]
    given = [
        np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if last and i in own.images else x for i, x in enumerate(inputs)
    ]
    names = [f"i{k}" for k in range(len(given))]
    node = Node(f"{name}_NHWC" if last else name, names, ("y",), attributes, name="n", domain="workbench")
    types = {n: TensorType(DataType.from_numpy(x.dtype), x.shape) for n, x in zip(names, given, strict=True)}
    graph = Graph(inputs=names, outputs=("y",), nodes=[node], types=types, opset_imports={"": 23})
    expected = defined(name)
    if last and own.gives_image:
        expected = expected.transpose(0, 2, 3, 1)
    export_onnx(graph, tmp_path / "npu.onnx")
    by_body = checked(tmp_path / "npu.onnx").run(None, dict(zip(names, given, strict=True)))[0]
    np.testing.assert_allclose(by_body, expected, rtol=1e-4, atol=1e-5)
    by_torch = TorchExecutor(graph).run(dict(zip(names, given, strict=True)))["y"]
    np.testing.assert_allclose(by_torch, expected, rtol=1e-4, atol=1e-5)
    assert infer_types(graph)["y"].shape == expected.shape


def test_names_that_are_ours():
    for name in ("Conv_NHWC", "Conv_NWC", "Conv_NHWC_HWOI", "MaxPool_NDHWC", "BPA", "BPA_NHWC"):
        assert is_own(name)
        assert own_function(name, 23).name == name
    for name in ("Conv", "Foo_NHWC", "Conv_NHWC_XYZ", "Conv_CHW"):
        assert not is_own(name)
        with pytest.raises(KeyError):
            own_function(name, 23)


@pytest.mark.parametrize("beside", [False, True])
def test_the_numbers_of_a_function_s_default_are_written(beside, tmp_path):
    value = numpy_helper.from_array(np.arange(1000, dtype=np.float32), "v")
    inner = [helper.make_node("Constant", [], ["k"], name="k"), helper.make_node("Add", ["a", "k"], ["b"], name="add")]
    inner[0].attribute.add(name="value", ref_attr_name="table", type=onnx.AttributeProto.TENSOR)
    default = helper.make_attribute("table", value)
    function = helper.make_function("own", "F", ["a"], ["b"], inner, [helper.make_opsetid("", 23)], [], [default])
    x, y = (helper.make_tensor_value_info(v, TensorProto.FLOAT, ["N"]) for v in "xy")
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("own", 1)]
    graph = helper.make_graph([helper.make_node("F", ["x"], ["y"], domain="own")], "g", [x], [y])
    onnx.save(helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=10), tmp_path / "m.onnx")
    export_onnx(load_model(tmp_path / "m.onnx"), tmp_path / "out.onnx", external_data=beside)
    found = checked(tmp_path / "out.onnx").run(None, {"x": np.ones(1, np.float32)})[0]
    np.testing.assert_array_equal(found, np.arange(1, 1001, dtype=np.float32))
    again = load_model(tmp_path / "out.onnx").functions["own", "F", ""].attributes["table"]
    np.testing.assert_array_equal(again.numpy(), np.arange(1000))


def test_maps_are_kept(tmp_path):
    """What the converter for scikit-learn writes behind its classifiers."""
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    inner = onnx.TypeProto()
    inner.map_type.key_type = TensorProto.INT64
    inner.map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT
    y = helper.make_value_info("y", helper.make_sequence_type_proto(inner))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=imports, ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    export_onnx(load_model(tmp_path / "m.onnx"), tmp_path / "out.onnx")
    found = checked(tmp_path / "out.onnx").run(None, {"x": np.array([[0.25, 0.75]], np.float32)})
    assert onnx.load(tmp_path / "out.onnx").graph.output[0].type == y.type
    assert found == [[{0: 0.25, 1: 0.75}]]


def test_strings_in_constant_nodes(tmp_path):
    text = """<ir_version: 10, opset_import: ["": 23]> g (string[2] x) => (string[2] y) {
        a = Constant<value_strings=["a", "b"]>()  c = Constant<value_string="-">()
        t = StringConcat(x, a)  y = StringConcat(t, c) }"""
    (tmp_path / "m.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    graph = load_model(tmp_path / "m.onnx")
    export_onnx(graph, tmp_path / "out.onnx")
    found = checked(tmp_path / "out.onnx").run(None, {"x": np.array(["x", "y"], object)})[0]
    assert found.tolist() == ["xa-", "yb-"]
    assert from_text(to_text(graph)).constants["a"].numpy().tolist() == graph.constants["a"].numpy().tolist()


# ---- round trips -----------------------------------------------------------------------------------

# Sizes that the models themselves demand.
NEEDS = {"ppocrv4_rec": {"x_2": 48, "p2o.DynamicDimension.1": 320}, "silero_vad": {"input_1": 512}}


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.onnx")) or [CORPUS / "absent"], ids=lambda p: p.stem)
def test_the_corpus_comes_back_the_same(path, tmp_path):
    if not path.exists():
        pytest.skip(f"NOT TESTED: no models in {CORPUS}")
    graph = load_model(path, NEEDS.get(path.stem))
    export_onnx(graph, tmp_path / "out.onnx")
    before, after = session(path), checked(tmp_path / "out.onnx")
    given = seed_inputs(graph)
    for a, b in zip(before.run(None, given), after.run(None, given), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)
    assert [i.name for i in before.get_inputs()] == [i.name for i in after.get_inputs()]
    assert [o.name for o in before.get_outputs()] == [o.name for o in after.get_outputs()]
    assert [o.type for o in before.get_outputs()] == [o.type for o in after.get_outputs()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet"]
)
def test_the_light_models_come_back_the_same(name, tmp_path):
    from sample_models.light import random_light

    path = tmp_path / "in.onnx"
    path.write_bytes(random_light(name).SerializeToString())
    graph = load_model(path)
    export_onnx(graph, tmp_path / "out.onnx")
    (value,) = graph.inputs
    x = np.random.default_rng(0).standard_normal(graph.shape(value)).astype(np.float32)
    (a,), (b,) = session(path).run(None, {value: x}), checked(tmp_path / "out.onnx").run(None, {value: x})
    assert len(np.unique(a)) > 750
    np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)
