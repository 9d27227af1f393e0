"""Convolution, residual sum and activation as one operator, by ONNX Runtime and by torch, in every layout."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import passes
import workbench as wb
from tests.running import normal, outputs, random_inputs, typed
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.formats.io.exporting import to_bytes
from workbench.ir import Graph
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import NoMatch, PassContext, run_pass

ACTIVATIONS = {
    "Relu": "y = Relu(s)",
    "Relu6": "y = Clip(s, zero, six)",
    "LeakyRelu": "y = LeakyRelu<alpha = 0.3>(s)",
    "Sigmoid": "y = Sigmoid(s)",
    "HardSigmoid": "y = HardSigmoid<alpha = 0.3, beta = 0.4>(s)",
    "HardSwish": "y = HardSwish(s)",
    "Silu": "gate = Sigmoid(s)  y = Mul(s, gate)",
}
FORMS = ("Conv", "workbench.Conv_NHWC", "workbench.Conv_NHWC_HWOI")
CONSTANTS = "<float zero = {0}, float six = {6}>"


def convolved(activation: str, adds: bool = False, form: str = "Conv") -> Graph:
    """An image of 2 x 6 x 7 x 8 by three filters in two groups, 3 x 3, with pads of different size."""
    x, z, w = ("2,6,7,8", "2,4,8,8", "4,3,3,3") if form == "Conv" else ("2,7,8,6", "2,8,8,4", "4,3,3,3")
    if form.endswith("HWOI"):
        w = "3,3,4,3"
    summed = "s = Add(z, c)" if adds else "s = Identity(c)"
    residual = f", float[{z}] z" if adds else ""
    text = f"""g (float[{x}] x, float[{w}] w, float[4] b{residual}) => (float[{z}] y) {CONSTANTS} {{
        c = {form}<group=2, pads=[2,1,1,1]>(x, w, b)  {summed}  {ACTIVATIONS[activation]} }}"""
    return typed(text.replace("s = Identity(c)", "").replace("(s", "(c") if not adds else text)


def fused(graph: Graph, mode: str = "exact") -> Graph:
    graph = graph.copy()
    run_pass(passes.find_pass("fuse_conv")(), graph, PassContext(load_profile("cuda"), mode=mode), check_each=True)
    return graph


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("adds", [False, True], ids=["alone", "sum"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_it_computes_the_same_in_both_executors(activation, adds, form):
    before = convolved(activation, adds, form)
    inputs = {name: 2 * array for name, array in random_inputs(before).items()}
    after = fused(before)
    suffix = form.removeprefix("workbench.").removeprefix("Conv")
    assert [node.op for node in after.nodes] == [f"workbench.Conv{'Add' if adds else ''}{activation}{suffix}"]
    expected, found = outputs(before, inputs)["y"], outputs(after, inputs)["y"]
    np.testing.assert_array_equal(found, expected)
    executor = TorchExecutor(after)
    kept = {name: array.copy() for name, array in inputs.items()}
    np.testing.assert_allclose(executor.run(inputs)["y"], expected, rtol=1e-5, atol=1e-5)
    assert executor.fallbacks == {}
    assert all((inputs[name] == kept[name]).all() for name in inputs)
    assert after.type("y") == before.type("y")


def test_a_bias_may_be_omitted_beside_a_residual():
    before = typed("""g (float[1,2,5,5] x, float[3,2,3,3] w, float[1,3,3,3] z) => (float[1,3,3,3] y) {
        c = Conv(x, w)  s = Add(c, z)  y = Relu(s) }""")
    after, inputs = fused(before), random_inputs(before)
    assert after.producer("y").inputs == ("x", "w", "", "z")
    np.testing.assert_array_equal(outputs(after, inputs)["y"], outputs(before, inputs)["y"])
    np.testing.assert_allclose(
        TorchExecutor(after).run(inputs)["y"], outputs(before, inputs)["y"], rtol=1e-5, atol=1e-6
    )


def test_of_two_convolutions_that_are_summed_one_takes_the_other_as_its_residual():
    """As at the start of a stage of ResNet. The convolution that stays is read by the other."""
    before = typed("""g (float[1,2,5,5] x, float[3,2,1,1] w, float[3,2,1,1] v) => (float[1,3,5,5] y) {
        c = Conv(x, w)  d = Conv(x, v)  s = Add(c, d)  y = Relu(s) }""")
    after, inputs = fused(before), random_inputs(before)
    assert sorted(node.op for node in after.nodes) == ["Conv", "workbench.ConvAddRelu"]
    np.testing.assert_array_equal(outputs(after, inputs)["y"], outputs(before, inputs)["y"])


@pytest.mark.parametrize("axes", [1, 3])
def test_images_of_one_and_three_axes(axes):
    size, kernel = ",".join("5" * axes), ",".join("2" * axes)
    before = typed(f"""g (float[1,2,{size}] x, float[3,2,{kernel}] w) => (float[N,3,{size.replace("5", "4")}] y) {{
        c = Conv(x, w)  y = Relu(c) }}""")
    after, inputs = fused(before), random_inputs(before)
    assert [node.op for node in after.nodes] == ["workbench.ConvRelu"]
    expected = outputs(before, inputs)["y"]
    np.testing.assert_array_equal(outputs(after, inputs)["y"], expected)
    np.testing.assert_allclose(TorchExecutor(after).run(inputs)["y"], expected, rtol=1e-5, atol=1e-6)


def test_other_bounds_than_0_and_6_stay_a_clip():
    graph = typed("""g (float[1,2,4,4] x, float[3,2,3,3] w) => (float[1,3,2,2] y) <float low = {0}, float high = {5}> {
        c = Conv(x, w)  y = Clip(c, low, high) }""")
    (rule,) = (rule for rule in passes.find_pass("fuse_conv").rules if rule.name == "Relu6")
    with pytest.raises(NoMatch, match="'high' of Clip 'Clip_y' is 5, not 6"):
        rule.match(graph, graph.producer("y"), None)


@pytest.mark.parametrize("target", ["cuda", "npu"])
def test_before_and_behind_a_layout(target, tmp_path):
    """Behind it the channels-last forms are fused; before it the fused operators have forms of their own."""
    path = tmp_path / "model.onnx"
    before = convolved("Relu", True)
    path.write_bytes(to_bytes(before))
    inputs = random_inputs(before)
    expected = outputs(before, inputs)["y"]
    model = wb.load(path)
    behind = wb.optimize(model, ["layout", "fuse_conv"], layout="greedy", target=target).graph
    assert any(node.op.startswith("workbench.ConvAddRelu_NHWC") for node in behind.nodes)
    first = wb.optimize(model, ["fuse_conv", "layout"], layout="greedy", target=target).graph
    assert any(node.op.startswith("workbench.ConvAddRelu") for node in first.nodes)
    for graph in (behind, first):
        np.testing.assert_allclose(outputs(graph, inputs)["y"], expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(TorchExecutor(graph).run(inputs)["y"], expected, rtol=1e-5, atol=1e-5)


def test_the_exported_file_needs_standard_operators_only_and_is_read_back(tmp_path):
    graph = fused(convolved("HardSigmoid", True, "workbench.Conv_NHWC"))
    model = onnx.load_from_string(to_bytes(graph))
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for function in model.functions for node in function.node} <= {"", "workbench"}
    wb.export(graph, tmp_path / "fused.onnx")
    back = wb.load(tmp_path / "fused.onnx")
    assert [node.op for node in back.nodes] == ["workbench.ConvAddHardSigmoid_NHWC"]
    inputs = random_inputs(graph)
    np.testing.assert_array_equal(outputs(back, inputs)["y"], outputs(graph, inputs)["y"])


def test_a_normalization_is_folded_first():
    text = """g (float[1,2,4,4] x) => (float[1,1,4,4] y) <float[1,2,1,1] w = {1, 2}, float[1] b = {3}> {
        c = Conv(x, w)  n = BatchNormalization(c, b, b, b, b)  y = Relu(n) }"""
    graph = typed(text)
    inputs = {"x": normal(1, 2, 4, 4)}
    after = wb.optimize(graph, ["fold_batchnorm", "fuse_conv"]).graph
    assert [node.op for node in after.nodes] == ["workbench.ConvRelu"]
    np.testing.assert_allclose(outputs(after, inputs)["y"], outputs(graph, inputs)["y"], rtol=1e-5, atol=1e-5)
