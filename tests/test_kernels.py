"""Models are brought to the newest opset at which ONNX Runtime has kernels for them, and the kernels that they had."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.loading import run, saved
from workbench.io import load_model
from workbench.io.kernels import NEWEST_KERNEL, OTHER_KERNEL

pytestmark = pytest.mark.usefixtures("kept_worker")

CALLS = {
    "PRelu": "g ({t}[3] x, {t}[3] s) => ({t}[3] y) {{ y = PRelu(x, s) }}",
    "Relu": "g ({t}[3] x) => ({t}[3] y) {{ y = Relu(x) }}",
}
ELEMENTWISE = "g ({t}[3] x) => ({t}[3] y) {{ y = {op}(x) }}"
WORDS = {onnx.TensorProto.DOUBLE: "double", onnx.TensorProto.INT64: "int64", onnx.TensorProto.INT32: "int32"}


def opens(path) -> bool:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception:  # ONNX Runtime's classes have no common base
        return False
    return True


TYPED = [(op, t) for op, (_, types) in NEWEST_KERNEL.items() for t in sorted(types) if t in WORDS]


@pytest.mark.parametrize(("op", "kind"), TYPED, ids=[f"{op}-{WORDS[t]}" for op, t in TYPED])
def test_an_operator_without_a_newer_kernel_stays_where_it_runs(tmp_path, op, kind):
    opset = NEWEST_KERNEL[op][0]
    text = CALLS.get(op, ELEMENTWISE).format(t=WORDS[kind], op=op)
    newest = saved(tmp_path, text, header='<ir_version: 10, opset_import: ["": 23]>\n')
    assert not opens(newest), f"ONNX Runtime has a kernel for {op} now; take it out of NEWEST_KERNEL"
    path = saved(tmp_path, text, header=f'<ir_version: 10, opset_import: ["": {opset}]>\n')
    assert opens(path)
    graph = load_model(path)
    assert graph.opset_imports[""] == opset and graph.warnings == ()


@pytest.mark.parametrize("op", ["PRelu", "LeakyRelu", "HardSigmoid", "Softplus"])
def test_float64_is_optimized_verified_and_written_at_the_opset_that_is_said(done, tmp_path, op):
    text = CALLS.get(op, ELEMENTWISE).format(t="double", op=op)
    path, out = saved(tmp_path, text, header='<ir_version: 8, opset_import: ["": 18]>\n'), tmp_path / "out.onnx"
    said = done("optimize", path, "-o", out, "--preset", "simplify")
    assert "the end: Equal to the last bit" in said and ", opset 18; checked" in said
    assert onnx.load(out).opset_import[0].version == 18


def test_bernoulli_runs_after_its_export(done, tmp_path):
    text = "g (float[9] x) => (float[9] y) { p = Sigmoid(x)  y = Bernoulli <seed = 1.0> (p) }"
    path = saved(tmp_path, text, header='<ir_version: 8, opset_import: ["": 15]>\n')
    assert "the end: Equal" in done("optimize", path, "-o", tmp_path / "out.onnx")


def test_average_pools_keep_their_kernel(done, tmp_path):
    """At opset 19 ONNX Runtime sums in another order: 10 of 20 numbers differ by their last place."""
    text = """g (float[1,5,3,3] x) => (float[1,5,2,2] y) {
        y = AveragePool <kernel_shape = [3, 3], pads = [0, 0, 1, 1], auto_pad = "NOTSET"> (x) }"""
    path, out = saved(tmp_path, text, header='<ir_version: 8, opset_import: ["": 13]>\n'), tmp_path / "out.onnx"
    assert "Equal to the last bit" in done("optimize", path, "-o", out, "--mode", "exact")
    x = np.random.default_rng(0).standard_normal((1, 5, 3, 3)).astype(np.float32)
    newer = saved(tmp_path, text, name="newer.onnx", header='<ir_version: 10, opset_import: ["": 23]>\n')
    assert run(out, {"x": x})[0].tobytes() != run(newer, {"x": x})[0].tobytes()
    assert OTHER_KERNEL == {"AveragePool": 19}
    assert "opset 18 (brought to it from the file's 13, the newest at which" in done("inspect", path)


def test_a_form_that_rules_do_not_know_is_not_kept_for_the_sake_of_a_kernel(tmp_path):
    text = """g (float[1,2,4,4] x, float[1,4,4,2] at) => (y) {
        s = GridSample(x, at)  y = AveragePool <kernel_shape = [2, 2]> (s) }"""
    graph = load_model(saved(tmp_path, text, header='<ir_version: 8, opset_import: ["": 16]>\n'))
    assert graph.opset_imports[""] == 23
