"""Quantizers of others as passes: what they quantized as rewrites, from which inputs, verified and left out."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import workbench as wb
from tests.conftest import ROOT
from tests.running import typed
from workbench.backends.onnxruntime.eight_bit_sums import saturates_here
from workbench.evidence.certification.writing import NoCertificateError
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.api import optimize
from workbench.interfaces.study.compare_tools.comparing import tools
from workbench.presentation.view.inspection import inspect_element
from workbench.presentation.view.node_style import value_text

DYNAMIC, STATIC = "ort_quantize_dynamic", "ort_quantize_static"
PRODUCTS = """g (float[4,8] x) => (float[4,8] y) <float[8,8] w, float[8,8] v> {
    a = MatMul(x, w)
    b = Relu(a)
    y = MatMul(b, v)
}"""
OUTLIER = """g (float[4,2] x) => (float[4,1] y) <float[2,2] w = {1000, 0.4, 900, 0.3}, int64[1] i = {1}> {
    a = MatMul(x, w)
    y = Gather<axis=1>(a, i)
}"""

REWRITES = {DYNAMIC: [("MatMul_a",), ("MatMul_y",)], STATIC: [("MatMul_a",), ("Relu_b",), ("MatMul_y",)]}


def products():
    """Two products of seeded weights, the second of which are a tenth of the first."""
    random = np.random.default_rng(0)
    w, v = (random.standard_normal(64) * scale for scale in (1, 0.1))
    words = (("w", w), ("v", v))
    text = PRODUCTS
    for name, numbers in words:
        text = text.replace(f"[8,8] {name}", f"[8,8] {name} = {{{', '.join(f'{number:.7f}' for number in numbers)}}}")
    return typed(text)


def inputs_of(graph, seed, scale=1.0):
    return {"x": (scale * np.random.default_rng(seed).standard_normal((4, 8))).astype(np.float32)}


def quantized(graph, name, verifier=None, **options):
    return optimize(graph, [name], options={f"{name}.{k}": v for k, v in options.items()}, verifier=verifier)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", [DYNAMIC, STATIC])
def test_each_operator_is_a_rewrite_and_the_result_is_called_close(name):
    """Weights have the bits with which sums of products are exact on this CPU."""
    graph, bits = products(), {"reduce_range": saturates_here()}
    with Verifier(graph) as verifier:
        history = quantized(graph, name, verifier, **bits)
        step = history[1]
        assert [rewrite.nodes for rewrite in step.rewrites] == REWRITES[name]
        assert step.verdict.is_close and step.verdict.sentence.startswith("Close, not equal: 1 output, ")
        assert 0 < step.verdict.max_rel_error < 0.05
        assert verifier.check(history.at(1, 1), narrowed=True).is_close, "one operator alone is quantized"
        kept = quantized(graph, name, verifier, keep="*_a", **bits)
        assert not any("MatMul 'MatMul_a'" in rewrite.sentence for rewrite in kept[1].rewrites)
        assert any("MatMul 'MatMul_y'" in rewrite.sentence for rewrite in kept[1].rewrites)
    with pytest.raises(NoCertificateError, match=f"computes other numbers; leave {name} out"):
        wb.certificate(history, "m.onnx", "o.onnx", "c.json")
    assert name not in tools(), "it is no optimizer whose result could be called equal"


@pytest.mark.slow
@pytest.mark.parametrize("name", [DYNAMIC, STATIC])
@pytest.mark.parametrize("model", ["ppocr_cls_v2", "resnet50_narrow"])
def test_every_moment_of_a_real_model_is_close(model, name):
    """Each operator stands for itself, in any order. The softmax of resnet50_narrow stays in float: a class of its 250
    is less than a step of the static quantizer's scale."""
    graph = wb.load(ROOT / "sample_models" / f"{model}.onnx")
    with Verifier(graph) as verifier:
        history = quantized(graph, name, verifier, per_channel=True, keep="n175")
        rewrites = history[1].rewrites
        assert history[1].verdict.is_close and len(rewrites) >= 50
        for count in (1, len(rewrites) // 3, len(rewrites) - 1):
            assert verifier.check(history.at(1, count), narrowed=True).is_close
        alone = graph.copy()
        alone.apply(rewrites[len(rewrites) // 2].edit)
        assert verifier.check(alone, narrowed=True).ok


@pytest.mark.slow
def test_the_operator_that_loses_too_much_in_a_real_model_is_named():
    graph = wb.load(ROOT / "sample_models" / "resnet50_narrow.onnx")
    with Verifier(graph) as verifier:
        step = quantized(graph, STATIC, verifier)[1]
    assert step.verdict.ok is False
    assert step.rewrites[step.broken_by].sentence.startswith("Softmax 'n175' is quantized: ")


@pytest.mark.slow
def test_ranges_come_from_files_from_the_run_or_from_seeds_and_the_step_says_which(tmp_path):
    graph = products()
    folder = tmp_path / "calibration"
    folder.mkdir()
    for seed in range(2):
        np.savez(folder / f"{seed}.npz", **inputs_of(graph, seed, 10.0**seed))
    large = max(float(np.ptp(inputs_of(graph, seed, 10.0**seed)["x"])) for seed in range(2))

    def scale_of_x(history):
        return float(history.graph.constant("x_scale").numpy())

    from_folder = quantized(graph, STATIC, calibration=str(folder))
    assert "its ranges are those of 2 files of inputs" in from_folder[1].conclusion
    assert scale_of_x(from_folder) == pytest.approx(large / 255)
    with Verifier(graph, inputs_of(graph, 0)) as verifier:
        from_run = quantized(graph, STATIC, verifier)
    assert "its ranges are those of the inputs of the run" in from_run[1].conclusion
    assert scale_of_x(from_run) == pytest.approx(float(np.ptp(inputs_of(graph, 0)["x"])) / 255)
    with Verifier(graph) as verifier:
        assert "one seeded random input, which are not those of real data" in quantized(graph, STATIC)[1].conclusion


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        (None, "' has no .npz file; give one for each input"),
        ({"x": np.zeros((4, 9), np.float32)}, "Input 'x' has shape [4, 9]; the model takes float[4,8]"),
    ],
)
def test_calibration_that_does_not_fit_is_a_sentence(arrays, reason, tmp_path):
    if arrays is not None:
        np.savez(tmp_path / "a.npz", **arrays)
    step = quantized(products(), STATIC, calibration=str(tmp_path))[1]
    assert step.conclusion.startswith("failed, and the step changes nothing: ") and reason in step.conclusion


@pytest.mark.slow
def test_a_weight_that_loses_too_much_is_found_by_bisection_and_a_scale_for_each_channel_helps():
    graph = typed(OUTLIER)
    with Verifier(graph) as verifier:
        step = quantized(graph, DYNAMIC, verifier)[1]
        assert step.verdict.ok is False and "for values that were quantized" in step.verdict.sentence
        assert step.rewrites[step.broken_by].sentence == (
            "MatMul 'MatMul_a' is quantized: 'x' as uint8, whose scale and zero point are those of each run; 'w' as"
            " int8, scale 7.87, zero point 0, largest error 2.4 of 1e+03; 4 nodes more"
        )
        helped = quantized(graph, DYNAMIC, verifier, per_channel=True, reduce_range=saturates_here())
        assert helped[1].verdict.ok
        skipped = optimize(graph, [DYNAMIC], verifier=verifier, on_failure="skip")
    assert [node.op for node in skipped.graph.nodes] == ["MatMul", "Gather"] and len(skipped.excluded) == 1


def test_a_gemm_whose_weight_is_transposed_by_the_quantizer():
    """It keeps the declared type of the weight, with which inference then fails."""
    numbers = ", ".join(f"{0.1 * (index % 7) - 0.3:.1f}" for index in range(12))
    graph = typed(
        f"g (float[2,4] x) => (float[2,3] y) <float[3,4] w = {{{numbers}}}, float[3] b = {{0, 1, 2}}>"
        " { y = Gemm<transB=1>(x, w, b) }"
    )
    with Verifier(graph) as verifier:
        step = quantized(graph, DYNAMIC, verifier)[1]
    assert step.verdict.is_close and len(step.rewrites) == 1


def test_a_shared_bias_whose_copy_would_have_the_name_of_a_value():
    """The static quantizer copies a bias `b` to `b0` for its second reader, and does not look at computed values."""
    graph = typed(
        "g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {0.5, 0.1, -0.3, 0.2}, float[2] b = {1, 2}>"
        " { b0 = Gemm(x, w, b)  y = Gemm(b0, w, b) }"
    )
    with Verifier(graph) as verifier:
        step = quantized(graph, STATIC, verifier)[1]
    assert not step.facts.failed and step.verdict.is_close and len(step.rewrites) == 1, step.conclusion


@pytest.mark.slow
def test_what_the_dynamic_quantizer_does_not_do_is_said():
    """It makes ONNX's Attention one of ONNX Runtime's, whose operands are others, and no Conv per channel."""
    attention = typed("g (float[1,2,3,4] x) => (float[1,2,3,4] y) { y = Attention(x, x, x) }")
    step = quantized(attention, DYNAMIC)[1]
    assert not step.rewrites and "ONNX's Attention stays in float, since" in step.conclusion
    conv = typed("g (float[1,1,2,2] x) => (float[1,2,2,2] y) <float[2,1,1,1] w = {1, 2}> { y = Conv(x, w) }")
    said = "a Conv has one scale for all channels"
    assert [said in quantized(conv, DYNAMIC, per_channel=each)[1].conclusion for each in (False, True)] == [False, True]


def test_in_exact_mode_nothing_is_quantized():
    assert not optimize(products(), [STATIC], mode="exact")[1].changed


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("weights", ["uint8", "int4", "uint4"])
def test_number_types_of_weights(weights):
    graph = products()
    with Verifier(graph) as verifier:
        step = quantized(graph, STATIC, verifier, weights=weights, activations="uint8", per_channel=True)[1]
    assert f"as {weights}, 8 scales " in " ".join(rewrite.sentence for rewrite in step.rewrites)
    assert step.verdict.ok is not None and (step.verdict.ok or weights != "uint8")


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("name", [DYNAMIC, STATIC])
def test_the_inspector_compares_a_quantized_weight_with_the_float_one(name):
    graph = products()
    history = quantized(graph, name, per_channel=True)
    shown = {
        node.name: section["rows"]
        for node in history.graph.nodes
        for section in inspect_element(history, 1, None, node.name)["sections"]
        if section["title"] == "Quantization"
    }
    weight = graph.constant("v").numpy()
    scales = np.abs(weight).max(axis=0) / 127
    error = np.abs(weight - np.rint(weight / scales) * scales).max()
    where = "v_DequantizeLinear" if name == STATIC else "MatMul_y_quant"
    assert shown[where] == [
        ["number type", f"int8, 8 scales {scales.min():.3g} to {scales.max():.3g} along axis 1, zero point 0"],
        ["largest error", f"{error:.2g} of {np.abs(weight).max():.2g}, the weight before it was quantized"],
    ]
    if name == STATIC:
        scale = float(history.graph.constant("x_scale").numpy())
        words = f"uint8, scale {scale:.3g}, zero point {int(history.graph.constant('x_zero_point').numpy())}"
        assert shown["x_QuantizeLinear"] == [["number type", words]]
        assert value_text(history.graph, "x_QuantizeLinear_Output", {}) == f"4x8 {words}"


STORED = {
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
    "float8e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8e5m2": TensorProto.FLOAT8E5M2,
}


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("kind", STORED)
def test_every_number_type_opens_runs_and_is_said(kind, axis, tmp_path):
    """A product of a quantized input and a weight of the type, per tensor and per channel."""
    scales, shape = ([0.1], []) if axis is None else ([0.1, 0.2, 0.3], [3])
    tensors = [
        helper.make_tensor("q", STORED[kind], [4, 3], [index % 5 for index in range(12)]),
        helper.make_tensor("s", TensorProto.FLOAT, shape, scales),
        helper.make_tensor("z", STORED[kind], shape, [0] * len(scales)),
        helper.make_tensor("t", TensorProto.FLOAT, [], [0.05]),
        helper.make_tensor("n", STORED[kind], [], [0]),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "t", "n"], ["i"], "quantize"),
        helper.make_node("DequantizeLinear", ["i", "t", "n"], ["f"], "dequantize"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], "weight", **({} if axis is None else {"axis": 1})),
        helper.make_node("MatMul", ["f", "w"], ["y"], "product"),
    ]
    ends = [helper.make_tensor_value_info(value, TensorProto.FLOAT, [2, n]) for value, n in (("x", 4), ("y", 3))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    opened = wb.load(tmp_path / "m.onnx")
    with Verifier(opened) as verifier:
        assert verifier.check(opened).bit_equal
    assert value_text(opened, "i", {}) == f"2x4 {kind}, scale 0.05, zero point 0"
    several = "scale 0.1, zero point 0" if axis is None else "3 scales 0.1 to 0.3 along axis 1, zero point 0"
    sections = inspect_element(optimize(opened, []), 0, None, "weight")["sections"]
    assert ["number type", f"{kind}, {several}"] in [row for section in sections for row in section.get("rows", [])]
    assert value_text(opened, "q", {}) == f"4x3 {kind}, {'3 scales' if axis else several}"
