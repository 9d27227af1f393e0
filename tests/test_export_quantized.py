"""`--export-for onnxruntime` on quantized models: its kernels of integers, beside what its own optimizer makes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import passes
import workbench as wb
from tests.conftest import ROOT
from tests.running import outputs, typed
from tests.test_ort_operators import BERT, BERT_WEIGHTS, CONVOLUTIONS, LEVELS, WEIGHTS, optimized, saved
from workbench.backends.onnxruntime.eight_bit_sums import WARNING, in_7_bits, saturates_here
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.ir import Graph
from workbench.planning.layout.strategies.layout_strategy import example_context
from workbench.rewrite import Exactness, run_pass
from workbench.run.compare import compare
from workbench.run.tolerances import tolerances_for

STEPS = [
    pytest.param(cls, rule, id=f"{name}-{rule.name}")
    for name, cls in passes.all_passes().items()
    for rule in cls.rules
    if rule.exactness is Exactness.STEP
]
OWN_BIASES = CONVOLUTIONS.replace("(r, w2, b1)", "(r, w2, b2)")
WEIGHTS_OF_THEM = {**WEIGHTS, "b2": (8,)}
DEPTHWISE = """
    <ir_version: 8, opset_import: ["": 17]>
    g (float[1,3,16,16] x) => (float[1,4] y) <float low = {0}, float high = {6}, int64[2] flat = {1, -1}> {
        a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w1, b1)
        s = HardSigmoid<alpha=0.1666667>(a)
        h = Mul(a, s)
        d = Conv<group=8, pads=[1,1,1,1]>(h, w2, b2)
        c = Clip(d, low, high)
        m = MaxPool<kernel_shape=[2,2], strides=[2,2]>(c)
        k = Concat<axis=1>(m, m)
        r = Reshape(k, flat)
        g = Gemm<transB=1>(r, w3, b3)
        y = Softmax<axis=-1>(g)
    }
"""
DEPTHWISE_WEIGHTS = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 1, 3, 3), "b2": (8,), "w3": (4, 256), "b3": (4,)}


class Calibration(CalibrationDataReader):
    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self._given = iter([{name: np.random.default_rng(i).normal(size=shape).astype("f")} for i in range(3)])

    def get_next(self):
        return next(self._given, None)


def quantized(folder, text, weights, shape, activations=QuantType.QUInt8, per_channel=True):
    """A file in QDQ form, by ONNX Runtime's quantizer; with weights of 7 bits where sums of products saturate."""
    plain, out = saved(folder / "plain.onnx", text.replace('["": 11]', '["": 13]'), weights), folder / "qdq.onnx"
    quantize_static(
        plain,
        out,
        Calibration("x", shape),
        quant_format=QuantFormat.QDQ,
        per_channel=per_channel,
        reduce_range=saturates_here(),
        activation_type=activations,
        weight_type=QuantType.QInt8,
    )
    return out


def dynamic(folder, per_channel):
    plain, out = saved(folder / "plain.onnx", BERT, BERT_WEIGHTS), folder / "dynamic.onnx"
    quantize_dynamic(plain, out, weight_type=QuantType.QInt8, per_channel=per_channel)
    return out


def exported(path, **words) -> Graph:
    graph = wb.load(path)
    made = wb.optimize(graph, preset="simplify", export_for="onnxruntime", **words).graph
    verdict = wb.verify(graph, made)
    assert verdict.sentence.startswith("Equal"), verdict.sentence
    return made


def operators(graph: Graph) -> Counter[str]:
    return Counter(node.op.removeprefix("com.microsoft.") for node in graph.nodes)


def of_its_own(path, folder) -> int:
    """Nodes after ONNX Runtime's own optimizer."""
    return len(onnx.load(optimized(path, LEVELS.ORT_ENABLE_EXTENDED, folder / "extended.onnx")).graph.node)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("per_channel", [False, True], ids=["one scale", "scales of channels"])
@pytest.mark.parametrize("activations", [QuantType.QUInt8, QuantType.QInt8], ids=str)
def test_convolutions_in_qdq_form_leave_no_more_nodes_than_its_own_optimizer(activations, per_channel, tmp_path):
    path = quantized(tmp_path, OWN_BIASES, WEIGHTS_OF_THEM, (1, 3, 16, 16), activations, per_channel)
    made = exported(path)
    assert len(made.nodes) <= of_its_own(path, tmp_path)
    found = operators(made)
    assert found["QLinearConv"] == 3
    assert {"QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearConcat"} <= set(found)
    assert not {"Conv", "Add", "Mul", "Concat", "GlobalAveragePool", "Relu"} & set(found)


def test_a_bias_in_units_of_another_convolution_is_left(tmp_path):
    """The quantizer gives a bias that two convolutions share the unit of one of them."""
    made = exported(quantized(tmp_path, CONVOLUTIONS, WEIGHTS, (1, 3, 16, 16)))
    assert operators(made)["QLinearConv"] == 2 and operators(made)["Conv"] == 1


def test_depthwise_convolutions_and_what_moves_elements_stay_quantized(tmp_path):
    path = quantized(tmp_path, DEPTHWISE, DEPTHWISE_WEIGHTS, (1, 3, 16, 16))
    made = exported(path)
    assert len(made.nodes) <= of_its_own(path, tmp_path)
    expected = {"QLinearConv": 2, "MaxPool": 1, "Reshape": 1, "QGemm": 1, "QLinearSoftmax": 1, "QLinearMul": 1}
    assert {name: operators(made)[name] for name in expected} == expected
    assert "Clip" not in operators(made)
    inputs = {"x": np.random.default_rng(5).normal(size=(1, 3, 16, 16)).astype("f")}
    (found,) = TorchExecutor(made).run(inputs).values()
    np.testing.assert_allclose(found, outputs(wb.load(path), inputs)["y"], atol=0.02)


def test_matrix_products_in_qdq_form(tmp_path):
    path = quantized(tmp_path, BERT, BERT_WEIGHTS, (1, 4, 8))
    made = exported(path)
    assert len(made.nodes) <= of_its_own(path, tmp_path)
    assert operators(made)["QLinearMatMul"] == 3
    assert not {"MatMul", "Add"} & set(operators(made))


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("per_channel", [False, True], ids=["one scale", "scales of columns"])
def test_products_of_dynamically_quantized_operands(per_channel, tmp_path):
    path = dynamic(tmp_path, per_channel)
    made = exported(path)
    assert len(made.nodes) <= of_its_own(path, tmp_path)
    assert operators(made)["DynamicQuantizeMatMul"] == 1
    assert not {"MatMulInteger", "DynamicQuantizeLinear", "Cast"} & set(operators(made))


def test_integers_that_several_products_read_are_quantized_once():
    graph = typed("""g (float[2,3] x, int8[3,4] a, int8[3,4] b, float s, float t) => (float[2,4] y, float[2,4] z) {
        q, c, o = DynamicQuantizeLinear(x)
        i = MatMulInteger(q, a, o)  f = Cast<to=1>(i)  u = Mul(c, s)  y = Mul(f, u)
        j = MatMulInteger(q, b, o)  g = Cast<to=1>(j)  v = Mul(c, t)  z = Mul(g, v)
    }""")
    made = wb.optimize(graph, preset="none", export_for="onnxruntime").graph
    assert operators(made) == {"DynamicQuantizeLinear": 1, "MatMulIntegerToFloat": 2}


def test_weights_stay_integers_for_any_list_of_passes(tmp_path):
    path = quantized(tmp_path, CONVOLUTIONS, WEIGHTS, (1, 3, 16, 16))
    for preset in ("normalize", "simplify"):
        graph = wb.optimize(wb.load(path), preset=preset).graph
        for conv in (node for node in graph.nodes if node.op == "Conv"):
            assert [graph.producer(value).op for value in conv.inputs] == ["DequantizeLinear"] * len(conv.inputs)


def test_the_exact_mode_moves_integers_and_writes_no_kernel_of_them(tmp_path):
    path = quantized(tmp_path, DEPTHWISE, DEPTHWISE_WEIGHTS, (1, 3, 16, 16))
    graph = wb.load(path)
    made = wb.optimize(graph, preset="simplify", export_for="onnxruntime", mode="exact").graph
    assert wb.verify(graph, made).bit_equal
    assert operators(made)["Conv"] == 2 and not [node for node in made.nodes if node.domain]
    assert operators(made)["QuantizeLinear"] < operators(graph)["QuantizeLinear"]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("opset", ["keep", None])
def test_gelu_where_the_opset_has_none(opset, tmp_path):
    made = exported(saved(tmp_path / "plain.onnx", BERT, BERT_WEIGHTS), opset=opset)
    assert operators(made)["BiasGelu"] == 1
    assert not {"Erf", "Gelu", "Mul", "Div"} & set(operators(made))


def test_a_gelu_whose_half_is_in_the_weights_behind_it(tmp_path):
    text = BERT.replace("b = Add(x, b1)", "b = Sigmoid(x)")
    made = exported(saved(tmp_path / "plain.onnx", text, BERT_WEIGHTS), opset="keep")
    assert operators(made)["Gelu"] == 1
    assert not {"Erf", "Mul", "Div"} & set(operators(made))


@pytest.mark.parametrize(("cls", "rule"), STEPS)
def test_integers_differ_by_a_step_at_most(cls, rule):
    before, after = typed(rule.example.before), typed(rule.example.before)
    run_pass(cls(), after, example_context(rule.example))
    random = np.random.default_rng(0)
    for _ in range(20):
        inputs = {}
        for name in before.inputs:
            type_ = before.tensor_type(name)
            limits, shape = np.iinfo(type_.dtype.numpy()), [d if isinstance(d, int) else 16 for d in type_.shape]
            inputs[name] = random.integers(limits.min, limits.max + 1, shape).astype(type_.dtype.numpy())
        if saturates_here():
            inputs = in_7_bits(inputs)
        expected, found = (outputs(graph, inputs)["y"].astype(int) for graph in (before, after))
        assert np.abs(expected - found).max() <= 1


def test_sums_that_saturate_on_this_cpu_are_named_where_they_make_a_difference(tmp_path):
    """Floats on one side and products of 8-bit integers on the other: equal where the CPU has VNNI."""
    text = """g (uint8[3,4] a) => (float[3,2] y) <float s = {1}, int8[4,2] w = {127, 127, 127, -3, 127, 5, 127, 127}> {
        d = DequantizeLinear(a, s)  e = DequantizeLinear(w, s)  y = MatMul(d, e)
    }"""
    graph = typed(text)
    made = wb.optimize(graph, preset="simplify", export_for="onnxruntime").graph
    assert operators(made) == {"MatMulIntegerToFloat": 1}
    full = {"a": np.full((3, 4), 255, np.uint8)}
    verdict = wb.verify(graph, made, inputs=full)
    assert verdict.ok is not saturates_here()
    assert (WARNING in verdict.sentence) is saturates_here()
    assert wb.verify(graph, made, inputs={"a": full["a"] // 2}).ok, "no sum of two products reaches 16 bits"


@pytest.mark.slow
def test_resnet_in_qdq_form_leaves_no_more_nodes_than_its_own_optimizer(tmp_path):
    resnet = onnx.load(ROOT / "sample_models" / "resnet50_narrow.onnx")
    onnx.save(version_converter.convert_version(resnet, 17), tmp_path / "plain.onnx")
    (given,) = (one for one in resnet.graph.input if one.name not in {w.name for w in resnet.graph.initializer})
    shape = tuple(dim.dim_value or 1 for dim in given.type.tensor_type.shape.dim)
    path = tmp_path / "qdq.onnx"
    words = {"quant_format": QuantFormat.QDQ, "per_channel": True, "weight_type": QuantType.QInt8}
    quantize_static(tmp_path / "plain.onnx", path, Calibration(given.name, shape), **words)
    made = exported(path)
    assert operators(made)["QLinearConv"] == 53
    assert len(made.nodes) <= of_its_own(path, tmp_path)


SMALL_STEPS = """g (float[4] x) => (float[4] y, uint8[4] q, float[4] w) <float s = {0.25}, uint8 z = {0}> {
    q = QuantizeLinear(x, s, z)
    y = DequantizeLinear(q, s, z)
    w = Exp(y)
}"""


def test_a_quantized_output_may_differ_by_a_step_however_small_it_is():
    allowed = tolerances_for(typed(SMALL_STEPS))
    assert [round(allowed[name].absolute, 3) for name in "yqw"] == [0.25, 1.0, 0.0]
    right = {"y": np.float32([0, 0.25, 0.5, 0]), "q": np.uint8([1, 0, 2, 0]), "w": np.float32([1, 2, 3, 4])}
    step = {**right, "y": np.float32([0.25, 0, 0.5, 0]), "q": np.uint8([0, 1, 2, 0])}
    found = compare(right, step, allowed)
    assert found.ok and "its values lie within 4 quantization steps, of which one may differ" in found.sentence
    assert not compare(right, {**right, "y": np.float32([0.5, 0.25, 0.5, 0])}, allowed).ok
    assert not compare(right, {**right, "q": np.uint8([3, 0, 2, 0])}, allowed).ok
    assert not compare(right, {**right, "w": np.float32([2, 2, 3, 4])}, allowed).ok
