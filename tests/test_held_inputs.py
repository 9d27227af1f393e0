"""Models whose inputs are sequences or optional values run and are verified."""

from __future__ import annotations

import numpy as np
import pytest

from tests.loading import run as run_file
from tests.loading import saved
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.evidence.verification.verifier import Verifier
from workbench.formats.io import load_model
from workbench.run.inputs import InputError, read_inputs, seed_inputs

SEQUENCE = """g (seq(float[N,3]) s, float[N,3] x) => (float[M,3] y) {
    c = ConcatFromSequence <axis = 0> (s) i = Identity(c) y = Concat <axis = 0> (i, x) }"""
OPTIONAL = """g (optional(float[N,3]) o, float[N,3] x) => (float[N,3] y) {
    h = OptionalHasElement(o)
    y = If (h) <then_branch = t () => (a) { e = OptionalGetElement(o) a = Add(e, x) }, else_branch = f () => (b) { b = Neg(x) }> }"""
HEADER = '<ir_version: 8, opset_import: ["": 18]>\n'
X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("text", [SEQUENCE, OPTIONAL], ids=["sequence", "optional"])
def test_it_is_verified(tmp_path, run, text):
    path = saved(tmp_path, text, header=HEADER)
    code, said, _ = run("optimize", path, "-o", tmp_path / "out.onnx", "--preset", "simplify", "--dims", "N=4")
    assert code == 0 and "the end: Equal to the last bit" in said


@pytest.mark.parametrize("text", [SEQUENCE, OPTIONAL], ids=["sequence", "optional"])
def test_torch_gives_the_same(tmp_path, text, shared_worker):
    path = saved(tmp_path, text, header=HEADER)
    graph = load_model(path)
    given = seed_inputs(graph, {"N": 2})
    assert set(given) == ({"s[0]", "s[1]", "x"} if text is SEQUENCE else {"o", "x"})
    wanted = shared_worker.outputs(path, given).tensors
    np.testing.assert_allclose(TorchExecutor(graph).run(given)["y"], wanted["y"], rtol=1e-6)


def test_your_own_sequence_has_the_length_that_you_give(tmp_path):
    path = saved(tmp_path, SEQUENCE, header=HEADER)
    graph = load_model(path)
    np.savez(tmp_path / "i.npz", **{f"s[{index}]": X + index for index in range(3)}, x=X)
    given = read_inputs(tmp_path / "i.npz", graph)
    assert list(given) == ["s[0]", "s[1]", "s[2]", "x"]
    with Verifier(graph, given) as verifier:
        assert verifier.reference["y"].shape == (8, 3)
        assert verifier.check(graph).ok


def test_your_own_optional_input_may_be_absent(tmp_path, shared_worker):
    path = saved(tmp_path, OPTIONAL, header=HEADER)
    graph = load_model(path)
    for given, wanted in (({"x": X}, -X), ({"x": X, "o": X}, 2 * X)):
        np.savez(tmp_path / "i.npz", **given)
        read = read_inputs(tmp_path / "i.npz", graph)
        assert set(read) == set(given)
        np.testing.assert_array_equal(shared_worker.outputs(path, read).tensors["y"], wanted)
        np.testing.assert_array_equal(TorchExecutor(graph).run(read)["y"], wanted)


def test_what_does_not_fit_is_a_sentence(tmp_path):
    graph = load_model(saved(tmp_path, SEQUENCE, header=HEADER))
    np.savez(tmp_path / "i.npz", **{"s[0]": X, "s[2]": X, "x": X})
    with pytest.raises(InputError, match=r"has an array 's\[2\]' that is not an input"):
        read_inputs(tmp_path / "i.npz", graph)
    np.savez(tmp_path / "i.npz", **{"s[0]": X[0], "x": X})
    with pytest.raises(InputError, match=r"has shape \[3\]; the model takes float\[N,3\]"):
        read_inputs(tmp_path / "i.npz", graph)


def test_files_run_as_they_are(tmp_path):
    """The other runtime needs lists; that the feeding is right shows against it."""
    path = saved(tmp_path, SEQUENCE, header=HEADER)
    np.testing.assert_array_equal(run_file(path, {"s": [X, X], "x": X})[0], np.concatenate([X, X, X]))
