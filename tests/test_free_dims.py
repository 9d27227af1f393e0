"""A static batch becomes one of any size, where the graph allows it: as a file, read again, in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import workbench as wb
from tests.commands import SAMPLES
from tests.conftest import CORPUS
from tests.running import normal
from workbench.errors import UserError
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io.onnx_file import load_text

HEAD = '<ir_version: 8, opset_import: ["": 17]>\n'
RESNET, DATA = SAMPLES / "resnet50_narrow.onnx", "gpu_0/data_0"

WINDOWS = """g (float[1,4,4,3] x) => (float[1,4,4,3] y)
    <int64[6] cut = {1,2,2,2,2,3}, int64[3] rows = {4,4,3}, int64[6] back = {1,2,2,2,2,3}, int64[4] image = {1,4,4,3}> {
    a = Reshape(x, cut)  b = Transpose<perm=[0,1,3,2,4,5]>(a)  c = Reshape(b, rows)
    d = Softmax<axis=1>(c)  e = Reshape(d, back)  f = Transpose<perm=[0,1,3,2,4,5]>(e)  y = Reshape(f, image)
}"""
TOKEN = """g (float[1,4,3] x) => (float[1,5,3] y) <float[1,1,3] token = {1,2,3}> { y = Concat<axis=-2>(token, x) }"""
STATE = """g (float[5,1,2] x) => (float[5,1,1,3] y, float[1,1,3] h)
    <float[1,3,2] w = {1,2,3,4,5,6}, float[1,3,3] r = {1,2,3,4,5,6,7,8,9}, float[1,1,3] start = {1,2,3}> {
    y, h = RNN<hidden_size=3>(x, w, r, , , start)
}"""
RESIZE = """g (float[1,3,4,4] x) => (float[1,3,8,8] y) <int64[4] sizes = {1,3,8,8}> {
    y = Resize<mode="nearest">(x, , , sizes)
}"""
EXPAND = """g (float[1,1,3] x) => (float[1,4,3] y) <int64[3] sizes = {1,4,3}> { y = Expand(x, sizes) }"""
COMPUTED = """g (float[1,2,6] x) => (float[1,12] y) <int64[1] one = {1}, int64[1] rest = {-1}> {
    sizes = Concat<axis=0>(one, rest)  y = Reshape(x, sizes)
}"""
PARTS = """g (float[1,6,4] x) => (float[1,3,8] y) <int64 size = {3}, int64 first = {0}, int64[3] sizes = {1,3,8}> {
    parts = SplitToSequence<axis=1>(x, size)  a = SequenceAt(parts, first)  b = Concat<axis=2>(a, a)
    y = Reshape(b, sizes)
}"""


def freed(text: str, axes: str, tmp_path):
    """The verified history of the graph with a free batch, and the path of what it writes."""
    graph, _ = load_text(HEAD + text)
    wb.export(graph, tmp_path / "static.onnx")
    original = wb.load(tmp_path / "static.onnx")
    with Verifier(original) as verifier:
        history = wb.optimize(original, [], free_dims=axes, verifier=verifier)
    wb.export(history.graph, tmp_path / "free.onnx")
    return history


def run(path, **inputs):
    return onnxruntime.InferenceSession(path).run(None, inputs)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("text", "axis"),
    [(WINDOWS, 0), (TOKEN, 0), (STATE, 1), (RESIZE, 0), (EXPAND, 0), (COMPUTED, 0), (PARTS, 0)],
    ids=["windows", "token", "state", "resize", "expand", "computed", "parts"],
)
def test_each_row_of_a_batch_gives_what_it_gives_alone(text, axis, tmp_path):
    history = freed(text, f"x:{axis}=N", tmp_path)
    verdict = history[-1].verdict
    assert verdict.ok and "So is a batch twice as large." in verdict.sentence
    x = normal(*(5 if place == axis else size for place, size in enumerate(history.initial.shape("x"))))
    alone = [run(tmp_path / "static.onnx", x=row) for row in np.split(x, 5, axis)]
    for index, found in enumerate(run(tmp_path / "free.onnx", x=x)):
        along = next(i for i, (a, b) in enumerate(zip(found.shape, alone[0][index].shape, strict=True)) if a != b)
        np.testing.assert_allclose(found, np.concatenate([one[index] for one in alone], along), rtol=1e-6)
    written = onnx.load(tmp_path / "free.onnx").graph
    for value in (*written.input, *written.output):
        assert "N" in [dim.dim_param for dim in value.type.tensor_type.shape.dim]


@pytest.mark.slow
def test_as_a_command_and_a_second_time(done, tmp_path):
    out, again = tmp_path / "out.onnx", tmp_path / "again.onnx"
    printed = done("optimize", RESNET, "-o", out, "--free-dims", f"{DATA}:0=N")
    assert "So is a batch twice as large." in printed
    x = normal(3, 3, 224, 224)
    ((found,), (first,)) = run(out, **{DATA: x}), run(RESNET, **{DATA: x[:1]})
    assert found.shape == (3, 250)
    np.testing.assert_allclose(found[:1], first, rtol=1e-4, atol=1e-6)
    done("optimize", out, "-o", again, "--free-dims", f"{DATA}:0=N")
    assert again.read_bytes() == out.read_bytes()


@pytest.mark.slow
def test_its_certificate_is_of_the_old_batch(done, tmp_path):
    out, evidence = tmp_path / "out.onnx", tmp_path / "evidence.json"
    done(
        "optimize", RESNET, "-o", out, "--free-dims", f"{DATA}:0=N", "--passes", "dead_nodes", "--certificate", evidence
    )
    said = done("check", RESNET, out, evidence, "--run", 1, "--require", "log,run")
    assert "on 1 random input with N=1 in ONNX Runtime" in said
    assert f"'{DATA}' is float[N, 3, 224, 224], and was float[1, 3, 224, 224]" in said


@pytest.mark.slow
def test_a_torch_program_with_heads_and_a_view(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
            self.last = torch.nn.Linear(8 * 4, 3)

        def forward(self, x):
            return self.last(self.inner(x).view(x.size(0), -1))

    torch.onnx.export(Model().eval(), (torch.zeros(1, 4, 8),), tmp_path / "m.onnx", dynamo=True)
    graph = wb.load(tmp_path / "m.onnx")
    (x,) = graph.inputs
    with Verifier(graph) as verifier:
        history = wb.optimize(graph, preset="simplify", free_dims=f"{x}:0=batch", verifier=verifier)
    assert history[-1].verdict.ok and "twice as large" in history[-1].verdict.sentence
    assert history.graph.shape(history.graph.outputs[0]) == ("batch", 3)


@pytest.mark.parametrize(
    ("text", "axes", "sentence"),
    [
        (TOKEN, "z:0=N", "there is no input 'z'; the inputs are x"),
        (TOKEN, "x:7=N", "input 'x' has no axis 7; name one of its 3 axes"),
        (TOKEN, "x=N", "'x=N' does not name an axis; write input:axis=symbol, as in images:0=N"),
        (
            "g (float[1,2] x, float[N,2] z) => (float[N,2] y) { y = Add(x, z) }",
            "x:0=N",
            "'N' names another size of the inputs; choose another symbol for 'x'",
        ),
        (
            "g (float[N,2] x) => (float[N,2] y) { y = Neg(x) }",
            "x:0=B",
            "axis 0 of input 'x' is 'N' already",
        ),
        (
            "g (float[2,3] x) => (float[2,3] y) <float[2,3] b = {1,2,3,4,5,6}> { y = Add(x, b) }",
            "x:0=N",
            "the batch cannot have another size: Add 'Add_y' does not take 'x' of [6, 3], 'b' of [2, 3], which are its "
            "operands' sizes for a batch 3 times as large",
        ),
        (
            "g (float[2,3] x) => (float[2,6] y) <float[2,3] b = {1,2,3,4,5,6}> { y = Concat<axis=1>(x, b) }",
            "x:0=N",
            "'b', which Concat 'Concat_y' reads, has 2 rows of its own for a batch",
        ),
        (
            "g (float[1,4] x) => (float[1,4] y) <int64[2] s = {1,4}> { n = NonZero(x)  f = Cast<to=1>(n)"
            "  g = Transpose(f)  y = Reshape(g, s) }",
            "x:0=N",
            "the sizes of 'g', which Reshape 'Reshape_y' reads, are not known for another batch",
        ),
    ],
)
def test_what_is_refused_is_one_sentence(text, axes, sentence):
    graph, _ = load_text(HEAD + text)
    with pytest.raises(UserError) as refused:
        wb.optimize(graph, [], free_dims=axes)
    assert sentence in str(refused.value)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "body",
    [
        "y = Softmax<axis=0>(x)",
        "m = ReduceMean<axes=[0]>(x)  y = Sub(x, m)",
        "t = Transpose<perm=[1,0]>(x)  s = CumSum(t, one)  y = Transpose<perm=[1,0]>(s)",
    ],
)
def test_rows_that_depend_on_each_other_are_not_equal(body, tmp_path):
    text = f"g (float[1,3] x) => (float[1,3] y) <int64 one = {{1}}> {{ {body} }}"
    verdict = freed(text, "x:0=N", tmp_path)[-1].verdict
    assert verdict.ok is False and "That is in a batch twice as large" in verdict.sentence


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
def test_a_detector_takes_any_batch():
    graph = wb.load(CORPUS / "ddddocr_det_yolox.onnx")
    with Verifier(graph) as verifier:
        history = wb.optimize(graph, ["dead_nodes"], free_dims="images:0=N", verifier=verifier, verify="end")
    assert history[-1].verdict.ok and "So is a batch twice as large." in history[-1].verdict.sentence
