"""A bias and Gelu as one operator, in both forms, by ONNX Runtime and by torch."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import passes
from tests.running import normal, outputs, typed
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.formats.io.exporting import to_bytes
from workbench.ir import Graph
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import NoMatch, PassContext, run_pass
from workbench.rewrite.core.exactness import EXACT

FUSED = "workbench.fused_bias_add_gelu"
ERF = """<float r = {1.41421356}, float one = {1}, float half = {0.5}> {
    sum = Add(a, bias)  b = Div(sum, r)  c = Erf(b)  d = Add(c, one)  e = Mul(sum, d)  y = Mul(e, half) }"""
# Megatron-LM, fused_bias_gelu.py: x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))
MEGATRON = """<float k = {0.044715}, float s = {0.79788456}, float one = {1}, float half = {0.5}> {
    sum = Add(bias, a)
    b = Mul(sum, half)  c = Mul(sum, s)  d = Mul(sum, k)  e = Mul(d, sum)  f = Add(e, one)  h = Mul(c, f)
    i = Tanh(h)  j = Add(i, one)  y = Mul(b, j) }"""
FORMS = {
    "Gelu": "{ sum = Add(a, bias)  y = Gelu(sum) }",
    "Gelu by tanh": '{ sum = Add(bias, a)  y = Gelu<approximate = "tanh">(sum) }',
    "Erf": ERF,
    "Megatron's": MEGATRON,
}


def biased(form: str, shape: str = "2,3,16") -> Graph:
    return typed(f"g (float[{shape}] a, float[16] bias) => (float[{shape}] y) {FORMS[form]}")


def fused(graph: Graph, mode: str = "ieee") -> Graph:
    graph = graph.copy()
    run_pass(passes.find_pass("fuse_bias_gelu")(), graph, PassContext(load_profile("cuda"), mode=mode), check_each=True)
    return graph


@pytest.mark.parametrize("form", FORMS)
def test_it_computes_the_same_in_both_executors(form):
    before, inputs = biased(form, "N,3,16"), {"a": 4 * normal(2, 3, 16), "bias": normal(16)}
    after = fused(before)
    assert [node.op for node in after.nodes] == [FUSED]
    expected, found = outputs(before, inputs)["y"], outputs(after, inputs)["y"]
    if form.startswith("Gelu"):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    executor = TorchExecutor(after)
    np.testing.assert_allclose(executor.run(inputs)["y"], expected, rtol=1e-5, atol=1e-6)
    assert executor.fallbacks == {}
    assert after.type("y") == before.type("y")


def test_the_forms_differ_and_are_kept_apart():
    """By up to 5e-4, which the tolerance of the other tests would show."""
    inputs = {"a": 4 * normal(2, 3, 16), "bias": normal(16)}
    erf, tanh = (outputs(fused(biased(form)), inputs)["y"] for form in ("Erf", "Megatron's"))
    assert 1e-5 < np.abs(erf - tanh).max() < 1e-3


def test_exact_mode_takes_the_operator_only():
    assert [node.op for node in fused(biased("Gelu"), EXACT).nodes] == [FUSED]
    assert FUSED not in [node.op for node in fused(biased("Erf"), EXACT).nodes]


def test_a_residual_sum_and_its_reader_stay():
    before = typed("""g (float[2,16] a, float[16] bias, float[2,16] residual) => (float[2,16] y) {
        sum = Add(a, bias)  act = Gelu(sum)  y = Add(act, residual) }""")
    after = fused(before)
    assert [node.op for node in after.nodes] == [FUSED, "Add"]
    inputs = {"a": normal(2, 16), "bias": normal(16), "residual": 2 * normal(2, 16)}
    np.testing.assert_array_equal(outputs(after, inputs)["y"], outputs(before, inputs)["y"])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_bias_along_any_axis(axis):
    shape = (3, 4, 5)
    ones = [shape[axis], *(1,) * (2 - axis)]
    values = ",".join(map(str, range(shape[axis])))
    before = typed(f"""g (float[3,4,5] a) => (float[3,4,5] y) <float{ones} bias = {{{values}}}> {{
        sum = Add(bias, a)  y = Gelu(sum) }}""")
    after, inputs = fused(before), {"a": normal(3, 4, 5)}
    assert after.producer("y").attributes["axis"] == axis
    np.testing.assert_array_equal(outputs(after, inputs)["y"], outputs(before, inputs)["y"])


def test_the_exported_file_needs_standard_operators_only():
    model = onnx.load_from_string(to_bytes(fused(biased("Megatron's"))))
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for function in model.functions for node in function.node} == {""}


def test_the_reason_of_the_order_that_fits_is_told():
    """The other order of the summands is no bias, which is not why it refuses."""
    graph = typed("""g (float[2,16] a, float[16] bias) => (float[2,16] y, float[2,16] z) {
        sum = Add(bias, a)  y = Gelu(sum)  z = Neg(sum) }""")
    (rule, *_) = passes.find_pass("fuse_bias_gelu").rules
    with pytest.raises(NoMatch, match="Neg 'Neg_z' reads 'sum' of Add 'Add_sum' too"):
        rule.match(graph, graph.producer("y"), None)
