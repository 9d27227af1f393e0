"""What each operator loses in int8: against numpy, and against the files of ONNX Runtime's own quantizer."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.commands import OCR
from tests.running import normal, outputs, typed
from workbench.formats.io.exporting import export_onnx
from workbench.interfaces import api
from workbench.ir import Graph
from workbench.planning.precision.int8.quantizer_rounding import QuantizerRounding, quantized_graph
from workbench.planning.precision.int8.quantizer_rules import quantizer_plan
from workbench.run.inputs import seed_inputs
from workbench.run.precision_effects import Effect, precision_effects, ranges_for_int8

STATIC = "ort_quantize_static"
PRODUCT = """g (float[8,16] x) => (float[8,4] y) <float[16,4] w, float[4] b> {
    a = MatMul(x, w)
    r = Relu(a)
    s = Sub(r, b)
    y = Mul(s, b)
}"""
# Every rule of the quantizer but those for operators whose values are all quantized alike.
RULES = """g (float[1,3,8,8] x, bool[1,4,1,1] c, int64[2] i) => (float[1,4,8,8] y, float[3,5] z, float[1,4,8,8] t)
    <float[4,3,3,3] w, float[4] b, float[4] mean = {0, 0, 0, 0}, float[4] var = {1, 2, 1, 3},
     float[9,4] table, float[5,4] u, float[5] bias, float[4] scale, float[4] offset, float[4] shift, int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1},
     float minus = {-9}, int64[2] flat = {3, 4}, float low = {-0.5}, float high = {0.5}, int64[1] one = {1},
     int64[1] two = {2}, int64[1] four = {4}, int64[1] first = {0}> {
    padded = Pad(x, pads, minus)
    conv = Conv(padded, w, b)
    relu = Relu(conv)
    pooled = MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(relu)
    left, right = Split<axis = 1, num_outputs = 2>(pooled)
    both = Concat<axis = 1>(left, right)
    norm = BatchNormalization(both, scale, offset, mean, var)
    clipped = Clip(norm, low, high)
    chosen = Where(c, clipped, norm)
    turned = Transpose<perm = [0, 1, 3, 2]>(chosen)
    t = Tanh(turned)
    y = Add(t, turned)
    taken = Gather(table, i)
    cut = Slice(table, one, two, first)
    rows = Concat<axis = 0>(taken, cut)
    layer = LayerNormalization(rows, scale, shift)
    flat_rows = Reshape(layer, flat)
    gemm = Gemm<transB = 1>(flat_rows, u, bias)
    z = Softmax(gemm)
}"""


@pytest.fixture
def effects(kept_worker):
    """The effects of a graph in int8, by node."""

    def effects(graph: Graph, **words) -> dict[str, Effect]:
        return {effect.node: effect for effect in precision_effects(graph, "int8", worker=kept_worker, **words)}

    return effects


def filled(text: str) -> Graph:
    """The graph, with numbers for the constants of which the text has the shape alone."""
    signature, constants, body = re.split(r"(?<=\))\s*<|> \{", text, maxsplit=2)

    def numbers(match: re.Match) -> str:
        array = normal(*map(int, match[1].split(",")))
        return f"{match[0]} = {{{', '.join(f'{number:.5f}' for number in array.ravel())}}}"

    filled = re.sub(r"float\[([\d,]+)\] \w+(?=,|$)", numbers, constants)
    return typed(f"{signature} <{filled}> {{{body}")


def in_uint8(array: np.ndarray, least: float, largest: float) -> np.ndarray:
    scale = np.float32((max(largest, 0) - min(least, 0)) / 255)
    zero = np.round(-min(least, 0) / scale)
    return np.float32((np.clip(np.round(array / scale) + zero, 0, 255) - zero) * scale)


def relative(right: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(right - other).max()) / float(np.abs(right).max())


def test_both_errors_are_those_of_the_same_steps_in_numpy(effects):
    graph, x = filled(PRODUCT), normal(8, 16)
    w, b = (graph.constants[name].numpy() for name in "wb")
    scale = np.abs(w).max(axis=0) / np.float32(127)
    narrow_w = np.round(w / scale) * scale
    a = x @ w
    r = np.maximum(a, 0)
    y = (r - b) * b
    as_r = lambda array: in_uint8(array, r.min(), r.max())  # noqa: E731  the Relu alone reads the product
    narrow_a = as_r(in_uint8(x, x.min(), x.max()) @ narrow_w)
    s = r - b
    narrow = lambda array: in_uint8(array, s.min(), s.max())  # noqa: E731
    as_y = lambda array: in_uint8(array, y.min(), y.max())  # noqa: E731
    as_b = in_uint8(b, b.min(), b.max())
    shares: list[float] = []
    found = effects(graph, inputs={"x": x}, on_progress=lambda text, share: shares.append(share))
    assert shares == sorted(shares) and shares[-1] >= 0.25, "after the run that records ranges"
    assert list(found) == ["MatMul_a", "Relu_r", "Mul_y"], "the quantizer does not know Sub"
    assert found["MatMul_a"].alone == pytest.approx(relative(r, narrow_a), rel=1e-4)
    assert found["MatMul_a"].max_abs == pytest.approx(r.max())
    assert found["Relu_r"].alone == pytest.approx(relative(r, as_r(r)), rel=1e-4)
    assert found["Relu_r"].cumulative == pytest.approx(relative(r, as_r(narrow_a)), rel=1e-4)
    assert found["Mul_y"].alone == pytest.approx(relative(y, as_y(narrow(s) * as_b)), rel=1e-4)
    # b is quantized for all that read it
    cumulative = as_y(narrow(as_r(narrow_a) - as_b) * as_b)
    assert found["Mul_y"].cumulative == pytest.approx(relative(y, cumulative), rel=1e-4)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("per_channel", [True, False], ids=["per channel", "per tensor"])
def test_cumulative_is_the_error_of_the_file_that_the_quantizer_writes(effects, kept_worker, tmp_path, per_channel):
    graph = filled(RULES)
    inputs = {"x": normal(1, 3, 8, 8), "c": np.array([1, 0, 1, 0], bool).reshape(1, 4, 1, 1), "i": np.array([2, 5])}
    file = quantized(graph, inputs, per_channel, tmp_path)
    compare_errors(graph, inputs, effects(graph, inputs=inputs, per_channel=per_channel), file)
    ranges = ranges_for_int8(graph, inputs, kept_worker, lambda text, share: None)
    ours = QuantizerRounding(graph, ranges, per_channel)
    plan = quantizer_plan(graph, per_channel).values
    biases = [value for value, mark in plan.items() if mark.factors is not None]
    written = {value: pair for value, *pair in scales_in(file) if pair[1].dtype != np.int32}
    assert len(biases) == 4 and sum(pair[1].dtype == np.int32 for _, *pair in scales_in(file)) == 4
    assert written.keys() == plan.keys() - {*biases}
    for value, (scale, zero) in written.items():
        np.testing.assert_allclose(ours.scale(value).scale, scale, rtol=1e-6)
        np.testing.assert_array_equal(ours.scale(value).zero, zero)
    real, simulated = outputs(file, inputs), outputs(quantized_graph(graph, ours), inputs)
    for name in graph.outputs:
        np.testing.assert_allclose(simulated[name], real[name], rtol=1e-6)


@pytest.mark.slow
def test_so_it_is_for_a_network(effects, tmp_path):
    graph = api.load(OCR, {"x_2": 32, "x_3": 64})
    inputs = seed_inputs(graph)
    compare_errors(graph, inputs, effects(graph, inputs=inputs), quantized(graph, inputs, True, tmp_path))


def quantized(graph: Graph, inputs: dict[str, np.ndarray], per_channel: bool, folder: Path) -> Graph:
    """What ONNX Runtime's static quantizer makes of the graph, calibrated on these inputs."""
    file = folder / "inputs.npz"
    np.savez(file, **inputs)
    options = {f"{STATIC}.per_channel": per_channel, f"{STATIC}.calibration": str(file)}
    return api.optimize(graph, STATIC, options=options).graph


def compare_errors(graph: Graph, inputs: dict[str, np.ndarray], found: dict[str, Effect], file: Graph) -> None:
    """The errors at the outputs are those of the quantized file, which runs without optimizations."""
    right, real = outputs(graph, inputs), outputs(file, inputs)
    for name in graph.outputs:
        error = relative(right[name], real[name])
        assert error > 0 and found[graph.producer(name).name].cumulative == pytest.approx(error, rel=1e-3)


def scales_in(file: Graph) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Of each value that is brought back to float32, its name without the quantizer's, its scale and its zero point."""
    for node in file.nodes_of(["DequantizeLinear"]):
        scale, zero = (file.constants[value].numpy() for value in node.inputs[1:])
        yield node.outputs[0].removesuffix("_DequantizeLinear_Output"), scale, zero


def test_what_the_command_leaves_out_brings_the_file_within_the_error(done, tmp_path):
    graph, x = filled(PRODUCT), normal(8, 16)
    model, inputs = tmp_path / "model.onnx", tmp_path / "x.npz"
    export_onnx(graph, model)
    np.savez(inputs, x=x)
    arguments = ("precision", model, "--explain", "--precision-type", "int8", "--inputs", inputs)
    rows = json.loads(done(*arguments, "--json"))
    assert [set(row) for row in rows] == [{"node", "op", "alone", "cumulative", "max_abs"}] * 3
    max_error = rows[-1]["cumulative"] * 0.8
    found = json.loads(done(*arguments, "--json", "--max-error", max_error))
    assert found["error"] <= max_error < found["error_before"] and 0 < len(found["kept"]) < 3 and found["needed"]
    text = done(*arguments, "--max-error", max_error)
    assert f"run ort_quantize_static with these operators in its option 'keep': {found['command']}" in text
    words = shlex.split(found["command"])
    done(*words[1:])
    real = outputs(api.load(words[words.index("-o") + 1]), {"x": x})["y"]
    assert relative(outputs(graph, {"x": x})["y"], real) == pytest.approx(found["error"], rel=1e-3)
    assert json.loads(done(*arguments, "--json", "--max-error", 1))["kept"] == []


def test_what_int8_does_not_have_is_a_sentence(refused, tmp_path):
    model = tmp_path / "model.onnx"
    export_onnx(typed("g (float[2] x) => (float[2] y) { y = Neg(x) }"), model)
    assert "no operator of 'g' runs in float32 and may run in int8" in refused("precision", model, "--type", "int8")
    assert "`optimize --precision optimal --precision-type float16 --max-error 0.1` finds" in refused(
        "precision", model, "--max-error", "0.1"
    )
    assert "--per-tensor is for int8" in refused("precision", model, "--per-tensor")
