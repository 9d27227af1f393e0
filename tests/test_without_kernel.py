"""What ONNX Runtime has no kernel for is verified by ONNX's own evaluator, and that is said."""

from __future__ import annotations

import numpy as np
import pytest

from tests.loading import saved
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.ir import Edit

IN_BFLOAT16 = """g (bfloat16[N,3] x) => (bfloat16[N,3] y) <float[3] f = {1, 2, 3}> {
    w = Cast <to = 16> (f)
    z = Exp(x) i = Identity(z) m = Mul(i, w) y = Sigmoid(m) }"""
IN_BETWEEN = """g (float[2,4] x) => (float[2,4] y) {
    b = Cast <to = 16> (x) t = Transpose <perm = [1, 0]> (b) m = MatMul(b, t) s = Softmax(m) p = MatMul(s, b) y = Cast <to = 1> (p) }"""


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("text", [IN_BFLOAT16, IN_BETWEEN], ids=["all", "in between"])
def test_a_bfloat16_file_is_verified(tmp_path, run, text):
    path = saved(tmp_path, text)
    code, said, _ = run("optimize", path, "-o", tmp_path / "out.onnx", "--preset", "simplify")
    assert code == 0 and "the end: Equal" in said
    assert "It was run by onnx.reference, since ONNX Runtime has no kernel for this " in said
    code, said, _ = run("verify", path, tmp_path / "out.onnx")
    assert code == 0 and "onnx.reference" in said


def test_it_finds_what_is_wrong(tmp_path):
    graph = load_model(saved(tmp_path, IN_BFLOAT16))
    wrong = graph.copy()
    node = next(node for node in wrong.nodes if node.op == "Exp")
    wrong.apply(Edit(remove=(node.name,), insert=(node.replace(op_type="Neg"),)))
    with Verifier(graph) as verifier:
        assert verifier.check(graph).ok is True
        assert verifier.check(wrong).ok is False
        assert verifier.run_by == "onnx.reference, since ONNX Runtime has no kernel for this Exp"


def test_what_onnx_runtime_runs_is_not_said_to_be_run_by_another(tmp_path):
    path = saved(tmp_path, "g (float[2] x) => (float[2] y) { y = Relu(x) }")
    with Verifier(load_model(path)) as verifier:
        assert "onnx.reference" not in verifier.check(verifier.original).sentence and verifier.run_by == ""
        assert np.isfinite(verifier.reference["y"]).all()
