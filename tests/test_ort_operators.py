"""ONNX Runtime's own operators: files that its optimizer and its quantizer wrote, and each operator alone."""

from __future__ import annotations

import zlib
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import workbench as wb
from tests.carrying import Draw, graph_of
from tests.ort_operators import FALLING_BACK, NATIVE
from tests.running import outputs, random_inputs
from workbench.analysis.inference.shapes import infer_types
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.ops import contracts

LEVELS = onnxruntime.GraphOptimizationLevel
OWN = "com.microsoft."

CONVOLUTIONS = """
    <ir_version: 8, opset_import: ["": 11]>
    g (float[N,3,16,16] x) => (float[N,8,1,1] y) {
        a = Conv<pads=[1,1,1,1]>(x, w1, b1)
        r = Relu(a)
        c = Conv<pads=[1,1,1,1]>(r, w2, b1)
        d = Add(c, r)
        e = Relu(d)
        s = Sigmoid(e)
        m = Mul(s, e)
        l = LeakyRelu<alpha=0.1>(m)
        k = Concat<axis=1>(l, r)
        p = AveragePool<kernel_shape=[2,2],strides=[2,2]>(k)
        q = GlobalAveragePool(p)
        y = Conv(q, w3)
    }
"""
WEIGHTS = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 8, 3, 3), "w3": (8, 16, 1, 1)}
BERT = """
    <ir_version: 8, opset_import: ["": 17]>
    g (float[1,4,8] x) => (float[1,4,8] y) <float r = {1.41421356}, float one = {1}, float half = {0.5}> {
        b = Add(x, b1)
        c = Div(b, r)
        d = Erf(c)
        e = Add(d, one)
        f = Mul(b, e)
        h = Mul(f, half)
        i = MatMul(h, w2)
        j = Add(i, b2)
        k = Add(j, x)
        n = LayerNormalization<axis=-1>(k, g1, b2)
        t = Transpose<perm=[0,2,1]>(n)
        u = MatMul(n, t)
        y = MatMul(u, n)
    }
"""
BERT_WEIGHTS = {"b1": (8,), "w2": (8, 8), "b2": (8,), "g1": (8,)}


def saved(path, text, weights):
    model = parser.parse_model(text)
    random = np.random.default_rng(0)
    for name, shape in weights.items():
        array = (0.3 * random.standard_normal(shape)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.save(model, path)
    return path


def optimized(path, level, out):
    """The file that ONNX Runtime's optimizer writes."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 4
    options.optimized_model_filepath = str(out)
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return out


class Calibration(CalibrationDataReader):
    def __init__(self) -> None:
        self._left = 4

    def get_next(self):
        self._left -= 1
        return {"x": np.random.default_rng(self._left).normal(size=(1, 3, 16, 16)).astype("f")} if self._left else None


def by_optimizer(folder):
    plain = saved(folder / "plain.onnx", CONVOLUTIONS, WEIGHTS)
    return optimized(plain, LEVELS.ORT_ENABLE_EXTENDED, folder / "extended.onnx")


def bert_by_optimizer(folder):
    plain = saved(folder / "plain.onnx", BERT, BERT_WEIGHTS)
    return optimized(plain, LEVELS.ORT_ENABLE_EXTENDED, folder / "extended.onnx")


def by_static_quantizer(folder):
    plain, out = saved(folder / "plain.onnx", CONVOLUTIONS, WEIGHTS), folder / "quantized.onnx"
    quantize_static(plain, out, Calibration(), quant_format=QuantFormat.QOperator)
    return out


def by_quantizer_and_optimizer(folder):
    plain, out = saved(folder / "plain.onnx", CONVOLUTIONS, WEIGHTS), folder / "quantized.onnx"
    quantize_static(plain, out, Calibration(), quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8)
    return optimized(out, LEVELS.ORT_ENABLE_EXTENDED, folder / "extended.onnx")


def by_dynamic_quantizer(folder):
    plain, out = saved(folder / "plain.onnx", BERT, BERT_WEIGHTS), folder / "quantized.onnx"
    quantize_dynamic(plain, out)
    return optimized(out, LEVELS.ORT_ENABLE_EXTENDED, folder / "extended.onnx")


FILES = {
    by_optimizer: {"FusedConv"},
    bert_by_optimizer: {"BiasGelu", "SkipLayerNormalization", "FusedMatMul"},
    by_static_quantizer: {"QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearConcat"},
    by_quantizer_and_optimizer: {"QLinearAdd", "QLinearMul"},
    by_dynamic_quantizer: {"DynamicQuantizeMatMul"},
}


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("made", FILES)
def test_a_file_by_onnx_runtime_opens_runs_and_is_optimized(made, tmp_path):
    path = made(tmp_path)
    graph = wb.load(path)
    assert FILES[made] <= {node.op.removeprefix(OWN) for node in graph.nodes}
    assert graph.warnings == () and graph.opset_imports[""] >= 18
    assert all(graph.shape(value) is not None for node in graph.nodes for value in node.outputs if value)
    feeds = random_inputs(graph, 1)
    session = onnxruntime.InferenceSession(path, _plain(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {name: array[:1] for name, array in feeds.items()})
    for preset in ("normalize", "simplify"):
        history = wb.optimize(graph, preset=preset)
        verdict = wb.verify(graph, history.graph)
        assert verdict.sentence.startswith("Equal"), verdict.sentence
        executor = TorchExecutor(history.graph)
        (found,) = executor.run({name: array[:1] for name, array in feeds.items()}).values()
        assert executor.fallbacks == {}
        quantized = "quantiz" in made.__name__
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=0.05 if quantized else 1e-5)
        report = wb.export(history.graph, tmp_path / "out.onnx")
        assert report.checks == ("onnx.checker",)
        again = onnx.load(tmp_path / "out.onnx")
        assert {o.domain: o.version for o in again.opset_import}["com.microsoft"] == 1
        kept = Counter(node.op_type for node in again.graph.node if node.domain == "com.microsoft")
        assert FILES[made] <= kept.keys()


def _plain():
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS.ORT_DISABLE_ALL
    return options


def test_the_passes_act_around_an_operator_of_onnx_runtime(tmp_path):
    text = """
        <ir_version: 8, opset_import: ["": 12, "com.microsoft": 1]>
        g (float[2,4,8] x) => (float[2,8,4] y) {
            a = Transpose<perm=[0,2,1]>(x)
            b = com.microsoft.QuickGelu<alpha=1.702>(a)
            c = Transpose<perm=[0,2,1]>(b)
            d = Dropout(c)
            y = Transpose<perm=[0,2,1]>(d)
        }
    """
    graph = wb.load(saved(tmp_path / "m.onnx", text, {}))
    history = wb.optimize(graph, preset="simplify")
    assert sorted(node.op for node in history.graph.nodes) == ["Transpose", "com.microsoft.QuickGelu"]
    assert wb.verify(graph, history.graph).sentence.startswith("Equal")


def test_groups_may_hold_an_operator_of_onnx_runtime(tmp_path):
    graph = wb.load(by_optimizer(tmp_path))
    history = wb.optimize(graph, passes=["fuse_groups"])
    inside = {node.op for function in history.graph.functions.values() for node in function.graph.nodes}
    assert "com.microsoft.QuickGelu" in inside
    assert wb.verify(graph, history.graph).sentence.startswith("Equal")


def test_types_with_symbolic_dims_go_through(tmp_path):
    text = """
        <ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        g (float[N,L,8] x, float[N,L,8] s) => (float[N,L,M] y) {
            a = com.microsoft.SkipLayerNormalization(x, s, g1)
            b = com.microsoft.FusedMatMul<transB=1>(a, x)
            y = com.microsoft.FastGelu(b)
        }
    """
    graph = wb.load(saved(tmp_path / "m.onnx", text, {"g1": (8,)}))
    types = infer_types(graph, {})
    assert types["a"].shape == ("N", "L", 8) and types["b"].shape == ("N", "L", "L") == types["y"].shape


def test_an_operator_in_a_body_is_typed(tmp_path):
    text = """
        <ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        g (float[2,3] x, bool c) => (float[2,3] y) {
            y = If(c) <
                then_branch = t () => (u) { u = com.microsoft.Gelu(x) },
                else_branch = e () => (v) { v = com.microsoft.QuickGelu(x) }
            >
        }
    """
    graph = wb.load(saved(tmp_path / "m.onnx", text, {}))
    (node,) = graph.nodes
    assert [body.shape(body.outputs[0]) for body in node.bodies.values()] == [(2, 3), (2, 3)]


def test_the_layout_of_one_processor_is_left_alone_with_a_sentence(tmp_path):
    text = """
        <ir_version: 8, opset_import: ["": 17, "com.microsoft.nchwc": 1]>
        g (float[1,8,4,4] x) => (float[1,8,4,4] y) {
            a = com.microsoft.nchwc.ReorderInput(x)
            y = com.microsoft.nchwc.ReorderOutput<channels=8>(a)
        }
    """
    (warning,) = wb.load(saved(tmp_path / "m.onnx", text, {})).warnings
    assert warning == (
        "operator 'com.microsoft.nchwc.ReorderInput' of a ReorderInput that computes ['a'] is in ONNX Runtime's layout "
        "for the processor that saved the file; it is left unchanged, and its results have no types; save the model at "
        "the extended level, which has no such operators"
    )


def test_an_operator_without_a_contract_is_left_as_it_is(tmp_path):
    text = """
        <ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        g (float[2,2] x) => (float[2,2] y) { y = com.microsoft.Inverse(x) }
    """
    graph = wb.load(saved(tmp_path / "m.onnx", text, {}))
    assert graph.warnings[0].endswith("belongs to ONNX Runtime; it is left unchanged")
    executor = TorchExecutor(graph)
    executor.run({"x": np.eye(2, dtype=np.float32)})
    assert executor.fallbacks == {"com.microsoft.Inverse": "the operator table does not know it"}


# ---- each operator alone --------------------------------------------------------------------

DRAWS = 12


@pytest.mark.parametrize("op", [*NATIVE, *FALLING_BACK])
def test_an_operator_is_typed_and_runs_as_in_onnx_runtime(op):
    for number in range(DRAWS if op in NATIVE else 2):
        case = {**NATIVE, **FALLING_BACK}[op](Draw(zlib.crc32(f"{op} {number}".encode())))
        graph, feeds = graph_of(op, case)
        expected = outputs(graph, feeds)
        executor = TorchExecutor(graph)
        found = executor.run(feeds)
        assert set(executor.fallbacks) == (set() if op in NATIVE else {op})
        for name, array in expected.items():
            type_ = graph.tensor_type(name)
            typed = type_ is not None and type_.shape is not None
            assert typed or (op.endswith("GroupQueryAttention") and name != "y0"), name
            if typed:
                assert (type_.dtype.numpy(), type_.static_shape) == (array.dtype, array.shape), f"{op} {name}"
            assert found[name].dtype == array.dtype
            if array.dtype.kind == "f":
                np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=f"{op} {number}")
            else:  # halves may be rounded to either side
                assert np.abs(found[name].astype(int) - array.astype(int)).max(initial=0) <= 1, f"{op} {number}"


def test_every_contract_of_onnx_runtimes_is_tried():
    ours = {op for op in contracts() if op.startswith(OWN)}
    assert ours == {*NATIVE, *FALLING_BACK}
