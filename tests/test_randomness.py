"""Operators that draw numbers get the same ones on both sides of a comparison."""

from __future__ import annotations

import pytest

from tests.running import typed
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces import api

HEADER = '<ir_version: 8, opset_import: ["": 17, "own": 1]>\n'
DRAWN = {
    "training Dropout": "g (float[8,64] x) => (float[8,64] y) <float r = {0.5}, bool t = {1}> { a = Dropout(x, r, t)  y = Neg(a) }",
    "RandomNormalLike": "g (float[8,64] x) => (float[8,64] y) { i = Identity(x)  n = RandomNormalLike(i)  y = Add(x, n) }",
    "RandomUniform": "g (float[4] x) => (float[4] y) { n = RandomUniform<shape = [4]>()  y = Add(x, n) }",
    "Bernoulli": "g (float[99] x) => (float[99] y) { p = Sigmoid(x)  y = Bernoulli(p) }",
    "Multinomial": "g (float[3,9] x) => (int32[3,20] y) { a = Abs(x)  y = Multinomial<sample_size = 20>(a) }",
    "in a branch": """g (float[8] x, bool c) => (float[8] y) {
        y = If (c) <then_branch = t () => (float[8] u) { u = RandomNormalLike(x) }, else_branch = e () => (float[8] v) { v = Neg(x) }> }""",
    "in a function": """g (float[8] x) => (float[8] y) { a = own.noisy(x)  y = own.noisy(a) }
        <domain: "own", opset_import: ["": 17]> noisy (z) => (r) { n = RandomNormalLike(z)  r = Add(z, n) }""",
}  # fmt: skip


@pytest.mark.parametrize("text", DRAWN.values(), ids=DRAWN)
def test_what_is_random_is_verified(run, tmp_path, text):
    path, out = tmp_path / "g.onnxtxt", tmp_path / "out.onnx"
    path.write_text(HEADER + text)
    for words in (["--passes", ""], ["--preset", "simplify"]):
        code, said, _ = run("optimize", path, "-o", out, *words)
        assert code == 0, said
        assert "Random operators had the same seed on both sides." in said
    assert run("verify", path, out)[0] == 0


def test_a_wrong_rate_is_still_found():
    text = "g (float[64] x) => (float[64] y) <float r = {R}, bool t = {1}> { a = Dropout(x, r, t)  y = Neg(a) }"
    right, wrong = typed(text.replace("R}", "0.5}")), typed(text.replace("R}", "0.7}"))
    with Verifier(right) as verifier:
        assert verifier.check(right).ok is True
        assert verifier.check(wrong).ok is False


@pytest.mark.parametrize("opset", [7, 11, 13])
def test_a_dropout_that_does_not_train_draws_nothing(run, tmp_path, opset):
    path = tmp_path / "g.onnxtxt"
    path.write_text(
        f'<ir_version: 7, opset_import: ["": {opset}]> g (float[9] x) => (float[9] y) {{ a = Dropout(x)  y = Neg(a) }}'
    )
    code, said, _ = run("optimize", path, "-o", tmp_path / "out.onnx", "--preset", "simplify")
    assert code == 0 and "Random" not in said


def test_what_is_not_random_runs_as_its_file_is():
    text = (
        "g (float[9] x) => (float[9] y) <float r = {0.5}, bool t = {1}> { a = Dropout<seed = 3>(x, r, t)  y = Neg(a) }"
    )
    graph = typed(text)
    with Verifier(graph) as verifier:
        history = api.optimize(graph, preset="simplify", verifier=verifier, verify="end")
    assert history[-1].verdict.ok and "seed" not in history[-1].verdict.sentence


def test_a_model_with_a_seed_equals_itself(done):
    """ONNX Runtime draws other numbers in a session's second run, so that each side has a session of its own."""
    sample = "sample_models/bias_add_dropout.onnx"
    assert "to the last bit" in done("verify", sample, sample)
