"""`optimize --export-for onnxruntime`: its own operators behind any list of passes, compared by running."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import workbench as wb
from passes.ort.ort_attention import OrtAttention
from passes.ort.ort_multi_head_attention import OrtMultiHeadAttention
from tests.conftest import CORPUS, ROOT
from tests.running import outputs, random_inputs, typed
from tests.slow import thorough_unless
from tests.test_ort_operators import saved
from tests.torch_bert import exported_bert
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.errors import UserError
from workbench.formats.io import load_model
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass

RESNET = ROOT / "sample_models" / "resnet50_narrow.onnx"


def operators(path):
    return Counter(f"{node.domain}.{node.op_type}".lstrip(".") for node in onnx.load(path).graph.node)


@pytest.mark.slow
def test_resnet_with_its_sums_and_activations_in_the_convolutions(done, tmp_path):
    out, report = tmp_path / "out.onnx", tmp_path / "r.json"
    words = ("--preset", "simplify", "--export-for", "onnxruntime", "--report", report)
    said = done("optimize", RESNET, "-o", out, *words)
    assert "the end: Equal" in said
    assert len(onnx.load(out).graph.node) <= 59
    assert operators(out)["com.microsoft.FusedConv"] == 49
    steps = json.loads(report.read_text())["steps"]
    assert next(step for step in steps if step["pass"] == "ort_conv")["rewrites"]


VOCODER = """g (float[1,8,40] x) => (float[1,1,N] wave) <W> {
    a = Conv<pads = [3, 3]>(x, w7, b16)
    l = LeakyRelu<alpha = 0.1>(a)  u = ConvTranspose<strides = [2], pads = [1, 1]>(l, wu, b8)
    l1 = LeakyRelu<alpha = 0.1>(u)  c1 = Conv<pads = [1, 1]>(l1, w3, b8)
    l2 = LeakyRelu<alpha = 0.1>(c1)  c2 = Conv<pads = [3, 3], dilations = [3]>(l2, w3, b8)  s = Add(c2, u)
    l3 = LeakyRelu(s)  o = Conv<pads = [3, 3]>(l3, wo)  wave = Tanh(o) }"""
PERCEPTRON = """g (float[2,8] x) => (float[2,4] y) <W> {
    g1 = Gemm<transB = 1>(x, m16, b16)  r = LeakyRelu(g1)  g2 = Gemm<transB = 1>(r, m8, b8)  t = Tanh(g2)
    g3 = Gemm<transB = 1>(t, m4)  y = Sigmoid(g3) }"""
MOBILE = """g (float[1,3,16,16] x) => (float[1,8,N,M] y) <float zero = {0}, float six = {6}, W> {
    a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w33, b8)  c = Clip(a, zero, six)
    d = Conv<group = 8, pads = [1, 1, 1, 1]>(c, wd, b8)  h = HardSigmoid(d)  y = Mul(d, h) }"""
SHAPES = {
    "w7": "16,8,7", "b16": "16", "wu": "16,8,4", "b8": "8", "w3": "8,8,3", "wo": "1,8,7", "m16": "16,8", "m8": "8,16",
    "m4": "4,8", "w33": "8,3,3,3", "wd": "8,1,3,3",
}  # fmt: skip


@pytest.mark.parametrize("text", [VOCODER, PERCEPTRON, MOBILE], ids=["vocoder", "perceptron", "mobile"])
def test_activations_are_fused_that_the_extended_level_fuses(text, tmp_path):
    rng = np.random.default_rng(5)
    weights = (
        f"float[{shape}] {name} = {{{', '.join(f'{x:.3f}' for x in rng.normal(0, 0.3, np.prod([*map(int, shape.split(','))])))}}}"
        for name, shape in SHAPES.items()
        if name in text.partition("{\n")[2]
    )
    graph = typed(text.replace("W>", f"{', '.join(weights)}>"))
    wb.export(graph, tmp_path / "before.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "extended.onnx")
    onnxruntime.InferenceSession(tmp_path / "before.onnx", options, providers=["CPUExecutionProvider"])
    made = wb.optimize(graph, export_for="onnxruntime").graph
    assert len(made) <= len(onnx.load(tmp_path / "extended.onnx").graph.node)
    assert wb.verify(graph, made).ok


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"THE CORPUS OF REAL MODELS IS NOT AT {CORPUS}")
def test_bert_with_its_attention_and_residual_sums_as_kernels(done, tmp_path):
    out = tmp_path / "out.onnx"
    words = ("--preset", "simplify", "--export-for", "onnxruntime")
    said = done("optimize", CORPUS / "bert_12l_raw.onnx", "-o", out, *words)
    assert "the end: Equal" in said
    assert len(onnx.load(out).graph.node) <= 106
    assert operators(out)["com.microsoft.SkipLayerNormalization"] == 24
    assert operators(out)["com.microsoft.Attention"] == 12


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dynamic", [False, thorough_unless(False, True)], ids=["of one size", "of any size"])
def test_a_bert_exported_by_torchscript(dynamic, done, tmp_path):
    source, out = exported_bert(tmp_path / "bert.onnx", dynamic), tmp_path / "out.onnx"
    words = ("--preset", "simplify", "--export-for", "onnxruntime")
    assert "the end: Equal" in done("optimize", source, "-o", out, *words)
    assert len(onnx.load(out).graph.node) <= 106
    of_onnxruntime = {"Attention": 12, "SkipLayerNormalization": 24, "BiasGelu": 12}
    assert {name: operators(out)[f"com.microsoft.{name}"] for name in of_onnxruntime} == of_onnxruntime
    if not dynamic:
        return
    random = np.random.default_rng(2)
    texts = {"ids": random.integers(0, 100, (3, 7)), "mask": random.integers(0, 2, (3, 7)), "segments": [[0] * 7] * 3}
    inputs = {name: np.array(numbers, np.int64) for name, numbers in texts.items()}
    runs = [onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]) for path in (source, out)]
    for expected, found in zip(*(session.run(None, inputs) for session in runs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lowest", [float(np.finfo(np.float32).min), -np.inf], ids=["finite", "infinite"])
@pytest.mark.parametrize(
    "pass_, rule",
    [
        *((OrtAttention(), rule) for rule in OrtAttention.rules),
        (OrtMultiHeadAttention(), next(rule for rule in OrtMultiHeadAttention.rules if rule.name == "written out")),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_texts_that_are_wholly_hidden_give_the_same(pass_, rule, lowest):
    """The mean of all values where the mask is finite, NaN where it is not, as written out."""
    graph = typed(rule.example.before)
    inputs = random_inputs(graph)
    hidden = np.random.default_rng(1).random(inputs["m"].shape) < 0.4
    hidden[-1] = True
    inputs["m"] = np.where(hidden, np.float32(lowest), np.float32(0))
    expected = outputs(graph, inputs)["y"]
    run_pass(pass_, graph, PassContext(load_profile("cuda")), check_each=True)
    assert graph.nodes[-1].op == f"com.microsoft.{type(pass_).__name__.removeprefix('Ort')}"
    np.testing.assert_allclose(outputs(graph, inputs)["y"], expected, rtol=1e-5, atol=1e-5)
    assert np.isnan(expected).any() == (lowest == -np.inf)


class CrossAttention(torch.nn.Module):
    """A text that attends to another one of another length."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(24, 32) for _ in range(3))

    def forward(self, x, other):
        query, key, value = (
            layer(text).unflatten(-1, (4, 8)).transpose(1, 2)
            for layer, text in ((self.query, x), (self.key, other), (self.value, other))
        )
        return torch.nn.functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)


@pytest.mark.slow_after(1)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dynamo", [False, True], ids=["TorchScript", "dynamo"])
def test_attention_to_another_text(dynamo, done, tmp_path):
    source, out = tmp_path / "cross.onnx", tmp_path / "out.onnx"
    texts = (torch.zeros(2, 5, 24), torch.zeros(2, 7, 24))
    torch.onnx.export(CrossAttention().eval(), texts, source, dynamo=dynamo, input_names=["x", "other"])
    said = done("optimize", source, "-o", out, "--preset", "simplify", "--export-for", "onnxruntime")
    assert "the end: Equal" in said
    assert operators(out)["com.microsoft.MultiHeadAttention"] == 1
    assert not {"Transpose", "Softmax", "Reshape"} & set(operators(out))


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"THE CORPUS OF REAL MODELS IS NOT AT {CORPUS}")
def test_the_attention_of_a_unet():
    made = wb.optimize(load_model(CORPUS / "unet_sd15_raw.onnx"), preset="simplify", export_for="onnxruntime").graph
    assert Counter(node.op for node in made.nodes)["com.microsoft.MultiHeadAttention"] == 32
    assert len(made.nodes) <= 1011


def test_what_is_written_opens_again_with_types(tmp_path):
    graph = load_model(RESNET)
    made = wb.optimize(graph, preset="simplify", export_for="onnxruntime").graph
    wb.export(made, tmp_path / "out.onnx")
    again = load_model(tmp_path / "out.onnx")
    assert again.warnings == ()
    assert all(again.shape(value) is not None for node in again.nodes for value in node.outputs)
    history = wb.optimize(again, preset="simplify", export_for="onnxruntime")
    assert not [rewrite.sentence for step in history.steps for rewrite in step.rewrites]


def test_the_exact_mode_writes_none(tmp_path):
    made = wb.optimize(load_model(RESNET), preset="none", export_for="onnxruntime", mode="exact").graph
    assert not [node for node in made.nodes if node.domain]


def test_another_runtime_is_refused():
    with pytest.raises(UserError, match="there are no passes for 'tflite'; there are some for: onnxruntime"):
        wb.optimize(load_model(RESNET), export_for="tflite")


def test_each_operator_is_written_behind_the_passes_that_make_it_possible(tmp_path):
    text = """
        <ir_version: 8, opset_import: ["": 20]>
        g (float[1,4,8] x) => (float[1,4,4] y) <float r = {1.41421356}, float one = {1}, float half = {0.5}> {
            b = Add(x, b1)
            c = Div(b, r)
            d = Erf(c)
            e = Add(d, one)
            f = Mul(b, e)
            h = Mul(f, half)
            k = Add(h, x)
            n = LayerNormalization<axis=-1>(k, g1, b1)
            i = Gelu<approximate="tanh">(n)
            p = Add(n, b1)
            q = Gelu<approximate="tanh">(p)
            t = Transpose<perm=[0,2,1]>(q)
            y = MatMul(i, t)
        }
    """
    graph = load_model(saved(tmp_path / "m.onnx", text, {"b1": (8,), "g1": (8,)}))
    made = wb.optimize(graph, preset="simplify", export_for="onnxruntime").graph
    found = sorted(node.op.removeprefix("com.microsoft.") for node in made.nodes)
    assert found == ["BiasGelu", "FastGelu", "FusedMatMul", "Gelu", "SkipLayerNormalization"]
    verdict = wb.verify(graph, made)
    assert verdict.sentence.startswith("Equal"), verdict.sentence
    executor = TorchExecutor(made)
    executor.run(random_inputs(made))
    assert executor.fallbacks == {}
