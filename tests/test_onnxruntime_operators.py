"""Files that ONNX Runtime's optimizer and quantizer wrote: they open, are typed, optimized around, and run."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import workbench as wb
from tests.conftest import CORPUS
from tests.running import outputs
from workbench.inference.stand_ins import ONNXRUNTIME as DOMAIN
from workbench.io import load_model
from workbench.io.exporting import export_onnx
from workbench.io.samples import FOLDER
from workbench.ir import TensorType
from workbench.run.torch.executor import TorchExecutor
from workbench.verification import Verifier

SAMPLES = ["conv_relu_conv_relu", "resnet50_narrow", "ppocr_cls_v2", "basic_pitch_nmp"]
FROM_CORPUS = ["bert_12l_raw", "ddddocr_det_yolox", "ppocrv4_rec", "ppocrv4_det"]
FILES = [
    *(FOLDER / f"{stem}.onnx" for stem in SAMPLES),
    *(pytest.param(CORPUS / f"{stem}.onnx", marks=pytest.mark.slow) for stem in FROM_CORPUS),
]


def optimized_by_onnxruntime(path, folder):
    """What its extended level writes."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(str(path), options)
    return folder / "optimized.onnx"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_that_the_optimizer_wrote(path, tmp_path):
    if not path.exists():
        pytest.skip(f"NOT TESTED: {path} is not there")
    graph = load_model(optimized_by_onnxruntime(path, tmp_path))
    own = [node for node in graph.nodes if node.domain == DOMAIN]
    assert own, "it fused nothing"
    assert all("is ONNX Runtime's own" in warning for warning in graph.warnings if DOMAIN in warning)
    original = load_model(path)
    known = {v for v in original.values() if isinstance(original.type(v), TensorType)}
    for node in own:
        type_ = graph.type(node.outputs[0])
        assert isinstance(type_, TensorType) and type_.shape is not None, node
        if node.outputs[0] in known:
            assert type_.dtype == original.tensor_type(node.outputs[0]).dtype
            assert len(type_.shape) == len(original.tensor_type(node.outputs[0]).shape)
    with Verifier(graph) as verifier:
        history = wb.optimize(graph, verifier=verifier, verify="end")
        assert history[-1].verdict.ok
        inputs = verifier.inputs
    assert sum(node.domain == DOMAIN for node in history.graph.nodes) == len(own)
    executor = TorchExecutor(history.graph)
    found = executor.run(inputs)
    assert not {op for op in executor.fallbacks if op.startswith(DOMAIN)}
    for name, expected in outputs(history.graph, inputs).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-3, atol=1e-4)
    export_onnx(history.graph, tmp_path / "again.onnx")
    again = load_model(tmp_path / "again.onnx")
    assert [node.op for node in again.nodes] == [node.op for node in history.graph.nodes]


def one_node(op, operands, attributes=(), results=1, first_outputs=("y",)):
    """A model of one operator of ONNX Runtime on random operands, as a file would hold it."""
    names = [f"v{i}" if array is not None else "" for i, array in enumerate(operands)]
    outs = [*first_outputs, *("" for _ in range(results - len(first_outputs)))]
    node = helper.make_node(op, names, outs, "node", domain=DOMAIN, **dict(attributes))
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(names, operands, strict=True)
        if array is not None
    ]
    results = [onnx.ValueInfoProto(name=name) for name in outs if name]
    graph = helper.make_graph([node], "g", inputs, results)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def draw(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def whole(dtype, *shape):
    return np.random.default_rng(sum(shape)).integers(0, 100, shape).astype(dtype)


SCALE, ZERO = np.array(0.1, np.float32), np.array(3, np.uint8)
IMAGE, WEIGHT = draw(1, 4, 8, 8), draw(6, 4, 3, 3)
NATIVE = {
    "conv": ("FusedConv", [IMAGE, WEIGHT, draw(6)], {"pads": [1, 1, 1, 1], "activation": "Relu"}),
    "conv with a sum": ("FusedConv", [IMAGE, WEIGHT, draw(6), draw(1, 6, 4, 4)], {"pads": [1] * 4, "strides": [2, 2]}),
    "conv, Clip": ("FusedConv", [IMAGE, WEIGHT], {"activation": "Clip", "activation_params": [-0.5, 0.5]}),
    "conv, LeakyRelu": ("FusedConv", [IMAGE, WEIGHT], {"activation": "LeakyRelu", "activation_params": [0.3]}),
    "conv, HardSigmoid": ("FusedConv", [IMAGE, WEIGHT], {"activation": "HardSigmoid", "activation_params": [0.1, 0.4]}),
    "conv, Sigmoid": ("FusedConv", [IMAGE, WEIGHT], {"activation": "Sigmoid"}),
    "conv, Tanh": ("FusedConv", [IMAGE, WEIGHT], {"activation": "Tanh"}),
    "gemm": ("FusedGemm", [draw(3, 4), draw(5, 4), draw(5)], {"transB": 1, "alpha": 0.5, "activation": "Relu"}),
    "gemm, LeakyRelu": ("FusedGemm", [draw(3, 4), draw(4, 5)], {"activation": "LeakyRelu", "activation_alpha": 0.2}),
    "matmul": ("FusedMatMul", [draw(2, 3, 4), draw(2, 4, 5)], {"alpha": 0.25}),
    "matmul, both turned": ("FusedMatMul", [draw(2, 4, 3), draw(2, 5, 4)], {"transA": 1, "transB": 1}),
    "matmul by a matrix": ("FusedMatMul", [draw(2, 4, 3), draw(4, 5)], {"transA": 1}),
    "bias, gelu": ("BiasGelu", [draw(2, 3, 8), draw(8)], {}),
    "fast gelu": ("FastGelu", [draw(2, 3, 8)], {}),
    "fast gelu with bias": ("FastGelu", [draw(2, 3, 8), draw(8)], {}),
    "gelu": ("Gelu", [draw(2, 3, 8)], {}),
    "quick gelu": ("QuickGelu", [draw(2, 3, 8)], {"alpha": 1.1}),
    "skip": ("SkipLayerNormalization", [draw(2, 3, 8), draw(2, 3, 8), draw(8), draw(8), draw(8)], {"epsilon": 1e-5}),
    "skip without shift": ("SkipLayerNormalization", [draw(2, 3, 8), draw(2, 3, 8), draw(8)], {"epsilon": 1e-5}),
    "simplified": ("SkipSimplifiedLayerNormalization", [draw(2, 3, 8), draw(2, 3, 8), draw(8)], {"epsilon": 1e-5}),
}
TYPED = {
    "attention": ("Attention", [draw(2, 3, 8), draw(8, 24), draw(24)], {"num_heads": 2}),
    "add": ("QLinearAdd", [whole(np.uint8, 2, 3), SCALE, ZERO, whole(np.uint8, 3), SCALE, ZERO, SCALE, ZERO], {}),
    "multiply": ("QLinearMul", [whole(np.uint8, 2, 3), SCALE, ZERO, whole(np.uint8, 3), SCALE, ZERO, SCALE, ZERO], {}),
    "sigmoid": ("QLinearSigmoid", [whole(np.uint8, 2, 3), SCALE, ZERO, SCALE, ZERO], {}),
    "leaky": ("QLinearLeakyRelu", [whole(np.uint8, 2, 3), SCALE, ZERO, SCALE, ZERO], {"alpha": 0.1}),
    "pool": (
        "QLinearAveragePool",
        [whole(np.uint8, 1, 2, 6, 6), SCALE, ZERO, SCALE, ZERO],
        {"kernel_shape": [3, 3], "strides": [2, 2]},
    ),
    "global pool": ("QLinearGlobalAveragePool", [whole(np.uint8, 1, 2, 6, 6), SCALE, ZERO, SCALE, ZERO], {}),
    "concat": (
        "QLinearConcat",
        [SCALE, ZERO, whole(np.uint8, 2, 3), SCALE, ZERO, whole(np.uint8, 2, 5), SCALE, ZERO],
        {"axis": 1},
    ),
    "to floats": ("MatMulIntegerToFloat", [whole(np.uint8, 2, 3), whole(np.uint8, 3, 4), SCALE, SCALE], {}),
    "dynamic": ("DynamicQuantizeMatMul", [draw(2, 3), whole(np.uint8, 3, 4), SCALE], {}),
}


@pytest.mark.parametrize("name", [*NATIVE, *TYPED])
def test_one_operator(name, tmp_path):
    """Its result has the type that ONNX Runtime gives it, and the numbers: by torch itself for those that are native."""
    op, operands, attributes = {**NATIVE, **TYPED}[name]
    onnx.save(one_node(op, operands, attributes), tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    feeds = {f"v{i}": array for i, array in enumerate(operands) if array is not None}
    (expected,) = session.run(None, feeds)
    graph = load_model(tmp_path / "m.onnx")
    type_ = graph.tensor_type("y")
    assert (type_.dtype.numpy(), type_.shape) == (expected.dtype, expected.shape)
    executor = TorchExecutor(graph)
    np.testing.assert_allclose(executor.run(feeds)["y"], expected, rtol=1e-4, atol=1e-5)
    assert (executor.fallbacks == {}) == (name in NATIVE)


def test_the_sum_of_a_skip_normalization_is_a_result_too(tmp_path):
    operands = [draw(2, 3, 8), draw(2, 3, 8), draw(8)]
    model = one_node("SkipLayerNormalization", operands, {"epsilon": 1e-5})
    model.graph.node[0].output[:] = ["y", "", "", "total"]
    model.graph.output.append(onnx.ValueInfoProto(name="total"))
    onnx.save(model, tmp_path / "m.onnx")
    graph = load_model(tmp_path / "m.onnx")
    assert graph.shape("total") == (2, 3, 8)
    found = TorchExecutor(graph).run({f"v{i}": array for i, array in enumerate(operands)})
    np.testing.assert_array_equal(found["total"], operands[0] + operands[1])


def test_an_embedding_is_typed(tmp_path):
    ids = np.array([[1, 2, 0]], np.int32)
    words, places, kinds = draw(5, 8), draw(4, 8), draw(2, 8)
    operands = [ids, np.zeros_like(ids), words, places, kinds, draw(8), draw(8)]
    model = one_node("EmbedLayerNormalization", operands, {"epsilon": 1e-5}, 2)
    model.graph.node[0].output[:] = ["y", "mask"]
    onnx.save(model, tmp_path / "m.onnx")
    assert load_model(tmp_path / "m.onnx").shape("y") == (1, 3, 8)


@pytest.mark.parametrize("op", ["Attention", "FusedMatMul", "QLinearAveragePool", "NobodyKnowsIt"])
def test_a_form_that_is_not_known_has_no_type_and_is_left_as_it_is(op, tmp_path):
    attributes = {
        "Attention": {"num_heads": 2, "qkv_hidden_sizes": [4, 4, 8]},
        "FusedMatMul": {"transBatchA": 1},
        "QLinearAveragePool": {"channels_last": 1, "kernel_shape": [1, 1]},
        "NobodyKnowsIt": {},
    }[op]
    onnx.save(one_node(op, [draw(2, 3, 4), draw(2, 4, 3)], attributes), tmp_path / "m.onnx")
    graph = load_model(tmp_path / "m.onnx")
    assert graph.type("y") is None
    assert [warning for warning in graph.warnings if f"{DOMAIN}.{op}" in warning]
    assert graph.nodes[0].attributes.keys() == attributes.keys()


@pytest.mark.parametrize("form", ["QOperator", "QDQ", "dynamic"])
def test_a_file_that_the_quantizer_wrote(form, tmp_path):
    from onnxruntime import quantization

    source = tmp_path / "float.onnx"
    weights = [numpy_helper.from_array(draw(4, 3, 3, 3), "w"), numpy_helper.from_array(draw(256, 5), "m")]
    shape = numpy_helper.from_array(np.array([1, 256]), "flat")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Add", ["r", "r"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Reshape", ["s", "flat"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (1, 3, 16, 16)), ("y", (1, 5)))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [*weights, shape])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    target = tmp_path / "quantized.onnx"
    if form == "dynamic":
        quantization.quantize_dynamic(source, target)
    else:
        reader = iter([{"x": draw(1, 3, 16, 16)}, None])

        class Reader(quantization.CalibrationDataReader):
            def get_next(self):
                return next(reader)

        quantization.quantize_static(source, target, Reader(), quant_format=quantization.QuantFormat[form])
    graph = load_model(target)
    assert not [v for v in graph.values() if graph.type(v) is None]
    with Verifier(graph) as verifier:
        assert wb.optimize(graph, verifier=verifier, verify="end")[-1].verdict.ok
    inputs = {"x": draw(1, 3, 16, 16)}
    expected = outputs(graph, inputs)["y"]
    np.testing.assert_allclose(TorchExecutor(graph).run(inputs)["y"], expected, atol=0.02 * np.abs(expected).max())
