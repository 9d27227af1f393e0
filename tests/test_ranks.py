"""A value's rank is known in one place: a Squeeze without axes, and a PRelu that broadcasts its operand."""

import numpy as np
import pytest

import passes
from passes.layout.layout_blocked import LayoutBlocked
from passes.layout.layout_greedy import LayoutGreedy
from passes.layout.layout_optimal import LayoutOptimal
from tests.running import outputs, typed
from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.formats.io import load_model
from workbench.pipeline.registry.pass_choice import choose
from workbench.pipeline.running import run_pipeline
from workbench.planning.layout.problem.operator_benchmark import GivenTimes
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass, with_options

STRATEGIES = (LayoutBlocked, LayoutGreedy, LayoutOptimal)
SQUEEZED = {
    "of an input": "g (float[N,1,1,4] x) => (float[?,?,?] y) { y = Squeeze(x) }",
    "of a Relu": "g (float[N,4,1,4] x) => (float[?,?,?] y) { a = Relu(x)  y = Squeeze(a) }",
    "of a convolution": """g (float[N,2,2,4] x) => (float[?,?,?] y) <float[4,2,2,1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
        11, 12, 13, 14, 15, 16}> { a = Conv(x, w)  y = Squeeze(a) }""",
    "whose result is not declared": """g (float[N,6,3,4] x) => (float[N,6,3,4] y)
        <int64[1] b = {0}, int64[1] e = {1}, int64[1] a = {2}, int64[1] two = {2}> {
        s = Slice(x, b, e, a)  q = Squeeze(s)  u = Unsqueeze(q, b)  r = Relu(u)  z = ReduceSum(r)  y = Add(x, z)
    }""",
}


def opened(tmp_path, text):
    path = tmp_path / "model.onnxtxt"
    path.write_text(f'<ir_version: 8, opset_import: ["": 18]> {text}', encoding="utf-8")
    return load_model(path)


def laid_out(graph, strategy):
    result = graph.copy()
    run_pass(with_options(strategy, {}), result, PassContext(load_profile("cuda")))
    return result


@pytest.mark.parametrize("text", SQUEEZED.values(), ids=SQUEEZED)
def test_a_squeeze_without_axes_behind_a_symbolic_batch_stops_no_strategy(tmp_path, text):
    graph = opened(tmp_path, text)
    for value in graph.values():
        shape = bound_shape(graph, value)
        assert shape is None or len(shape) == graph.rank_of(value)
    inputs = {"x": np.random.default_rng(0).standard_normal((2, *graph.shape("x")[1:]), np.float32)}
    expected = outputs(graph, inputs)["y"]
    for strategy in STRATEGIES:
        np.testing.assert_allclose(outputs(laid_out(graph, strategy), inputs)["y"], expected, rtol=1e-5)


def test_a_slope_larger_than_its_operand_gives_the_result_its_shape(tmp_path):
    graph = opened(
        tmp_path,
        """g (float[3,1,1,1] x, float[3,8,6,1] s) => (float[3,2,6,1] y)
            <float[2,8,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1}> { a = PRelu(x, s)  y = Conv(a, w) }""",
    )
    assert graph.shape("a") == (3, 8, 6, 1)
    assert "an Expand is inserted before it" in graph.warnings[-1]
    inputs = {v: np.random.default_rng(0).standard_normal(graph.shape(v), np.float32) for v in graph.inputs}
    expected = np.where(inputs["x"] < 0, inputs["x"] * inputs["s"], np.broadcast_to(inputs["x"], (3, 8, 6, 1)))
    weight = graph.constant("w").numpy()[:, :, 0, 0]
    for strategy in STRATEGIES:
        found = outputs(laid_out(graph, strategy), inputs)["y"]
        np.testing.assert_allclose(found, np.einsum("oc,nchw->nohw", weight, expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("strategy", passes.compared_strategies())
def test_a_result_of_unknown_rank_behind_a_branch_of_known_rank_stops_no_strategy(strategy):
    graph = typed("""g (float[2,1,2] x, bool c) => (float[] y) <int64[1] z = {0}, float[1,1,1] w = {2}> {
        v = If(c) <then_branch = t () => (float[1,2,1,2] p) { p = Unsqueeze(x, z) },
                   else_branch = e () => (float[2,1,2] q) { q = Neg(x) }>
        y = Conv(v, w)
    }""")
    inputs = {"x": np.ones((2, 1, 2), np.float32), "c": np.array(False)}
    context = PassContext(load_profile("cuda"), GivenTimes({"Transpose": 1}))
    found = run_pipeline(graph, choose(layout=strategy), context).graph
    np.testing.assert_array_equal(outputs(found, inputs)["y"], outputs(graph, inputs)["y"])
