"""What rules must not do: make the file grow beyond a factor, remove what is to be kept."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import workbench as wb
from tests.loading import run as run_file
from tests.loading import saved
from workbench.explanations.refusals import considered
from workbench.io import load_model
from workbench.layout.profile import load_profile
from workbench.registry.pass_registry import library
from workbench.rewrite import PassContext

DOUBLINGS = 12
X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


@pytest.fixture
def doubling(tmp_path):
    """A file of about a kilobyte whose folded constant would take 786 kB."""
    calls = "".join(f"c{i + 1} = Concat <axis = 0> (c{i}, c{i})\n" for i in range(DOUBLINGS + 4))
    text = f"""g (float[2,3] x) => (float[N,3] y) <float[1,3] c0 = {{1, 2, 3}}> {{
        {calls} y = Concat <axis = 0> (c{DOUBLINGS + 4}, x) }}"""
    return saved(tmp_path, text)


def test_folding_does_not_make_a_file_grow(doubling, tmp_path, run):
    out = tmp_path / "out.onnx"
    assert run("optimize", doubling, "-o", out, "--preset", "simplify")[0] == 0
    assert out.stat().st_size <= 1.1 * doubling.stat().st_size + 4096
    assert run("optimize", doubling, "-o", out, "--preset", "simplify", "--grow", "1000")[0] == 0
    assert out.stat().st_size > 700_000
    np.testing.assert_array_equal(run_file(out, {"x": X})[0], run_file(doubling, {"x": X})[0])


def test_why_not_says_it(doubling):
    graph = load_model(doubling)
    history = wb.optimize(graph, ["fold_constants"])
    context = PassContext(load_profile("cuda"), limits=history.limits)
    found = considered(history[1], library.find_pass("fold_constants")(), history.graph, context)
    assert any("--grow sets that" in group.sentence for group in found.groups)


def test_what_takes_the_place_of_larger_ones_is_folded(tmp_path):
    """Weights that are only cast, turned or summed up do not make the file grow."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2,64] x) => (float[2,64] y) <float[64,64] w, float[64,64] v> {'
        " t = Transpose <perm = [1, 0]> (w) s = Add(t, v) y = MatMul(x, s) }"
    )
    del model.graph.input[1:]
    for name in "wv":
        array = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "m.onnx")
    assert [node.op for node in wb.optimize(load_model(tmp_path / "m.onnx"), ["fold_constants"]).graph.nodes] == [
        "MatMul"
    ]


KEPT = """g (float[2,3] x) => (float[2,3] y) <float[3] w = {1, 2, 3}, float[3] v = {4, 5, 6}> {
    [sum] s = Add(w, v) [same] i = Identity(x) [product] p = Mul(i, s) [last] y = Relu(p) }"""


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        ((), ["Mul", "Relu"]),
        (("sum",), ["Add", "Mul", "Relu"]),
        (("w",), ["Add", "Mul", "Relu"]),
        (("same",), ["Identity", "Mul", "Relu"]),
        (("same", "v"), ["Add", "Identity", "Mul", "Relu"]),
    ],
)
def test_nodes_and_weights_can_be_kept(tmp_path, run, keep, left):
    path, out = saved(tmp_path, KEPT), tmp_path / "out.onnx"
    words = [word for name in keep for word in ("--keep", name)]
    assert run("optimize", path, "-o", out, "--preset", "simplify", *words)[0] == 0
    assert sorted(node.op_type for node in onnx.load(out).graph.node) == left


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--keep", "nothing"), "there is no node or weight 'nothing' to keep"),
        (("--grow", "0.5"), "a file cannot be limited to 0.5 times its size; use a factor of at least 1"),
    ],
)
def test_limits_that_fit_nothing_are_a_sentence(tmp_path, run, words, sentence):
    code, _, said = run("optimize", saved(tmp_path, KEPT), "-o", tmp_path / "out.onnx", *words)
    assert code == 2 and sentence in said
