"""A product, its bias and its activation as one operator, by ONNX Runtime and by torch."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import passes
import workbench as wb
from tests.running import outputs, random_inputs, typed
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.formats.io.exporting import to_bytes
from workbench.ir import Graph
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass

ACTIVATIONS = {
    "Relu": "y = Relu(s)",
    "Gelu": "y = Gelu(s)",
    "Gelu by tanh": 'y = Gelu<approximate = "tanh">(s)',
    "Tanh": "y = Tanh(s)",
    "Sigmoid": "y = Sigmoid(s)",
    "Silu": "gate = Sigmoid(s)  y = Mul(gate, s)",
}
PRODUCTS = {
    "a vector": "(float[4] x, float[4,5] w, float[5] b) => (float[5] y) { p = MatMul(x, w)  s = Add(p, b)",
    "rows": "(float[3,4] x, float[4,5] w, float[5] b) => (float[3,5] y) { p = MatMul(x, w)  s = Add(p, b)",
    "batches": "(float[N,2,3,4] x, float[4,5] w, float[5] b) => (float[N,2,3,5] y) { p = MatMul(x, w)  s = Add(b, p)",
    "one column": "(float[2,3,4] x, float[4,1] w, float[1] b) => (float[2,3,1] y) { p = MatMul(x, w)  s = Add(p, b)",
    "Gemm": "(float[3,4] x, float[5,4] w, float[5] b) => (float[3,5] y) { s = Gemm<transB = 1>(x, w, b)",
    "Gemm without a bias": "(float[4,3] x, float[4,5] w) => (float[3,5] y) { s = Gemm<transA = 1, alpha = 0.5>(x, w)",
    "Gemm with a bias of rows": """(float[3,4] x, float[4,5] w, float[3,1] b) => (float[3,5] y) {
        s = Gemm<beta = 2.0>(x, w, b)""",
}


def product(form: str, activation: str) -> Graph:
    return typed(f"g {PRODUCTS[form]}  {ACTIVATIONS[activation]} }}")


def fused(graph: Graph) -> Graph:
    graph = graph.copy()
    run_pass(passes.find_pass("fuse_linear")(), graph, PassContext(load_profile("cuda"), mode="exact"), check_each=True)
    return graph


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("form", PRODUCTS)
def test_it_computes_the_same_in_both_executors(form, activation):
    before = product(form, activation)
    inputs = {name: 2 * array for name, array in random_inputs(before).items()}
    after = fused(before)
    made = "Gemm" if form.startswith("Gemm") else "MatMulAdd"
    assert [node.op for node in after.nodes] == [f"workbench.{made}{activation.split()[0]}"]
    expected = outputs(before, inputs)["y"]
    np.testing.assert_array_equal(outputs(after, inputs)["y"], expected)
    executor = TorchExecutor(after)
    kept = {name: array.copy() for name, array in inputs.items()}
    np.testing.assert_allclose(executor.run(inputs)["y"], expected, rtol=1e-5, atol=1e-5)
    assert executor.fallbacks == {}
    assert all((inputs[name] == kept[name]).all() for name in inputs)
    assert after.type("y") == before.type("y")


def test_gelu_that_is_written_out_is_recomposed_first():
    graph = typed("""g (float[3,4] x, float[4,5] w, float[5] b) => (float[3,5] y)
        <float r = {1.41421356}, float one = {1}, float half = {0.5}> {
        p = MatMul(x, w)  s = Add(p, b)  d = Div(s, r)  e = Erf(d)  f = Add(e, one)  h = Mul(s, f)  y = Mul(h, half) }""")
    after, inputs = wb.optimize(graph, ["recompose_gelu", "fuse_linear"]).graph, random_inputs(graph)
    assert [node.op for node in after.nodes] == ["workbench.MatMulAddGelu"]
    np.testing.assert_allclose(outputs(after, inputs)["y"], outputs(graph, inputs)["y"], rtol=1e-5, atol=1e-6)


def test_a_perceptron_becomes_one_operator_for_each_of_its_layers():
    before = typed("""g (float[2,3,4] x, float[4,6] w, float[6] b, float[6,4] v, float[4] c) => (float[2,3,4] y) {
        p = MatMul(x, w)  s = Add(p, b)  h = Gelu(s)  q = MatMul(h, v)  t = Add(q, c)  y = Tanh(t) }""")
    after, inputs = fused(before), random_inputs(before)
    assert [node.op_type for node in after.nodes] == ["MatMulAddGelu", "MatMulAddTanh"]
    np.testing.assert_array_equal(outputs(after, inputs)["y"], outputs(before, inputs)["y"])


def test_the_exported_file_needs_standard_operators_only_and_is_read_back(tmp_path):
    graph = fused(product("Gemm", "Silu"))
    model = onnx.load_from_string(to_bytes(graph))
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for function in model.functions for node in function.node} == {""}
    wb.export(graph, tmp_path / "fused.onnx")
    back = wb.load(tmp_path / "fused.onnx")
    assert [node.op for node in back.nodes] == ["workbench.GemmSilu"]
    inputs = random_inputs(graph)
    np.testing.assert_array_equal(outputs(back, inputs)["y"], outputs(graph, inputs)["y"])
