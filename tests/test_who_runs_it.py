"""Who runs what is written, as docs/how-to/export-for-a-runtime.md says: functions as they are called, or their bodies inlined."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import workbench as wb
from tests.conftest import ROOT
from tests.loading import run as run_file
from tests.loading import saved
from tests.old_runtimes import OPENVINO, python_with, run_in
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx

WEIGHTS = np.random.default_rng(0).standard_normal
X = WEIGHTS((1, 4, 8, 8)).astype(np.float32)
# Calls of one operator that give different attributes and operands: each form of one name has one function.
CONVOLUTIONS = """g (float[1,4,8,8] x) => (float[1,8] y) {
    a = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)
    b = Conv <kernel_shape = [3, 3], dilations = [2, 2], pads = [2, 2, 2, 2]> (a, v, c)
    p = MaxPool <kernel_shape = [2, 2]> (b)
    q = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (p)
    r = Relu(q) d = Conv(r, u) s = Sigmoid(d)
    y = ReduceMax <axes = [2, 3], keepdims = 0> (s) }"""
HOW = {
    "layouts": {"layout": "greedy"},
    "blocked": {"layout": "blocked", "target": "blocked"},
    "groups": {"passes": ["fuse_groups"]},
    "fused": {"passes": ["fuse_conv"]},
    "plain": {"preset": "simplify"},
}


@pytest.fixture
def path(tmp_path):
    model = onnx.parser.parse_model(
        f'<ir_version: 7, opset_import: ["": 13]>\n{CONVOLUTIONS}'.replace(
            "(float[1,8] y) {", "(float[1,8] y) <float[8,4,3,3] w, float[8,8,3,3] v, float[8] c, float[8,8,1,1] u> {"
        )
    )
    del model.graph.input[1:]
    for name, shape in (("w", (8, 4, 3, 3)), ("v", (8, 8, 3, 3)), ("c", (8,)), ("u", (8, 8, 1, 1))):
        array = (WEIGHTS(shape) / 8).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def written(path, how, functions=None):
    out = path.with_name(f"{how}-{functions}.onnx")
    export_onnx(wb.optimize(load_model(path), **{"target": "cuda", **HOW[how]}).graph, out, functions=functions)
    return out


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("functions", ["keep", "inline"])
def test_onnx_itself_runs_it(path, how, functions):
    out = written(path, how, functions)
    assert bool(onnx.load(out).functions) == (functions == "keep" and how != "plain")
    wanted = run_file(path, {"x": X})[0]
    assert wanted.min() > 0.1 and wanted.max() < 0.99  # where Sigmoid tells numbers apart
    np.testing.assert_allclose(run_file(out, {"x": X})[0], wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ReferenceEvaluator(str(out)).run(None, {"x": X})[0], wanted, rtol=1e-4, atol=1e-5)


def test_functions_declare_what_each_call_gives(path):
    model = onnx.load(written(path, "layouts"))
    table = {function.name: function for function in model.functions}
    calls = [node for node in model.graph.node if node.domain == "workbench"]
    assert {"Conv_NHWC", "MaxPool_NHWC"} <= {node.op_type for node in calls}
    for node in calls:
        assert {a.name for a in node.attribute} == set(table[node.op_type].attribute)
        assert len(node.input) == len(table[node.op_type].input)
    assert not any(function.attribute_proto for function in model.functions)


@pytest.mark.slow
def test_openvino_runs_what_has_no_calls(path, tmp_path):
    python = python_with(OPENVINO)
    if python is None:
        pytest.skip(f"NOT TESTED: {OPENVINO} cannot be installed here")
    np.savez(tmp_path / "x.npz", x=X)
    files = [path, *(written(path, how, functions) for how in HOW for functions in ("keep", "inline"))]
    said = run_in(python, [(file, tmp_path / "x.npz", file.with_suffix(".npz")) for file in files], tmp_path)
    wanted = run_file(path, {"x": X})[0]
    for file, error in zip(files, said, strict=True):
        calls = bool(onnx.load(file).functions)
        assert bool(error) == calls, f"{file.name}: {error}"
        if not calls:
            np.testing.assert_allclose(np.load(file.with_suffix(".npz"))["0"], wanted, rtol=1e-3, atol=1e-4)


FUNCTION = """<ir_version: 9, opset_import: ["": 17, "f": 1]>
g (bool c, float[2,3] x) => (float[2,3] y) {
    z = f.scaled <by = 2.0> (x)
    y = If (c) <then_branch = t () => (a) { b = f.scaled <by = 3.0> (z) a = f.twice(b) }, else_branch = e () => (d) { d = f.scaled(z) }> }
<domain: "f", opset_import: ["": 17]>
scaled <by: float = 5.0> (v) => (w) { k = Constant <value_float: float = @by> ()  w = Mul(v, k) }
<domain: "f", opset_import: ["": 17, "f": 1]>
twice (v) => (w) { k = f.scaled <by = 7.0> (v)  w = Add(k, v) }"""


def test_functions_of_the_file_are_inlined_too(tmp_path, run):
    path, out = saved(tmp_path, FUNCTION, header=""), tmp_path / "out.onnx"
    code, said, _ = run("optimize", path, "-o", out, "--passes", "dead_nodes", "--functions", "inline")
    assert code == 0 and "the end: Equal" in said
    model = onnx.load(out)
    assert not model.functions and [o.domain for o in model.opset_import] == [""] and model.ir_version == 8
    x = np.ones((2, 3), np.float32)
    assert [run_file(out, {"x": x, "c": np.array(c)})[0][0, 0] for c in (True, False)] == [48, 10]


def test_a_file_whose_calls_have_no_bodies_gets_them(tmp_path, run):
    text = """g (float[1,8,8,3] x, float[4,3,3,3] w) => (float[1,6,6,4] y) {
        c = workbench.Conv_NHWC (x, w) y = workbench.Silu (c) }"""
    path = saved(tmp_path, text, header='<ir_version: 8, opset_import: ["": 17, "workbench": 1]>\n')
    code, said, notes = run("optimize", path, "-o", tmp_path / "out.onnx")
    assert code == 0 and "the end: Equal to the last bit" in said
    assert "calls workbench.Conv_NHWC and 1 more without a body, which no runtime runs; the bodies were added" in notes
    given = {"x": X.reshape(1, 8, 8, 4)[..., :3].copy(), "w": WEIGHTS((4, 3, 3, 3)).astype(np.float32)}
    assert run_file(tmp_path / "out.onnx", given)[0].shape == (1, 6, 6, 4)


def test_the_documents_say_who_runs_what():
    page = (ROOT / "docs/how-to/export-for-a-runtime.md").read_text(encoding="utf-8")
    assert "any runtime" not in page and "any runtime" not in (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"| {runtime} |" in page for runtime in ("ONNX Runtime", "onnx.reference", "OpenVINO", "onnx2torch"))
