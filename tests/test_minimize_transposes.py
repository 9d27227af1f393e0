"""`minimize_transposes`: equal outputs, nothing gets more, a second run is empty, and ONNX Runtime leaves no fewer."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import passes
import workbench as wb
from benchmarks.minimum import left_by_onnx_runtime
from sample_models.light import random_light
from sample_models.variants import mixed_layouts, nhwc_dataflow
from tests.conftest import CORPUS
from tests.running import outputs, random_inputs, typed
from tests.test_layout_orders import folded, random_tensors
from tests.test_minimum_of_what import random_transposes
from workbench.analysis.metrics.transpose_cost import count_transposes
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.ir import Graph
from workbench.rewrite import Exactness

PASS = ["minimize_transposes"]


def minimized(graph: Graph) -> Graph:
    """The result, which computes the same, has no more of anything, and is not changed by a second run."""
    inputs = random_inputs(graph)
    expected = outputs(graph, inputs)
    history = wb.optimize(graph, PASS)
    result, before, after = history.graph, count_transposes(graph), count_transposes(history.graph)
    for name, numbers in outputs(result, inputs).items():
        np.testing.assert_allclose(numbers, expected[name], rtol=1e-4, atol=1e-5)
    assert len(result) <= len(graph)
    assert after.transposes <= before.transposes and after.bytes_moved <= before.bytes_moved
    changed = (after.transposes, after.bytes_moved) < (before.transposes, before.bytes_moved)
    assert changed is bool(history[-1].rewrites)
    assert not wb.optimize(result, PASS)[-1].rewrites
    return result


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("start", range(0, 120, 20))
def test_random_tensors_keep_what_they_compute_with_fewer_transposes(start):
    fewer = 0
    for seed in range(start, start + 20):
        graph = folded(random_tensors(seed))
        fewer += count_transposes(minimized(graph)).transposes < count_transposes(graph).transposes
    assert fewer > 2


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 200), marks=pytest.mark.slow)], ids=str)
def test_onnx_runtime_leaves_no_fewer(seeds, tmp_path):
    """Of Transposes; it may move fewer bytes with more of them."""
    for seed in seeds:
        path = tmp_path / f"{seed}.onnx"
        onnx.save(random_transposes(seed), path)
        assert count_transposes(minimized(load_model(path))).transposes <= left_by_onnx_runtime(path).transposes, seed


NETWORKS = ["squeezenet", *(pytest.param(n, marks=pytest.mark.slow) for n in ("resnet50", "densenet121", "shufflenet"))]


@pytest.mark.parametrize("written", [nhwc_dataflow, mixed_layouts])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_in_two_layouts_is_left_with_no_more_than_left_by_onnx_runtime(name, written, tmp_path):
    light = tmp_path / "light.onnx"
    light.write_bytes(random_light(name, narrow=1 if name == "shufflenet" else 4).SerializeToString())
    graph = written(wb.optimize(load_model(light), ["fold_constants", "fold_batchnorm"]).graph)
    export_onnx(graph, tmp_path / "written.onnx")
    simple, theirs = wb.optimize(graph).graph, left_by_onnx_runtime(tmp_path / "written.onnx")
    ours = count_transposes(simple)
    assert ours.transposes <= theirs.transposes and ours.bytes_moved <= theirs.bytes_moved
    if written is nhwc_dataflow and name != "shufflenet":
        assert ours.transposes == 1  # of the input


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the real models are not here")
@pytest.mark.parametrize(
    ("name", "left"), [("basic_pitch_nmp", 1), ("bert_12l_raw", 48), ("open_nsfw_resnet", 1), ("ppocrv4_rec", 9)]
)
def test_real_models_are_left_with_fewer_transposes(name, left):
    assert count_transposes(wb.optimize(load_model(CORPUS / f"{name}.onnx")).graph).transposes <= left


def test_fewer_transposes_that_move_more_are_not_taken():
    """One Transpose of the sum would do for two of its operands, which have a sixteenth of its elements."""
    graph = typed("""g (float[16,1,4] x, float[1,16,4] z) => (float[4,16,16] y, float[16,1,4] a) {
        t = Transpose<perm=[2,0,1]>(x)  u = Transpose<perm=[2,0,1]>(z)  y = Add(t, u)  a = Relu(x) }""")
    assert count_transposes(minimized(graph)).bytes_moved == 2 * 64 * 4


def test_no_operand_gets_a_reshape_for_a_transpose_less():
    """The bias is computed and has fewer axes: in another order it would need a Reshape."""
    graph = typed("""g (float[2,3,4] x, float[4] b) => (float[2,4,3] y, float[4] n) {
        n = Neg(b)  t = Transpose<perm=[0,2,1]>(x)  u = Transpose<perm=[0,2,1]>(t)  a = Add(u, n)
        y = Transpose<perm=[0,2,1]>(a) }""")
    assert len(minimized(graph)) <= 4


KEPT = {
    "a max of floats": "m = ReduceMax<keepdims=1>(t, last)",
    "a sum of integers": "i = Cast<to=7>(t)  s = ReduceSum<keepdims=1>(i, last)  m = Cast<to=1>(s)",
    "the place of a max": "i = ArgMax<axis=3>(t)  m = Cast<to=1>(i)",
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_may_depend_on_the_order_stays(text):
    graph = typed(f"""g (float[2,3,4,5] x) => (float[2,3,4,1] y) <int64[1] last = {{3}}> {{
        t = Transpose<perm=[0,2,1,3]>(x)  {text}  y = Transpose<perm=[0,2,1,3]>(m) }}""")
    assert not wb.optimize(graph, PASS)[-1].rewrites


def test_it_does_not_run_in_mode_exact():
    """A vectorized Sigmoid may round the last elements of a value differently."""

    assert passes.find_pass("minimize_transposes").exactness is Exactness.ROUNDING
    graph = typed("""g (float[1,4,6,2] x) => (float[1,4,6,2] y) {
        t = Transpose<perm=[0,3,1,2]>(x)  s = Sigmoid(t)  m = Mul(t, s)  y = Transpose<perm=[0,2,3,1]>(m) }""")
    assert len(wb.optimize(graph, PASS).graph) == 2
    assert len(wb.optimize(graph, PASS, mode="exact").graph) == 4


def test_what_a_layout_strategy_laid_out_stays():
    """Greedy leaves three Transposes, where two do: the default preset would make all strategies alike."""
    graph = typed("""g (float[1,4,6,6] x) => (float[1,4,6,6] y, float[1,4,6,6] z)
        <float[4,4,1,1] w = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}> {
        a = Conv(x, w)  b = Relu(a)  y = Sigmoid(b)  z = Exp(b) }""")
    laid_out = wb.optimize(graph, ["layout_greedy"], target="cuda").graph
    assert count_transposes(laid_out).transposes == 3
    assert not wb.optimize(laid_out, PASS)[-1].rewrites
    read_again = laid_out.copy()
    read_again.provenance.clear()
    assert count_transposes(wb.optimize(read_again, PASS).graph).transposes == 2
