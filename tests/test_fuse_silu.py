"""x * sigmoid(x) as one operator, by ONNX Runtime and by torch."""

from __future__ import annotations

import numpy as np
import onnx

import passes
import workbench as wb
from tests.running import normal, outputs, typed
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.formats.io.exporting import to_bytes
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass

TEXT = "g (float[N,3,5] x) => (float[N,3,5] y) { a = Sigmoid(x)  y = Mul(x, a) }"


def fused(graph):
    graph = graph.copy()
    run_pass(passes.find_pass("fuse_silu")(), graph, PassContext(load_profile("cuda"), mode="exact"), check_each=True)
    return graph


def test_it_computes_the_same_in_both_executors():
    before, inputs = typed(TEXT), {"x": 20 * normal(2, 3, 5)}
    inputs["x"][0, 0, :4] = [np.inf, np.nan, -0.0, -200]
    after = fused(before)
    assert [node.op for node in after.nodes] == ["workbench.Silu"]
    expected = outputs(before, inputs)["y"]
    np.testing.assert_array_equal(outputs(after, inputs)["y"], expected)
    executor = TorchExecutor(after)
    np.testing.assert_allclose(executor.run(inputs)["y"], expected, rtol=1e-5, atol=1e-6)
    assert executor.fallbacks == {}
    assert after.type("y") == before.type("y")


def test_a_convolution_takes_it_first():
    graph = typed("""g (float[1,2,4,4] x, float[2,2,1,1] w) => (float[1,2,4,4] y) {
        c = Conv(x, w)  a = Sigmoid(c)  d = Mul(c, a)  e = Sigmoid(d)  y = Mul(d, e) }""")
    after = wb.optimize(graph, ["fuse_conv", "fuse_silu"]).graph
    assert [node.op for node in after.nodes] == ["workbench.ConvSilu", "workbench.Silu"]


def test_the_exported_file_needs_standard_operators_only_and_is_read_back(tmp_path):
    graph = fused(typed(TEXT))
    model = onnx.load_from_string(to_bytes(graph))
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for function in model.functions for node in function.node} == {""}
    wb.export(graph, tmp_path / "fused.onnx")
    assert [node.op for node in wb.load(tmp_path / "fused.onnx").nodes] == ["workbench.Silu"]
