"""Quantized files in float16: stored weights come out in the type of their scale, and a Cast behind one counts."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from tests.running import normal, outputs, random_inputs, typed
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.formats.opsets.written import at_written_opset
from workbench.ir import DataType, Graph
from workbench.pipeline.registry.reading import precision_strategy
from workbench.planning.layout.profile import load_profile
from workbench.planning.precision.cast_cost import count_casts
from workbench.planning.precision.element_types import FloatCall, float_call
from workbench.rewrite import PassContext, Step, run_pass

FLOAT16 = DataType.FLOAT16
SHAPE = (1, 8, 32, 32)


class Calibration(CalibrationDataReader):
    def __init__(self) -> None:
        self.given = iter([{"x": normal(*SHAPE)}])

    def get_next(self):
        return next(self.given, None)


@pytest.fixture(scope="module")
def quantized(tmp_path_factory):
    """Two convolutions as ONNX Runtime's static quantizer writes them: stored weights and biases, pairs between."""
    folder = tmp_path_factory.mktemp("quantized")
    plain, path = (folder / name for name in ("plain.onnx", "quantized.onnx"))
    graph = typed(f"""g (float[1,8,32,32] x) => (float[1,8,32,32] out)
        <float[8,8,1,1] w = {{{numbers(64)}}}, float[8] b = {{{numbers(8)}}}> {{
        a = Conv(x, w, b)
        c = Relu(a)
        d = Conv(c, w, b)
        out = Softmax(d)
    }}""")
    graph.file_opset = 13
    export_onnx(graph, plain)
    words = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(plain, path, Calibration(), quant_format=QuantFormat.QDQ, **words)
    return path


def numbers(count: int) -> str:
    return ", ".join(map(str, (normal(count) / 50).round(4)))


def run_in_float16(graph: Graph, strategy: str = "optimal") -> Step:
    return run_pass(precision_strategy(strategy, {}), graph, PassContext(load_profile("cpu")))


def casts_of_file(path) -> int:
    """Casts between float32 and float16 in the file, of anything but constants."""
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    types = {v.name: v.type.tensor_type.elem_type for v in (*model.graph.value_info, *model.graph.input)}
    types |= {value.name: value.type.tensor_type.elem_type for value in model.graph.output}
    casts = [node for node in model.graph.node if node.op_type == "Cast"]
    return sum({types.get(node.input[0]), types.get(node.output[0])} == {1, 10} for node in casts)


def results(path, level: str) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": normal(*SHAPE)})[0]


@pytest.mark.parametrize("strategy", ["greedy", "optimal", "optimal-with-layout"])
def test_a_quantized_file_needs_no_cast(quantized, tmp_path, strategy):
    """Its convolutions run in float16, since scales and stated types are changed before the run."""
    graph, output = load_model(quantized), tmp_path / "half.onnx"
    step = run_in_float16(graph, strategy)
    assert step.facts.casts == 0 and len(step.rewrites) > 8
    export_onnx(graph, output)
    onnx.checker.check_model(str(output), full_check=True)
    assert casts_of_file(output) == 0
    convolutions = {node.outputs[0] for node in graph.nodes if "Conv" in node.op}
    assert {graph.tensor_type(value).dtype for value in convolutions} == {FLOAT16}
    expected = results(quantized, "ORT_DISABLE_ALL")
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        assert np.abs(results(output, level) - expected).max() < 0.02
    assert not run_in_float16(load_model(output), strategy).rewrites


@pytest.mark.slow
def test_at_an_opset_without_such_scales_every_cast_of_a_weight_counts(quantized, tmp_path, done):
    """The bound, the file and its checker agree."""
    output, report, certificate = (tmp_path / name for name in ("out.onnx", "report.json", "certificate.json"))
    arguments = ("--precision", "optimal", "--passes", "", "--opset", "keep", "--report", report)
    done("optimize", quantized, "-o", output, *arguments, "--certificate", certificate)
    [facts] = [step["precision"] for step in json.loads(report.read_text())["steps"] if "precision" in step]
    model = onnx.load(output)
    assert model.opset_import[0].version == 13
    behind = {value for node in model.graph.node if node.op_type == "DequantizeLinear" for value in node.output}
    assert sum(node.op_type == "Cast" and node.input[0] in behind for node in model.graph.node) >= 4
    assert facts["casts"] == casts_of_file(output) and facts["certified"]
    said = done("check", quantized, output, certificate)
    assert f"runs {facts['casts']} Casts, which read and write {facts['bytes_converted']:,} bytes" in said
    assert f"proven: no alternative reads and writes less than {facts['bytes_converted']:,} bytes" in said
    whys = [one["why"] for one in facts["kept"]]
    assert "opset 13, which is kept, has no such DequantizeLinear" in whys


GIVEN = {  # what decides the type of the result, in an operator without computed floats
    "the scale of stored weights": "DequantizeLinear(q, s)",
    "the attribute of a stored vector": "DequantizeLinear(bias, tiny)",
    "a table": "Gather(table, i)",
    "the attribute of a Cast": "Cast<to=1>(n)",
    "the element of a ConstantOfShape": "ConstantOfShape<value=float[1] {0.5}>(shape)",
}


@pytest.mark.parametrize("call", GIVEN.values(), ids=GIVEN)
def test_what_no_computed_float_decides_is_given_in_float16(call):
    graph = typed(f"""g (float[2,4] x, int64[2,1] n) => (float[2,4] y) <float[4,4] w = {{{numbers(16)}}},
        int8[2,4] q = {{1, 2, 3, 4, 5, 6, 7, -8}}, float s = {{0.02}}, int32[4] bias = {{1, -70000, 100000, 2}},
        float tiny = {{1e-6}}, float[3,4] table = {{{numbers(12)}}}, int64 three = {{3}}, int64[1] one = {{1}}> {{
        shape = Shape(x)
        r = Mod(n, three)
        i = Squeeze(r, one)
        a = MatMul(x, w)
        b = {call}
        c = Add(a, b)
        y = MatMul(c, w)
    }}""")
    original, inputs = graph.copy(), {**random_inputs(graph), "n": np.array([[2], [1]])}
    facts = run_in_float16(graph).facts
    [result] = (node.outputs[0] for node in graph.nodes if node.name.endswith("_b"))
    assert graph.tensor_type(result).dtype == FLOAT16
    assert facts.certified and facts.casts == count_casts(graph, FLOAT16).casts == 2
    expected = outputs(original, inputs)["y"]
    np.testing.assert_allclose(outputs(graph, inputs)["y"], expected, atol=2e-3)
    assert not run_in_float16(graph).rewrites


def test_a_vector_whose_scale_would_lose_digits_states_its_type_and_its_scale_stays():
    graph = typed("""g (float[2,2] x) => (float[2,2] y) <int32[2] q = {100000, -5}, float s = {1e-6}> {
        b = DequantizeLinear(q, s)
        y = Add(x, b)
    }""")
    node = graph.node("DequantizeLinear_b")
    assert float_call(graph, node, FLOAT16) == FloatCall(DataType.FLOAT, (), (0,), "output_dtype")
    run_in_float16(graph, "record-then-insert")
    assert graph.node("DequantizeLinear_b").attr("output_dtype") == FLOAT16.value
    assert graph.node("DequantizeLinear_b").inputs[1] == "s"
    graph.file_opset = 13
    assert at_written_opset(graph)[1].opset == 23
