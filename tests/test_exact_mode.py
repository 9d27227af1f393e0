"""Exact mode: the same bits, or a failure."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

import passes as library
from tests.conftest import ROOT
from tests.running import typed
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces import api
from workbench.rewrite import Exactness


def optimized(text_or_graph, mode="exact", preset="simplify"):
    graph = typed(text_or_graph) if isinstance(text_or_graph, str) else text_or_graph
    with Verifier(graph) as verifier:
        return api.optimize(graph, preset=preset, mode=mode, verifier=verifier, verify="end")


def test_a_weight_that_would_be_packed_is_not_made_constant(tmp_path):
    """ONNX Runtime sums products of packed matrices in another order: the last bit may differ."""
    text = """<ir_version: 8, opset_import: ["": 17]>
        g (float[16,300] x) => (float[16,33] y, float[33,300] z) <float[33,300] w> {
        t = Transpose <perm = [1, 0]> (w)  y = MatMul (x, t)  u = Identity (w)  v = Transpose <perm = [1, 0]> (x)
        k = Transpose <perm = [1, 0]> (v)  s = ReduceSum <keepdims = 0> (k)  z = Add (u, s) }"""
    model = parser.parse_model(text)
    numbers = np.random.default_rng(0).standard_normal((33, 300)).astype(np.float32)
    del model.graph.initializer[:]
    model.graph.initializer.append(numpy_helper.from_array(numbers, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    graph = api.load(tmp_path / "m.onnx")
    exact, ieee = optimized(graph), optimized(graph, "ieee")
    assert exact[-1].verdict.ok and exact[-1].verdict.bit_equal
    assert [node.op for node in exact.graph.nodes].count("Transpose") == 1  # of the weight alone
    assert [node.op for node in ieee.graph.nodes].count("Transpose") == 0
    assert ieee[-1].verdict.ok and not ieee[-1].verdict.bit_equal


@pytest.mark.parametrize("op", ["Softplus", "Exp", "Tanh", "Sigmoid", "Erf"])
def test_functions_stay_before_a_slice(op):
    text = f"""g (float[3,7] x) => (float[3,2] y) <int64[1] s = {{1}}, int64[1] e = {{3}}, int64[1] a = {{1}}> {{
        w = {op}(x)  y = Slice(w, s, e, a) }}"""
    history = optimized(text)
    assert history[-1].verdict.bit_equal and [node.op for node in history.graph.nodes] == [op, "Slice"]
    moved = optimized(text, "ieee")
    assert moved[-1].verdict.ok and [node.op for node in moved.graph.nodes] == ["Slice", op]


def test_what_is_not_equal_to_the_last_bit_fails_and_is_not_written(run, tmp_path):
    text = (
        "g (float[64] x) => (float[64] y) <float c = {3}, float k = {7}> { a = Mul(x, c)  b = Mul(a, k)  y = Tanh(b) }"
    )
    path = tmp_path / "g.onnxtxt"
    path.write_text(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    other = tmp_path / "other.onnx"
    assert run("optimize", path, "-o", other, "--preset", "simplify")[0] == 0
    graph, changed = api.load(path), api.load(other)
    with Verifier(graph) as verifier:
        assert verifier.check(changed).ok is True
        verdict = verifier.check(changed, exact=True)
    assert verdict.ok is False and not verdict.bit_equal
    assert "(allowed: nothing, in exact mode)" in verdict.sentence
    assert run("optimize", path, "-o", tmp_path / "exact.onnx", "--preset", "simplify", "--mode", "exact")[0] == 0


@pytest.mark.parametrize("text", [
    "g (float16[64] x) => (float16[64] y) { a = Mul(x, x)  b = Neg(a)  c = Neg(b)  y = Sub(c, x) }",
    "g (float16[64] x) => (float16[64] y) { a = Exp(x)  b = Identity(a)  y = Softplus(b) }",
])  # fmt: skip
def test_float16_is_equal_or_refused(run, tmp_path, text):
    path, out = tmp_path / "g.onnxtxt", tmp_path / "out.onnx"
    path.write_text(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    code, said, _ = run("optimize", path, "-o", out, "--preset", "simplify", "--mode", "exact")
    assert (code, out.exists(), "the end: Equal to the last bit" in said) in ((0, True, True), (1, False, False))


def test_nan_is_nan_whatever_its_bits():
    from workbench.run.compare import compare
    from workbench.run.tolerances import BITS

    a = np.array([1.0, np.nan], np.float32)
    b = np.array([0x3F800000, 0xFFC00001], np.uint32).view(np.float32)
    assert compare({"y": a}, {"y": b}, BITS).bit_equal
    assert not compare({"y": a}, {"y": np.array([-1.0, np.nan], np.float32)}, BITS).ok
    assert not compare({"y": np.float32(0.0)}, {"y": np.float32(-0.0)}, BITS).ok


def test_no_rule_that_is_exact_moves_a_vectorized_operator_to_another_number_of_elements():
    moved = {
        rule.name: rule.exactness
        for rule in library.find_pass("shrink_first").rules
        if rule.name.endswith("of a vectorized operator")
    }
    assert moved == dict.fromkeys(
        ("slice of a vectorized operator", "gather of a vectorized operator"), Exactness.ROUNDING
    )
    assert "no bit may differ" in (ROOT / "docs/how-to/choose-a-strategy.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_float16_that_becomes_integers_is_written_with_the_same_integers(level, run, tmp_path):
    """ONNX Runtime computes float16 in float32 between Casts, and leaves out those that nothing else reads: a folded
    Shape of a sum turns 3 into 2. The rest is kept, and written."""
    text = """<ir_version: 8, opset_import: ["": 17]>
        g (float16[1,2,1,12] x) => (int64[1,2,59,12] i, float16[1,2,1,1] r)
        <int64[1] zero = {0}, int64[1] two = {2}, int64[2] ones = {1, 1}> {
            a = Add (w, x)  i = Cast <to = 7> (a)  s = Shape (a)  n = Slice (s, zero, two, zero)
            o = Cast <to = 7> (ones)  t = Concat <axis = 0> (n, o)  r = Resize <mode = "linear"> (a, , , t)
        }"""
    model = parser.parse_model(text)
    random = np.random.default_rng(0)
    model.graph.initializer.append(numpy_helper.from_array(random.uniform(3, 10, (59, 1)).astype(np.float16), "w"))
    onnx.save(model, tmp_path / "m.onnx")
    code, _, said = run("optimize", tmp_path / "m.onnx", "-o", tmp_path / "out.onnx", "--mode", "exact")
    assert code == 0, said
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    sessions = [onnxruntime.InferenceSession(tmp_path / name, options) for name in ("m.onnx", "out.onnx")]
    assert len(onnx.load(tmp_path / "out.onnx").graph.node) < len(model.graph.node)
    for _ in range(20):
        x = random.standard_normal((1, 2, 1, 12)).astype(np.float16)
        for one, other in zip(*(session.run(None, {"x": x}) for session in sessions), strict=True):
            np.testing.assert_array_equal(one, other)
