"""Residual sums and the normalization after them as one operator, by ONNX Runtime and by torch."""

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

WEIGHTS = "<float[4] w = {0.5, 1, -1, 2}, float[4] v = {0, 1, 2, 3}>"
NORMS = {
    "LayerNormalization": "y = LayerNormalization<axis = -1>(s, w, v)",
    "LayerNormalization without a bias": "y = LayerNormalization<epsilon = 0.01>(s, w)",
    "RMSNormalization": "y = RMSNormalization<axis = -1>(s, w)",
}


def summed(norm: str, biased: bool, read: bool, shape: str = "N,3,4") -> Graph:
    total = "b = Add(bias, x)  s = Add(b, z)" if biased else "s = Add(z, x)"
    inputs = f"float[{shape}] x, float[{shape}] z{', float[4] bias' if biased else ''}"
    after = f", float[{shape}] r" if read else ""
    text = f"g ({inputs}) => (float[{shape}] y{after}) {WEIGHTS} {{ {total}  {NORMS[norm]}"
    return typed(f"{text}{'  r = Relu(s)' if read else ''} }}")


def fused(graph: Graph) -> Graph:
    graph = graph.copy()
    context = PassContext(load_profile("cuda"), mode="exact")
    run_pass(passes.find_pass("fuse_skip_layer_norm")(), graph, context, check_each=True)
    return graph


@pytest.mark.parametrize("read", [False, True], ids=["sum unread", "sum read"])
@pytest.mark.parametrize("biased", [False, True], ids=["sum", "bias and sum"])
@pytest.mark.parametrize("norm", NORMS)
def test_it_computes_the_same_in_both_executors(norm, biased, read):
    before = summed(norm, biased, read)
    inputs = {name: 2 * array for name, array in random_inputs(before).items()}
    after = fused(before)
    made = f"{'Bias' if biased else ''}Add{norm.split()[0]}{'WithSum' if read else ''}"
    assert [node.op_type for node in after.nodes] == [made, "Relu"][: 1 + read]
    expected, found, executor = outputs(before, inputs), outputs(after, inputs), TorchExecutor(after)
    kept = {name: array.copy() for name, array in inputs.items()}
    for name, array in executor.run(inputs).items():
        np.testing.assert_array_equal(found[name], expected[name])
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-5)
        assert after.type(name) == before.type(name)
    assert executor.fallbacks == {}
    assert all((inputs[name] == kept[name]).all() for name in inputs)


def test_the_sum_may_be_an_output_of_the_graph():
    before = typed(f"""g (float[2,4] x, float[2,4] z) => (float[2,4] y, float[2,4] s) {WEIGHTS} {{
        s = Add(x, z)  y = LayerNormalization<axis=-1>(s, w, v) }}""")
    after, inputs = fused(before), random_inputs(before)
    assert [node.outputs for node in after.nodes] == [("y", "s")]
    for name, array in outputs(after, inputs).items():
        np.testing.assert_array_equal(array, outputs(before, inputs)[name])


def test_a_biased_value_that_is_read_elsewhere_is_a_residual_of_its_own():
    before = typed(f"""g (float[2,4] x, float[4] bias, float[2,4] z) => (float[2,4] y, float[2,4] n) {WEIGHTS} {{
        b = Add(x, bias)  s = Add(b, z)  y = LayerNormalization<axis=-1>(s, w, v)  n = Neg(b) }}""")
    after, inputs = fused(before), random_inputs(before)
    assert [node.op_type for node in after.nodes] == ["Add", "AddLayerNormalization", "Neg"]
    for name, array in outputs(after, inputs).items():
        np.testing.assert_array_equal(array, outputs(before, inputs)[name])


def test_two_blocks_that_normalize_first_pass_the_sum_on():
    """Each sum is normalized and added to again."""
    before = typed(f"""g (float[2,4] x, float[2,4] z) => (float[2,4] y) {WEIGHTS} {{
        s = Add(x, z)  n = RMSNormalization<axis=-1>(s, w)  a = Tanh(n)
        t = Add(s, a)  m = RMSNormalization<axis=-1>(t, v)  y = Mul(m, t) }}""")
    after, inputs = fused(before), random_inputs(before)
    sums = "AddRMSNormalizationWithSum"
    assert [node.op_type for node in after.nodes] == [sums, "Tanh", sums, "Mul"]
    np.testing.assert_array_equal(outputs(after, inputs)["y"], outputs(before, inputs)["y"])


def test_the_exported_file_needs_standard_operators_only_and_is_read_back(tmp_path):
    graph = fused(summed("RMSNormalization", True, True, "2,3,4"))
    model = onnx.load_from_string(to_bytes(graph))
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for function in model.functions for node in function.node} == {""}
    wb.export(graph, tmp_path / "fused.onnx")
    back = wb.load(tmp_path / "fused.onnx")
    assert [node.op_type for node in back.nodes] == ["BiasAddRMSNormalizationWithSum", "Relu"]
    inputs = random_inputs(graph)
    np.testing.assert_array_equal(outputs(back, inputs)["y"], outputs(graph, inputs)["y"])
