"""The torch executor: bodies and functions, fallback, errors, memory, and where each value is computed."""

import gc
import weakref

import numpy as np
import pytest
import torch

from tests.running import normal, typed
from workbench.backends.torch.executor.executor import OperatorError, TorchExecutor
from workbench.backends.torch.executor.host_placement import host_values
from workbench.errors import UserError
from workbench.ir import from_text

# ---- control flow, functions, sequences ------------------------------------------------

NESTED = """g (float[3] x, bool c, int64 n) => (float[3] y, float[4,3] steps)
<int64 turns = {4}, bool on = {1}> {
    two = Constant <value = float {2.0}> ()
    y = If (c) <
        then_branch = then () => (float[3] a) {
            a = If (c) <then_branch = inner () => (float[3] i) { i = Mul (x, two) },
                        else_branch = other () => (float[3] o) { o = Neg (x) }>
        },
        else_branch = else () => (float[3] b) { b = Sub (x, two) }
    >
    last, steps = Loop (turns, on, x) <body = body (int64 k, bool go, float[3] v) => (bool still, float[3] w, float[3] s) {
        still = Identity (go)
        w = Mul (v, two)
        s = Add (w, x)
    }>
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_bodies_see_the_values_around_them(condition):
    graph = from_text(NESTED)
    x = normal(3)
    ours = TorchExecutor(graph).run({"x": x, "c": np.array(condition), "n": np.array(1)})
    np.testing.assert_array_equal(ours["y"], x * 2 if condition else x - 2)
    np.testing.assert_allclose(ours["steps"], [x * 2 ** (k + 1) + x for k in range(4)], rtol=1e-6)


FUNCTIONS = """<ir_version: 10, opset_import: ["": 23, "own": 1]>
g (float[3] x) => (float[3] y, float[3] z) {
    y = own.outer <slope = 0.5> (x)
    z = own.outer (x)
}
<domain: "own", opset_import: ["": 23, "own": 1]>
outer <slope: float = 0.25> (a) => (b) {
    leaked = own.leak <alpha: float = @slope> (a)
    b = Neg (leaked)
}
<domain: "own", opset_import: ["": 23]>
leak <alpha> (a) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) }
"""


def test_functions_run_through_their_bodies():
    graph = from_text(FUNCTIONS)
    x = np.array([-4.0, 0.0, 8.0], np.float32)
    executor = TorchExecutor(graph)
    ours = executor.run({"x": x})
    np.testing.assert_array_equal(ours["y"], [2.0, 0.0, -8.0])
    np.testing.assert_array_equal(ours["z"], [1.0, 0.0, -8.0])
    assert executor.fallbacks == {}


def test_sequence_outputs_are_numbered():
    graph = from_text("g (float[4] x) => (seq(float) parts) <int64 two = {2}> { parts = SplitToSequence (x, two) }")
    x = normal(4)
    ours = TorchExecutor(graph).run({"x": x})
    assert list(ours) == ["parts[0]", "parts[1]"]
    np.testing.assert_array_equal(ours["parts[1]"], x[2:])


# ---- fallback --------------------------------------------------------------------------

ML = '<ir_version: 10, opset_import: ["": 23, "ai.onnx.ml": 3]>'


def test_unknown_operator_falls_back_to_onnxruntime():
    graph = from_text(f"{ML} g (float[2,8] x) => (float[2,8] y) {{ b = ai.onnx.ml.Binarizer (x)\n y = Sub (x, b) }}")
    executor = TorchExecutor(graph)
    assert executor.fallbacks == {"ai.onnx.ml.Binarizer": "the operator table does not know it"}
    x = normal(2, 8)
    np.testing.assert_array_equal(executor.run({"x": x})["y"], x - (x > 0))


def test_fallback_computes_what_onnxruntime_computes():
    text = f"{ML} g (float[2,3] x, int64[2] i) => (float[2,2] y) {{ y = ai.onnx.ml.ArrayFeatureExtractor (x, i) }}"
    x = normal(2, 3)
    ours = TorchExecutor(from_text(text)).run({"x": x, "i": np.array([2, 0])})
    np.testing.assert_array_equal(ours["y"], x[:, [2, 0]])


def test_fallback_of_a_newer_opset_takes_the_oldest_of_the_same_form():
    """ONNX Runtime knows opset 26; the operator has its form since 20."""
    graph = from_text('<ir_version: 10, opset_import: ["": 28]> g (string[2] x) => (y) { y = StringConcat (x, x) }')
    executor = TorchExecutor(graph)
    assert executor.run({"x": np.array(["a", "b"], object)})["y"].tolist() == ["aa", "bb"]
    assert executor.fallbacks == {"StringConcat": "the operator table does not know it"}


def test_fallback_keeps_bfloat16():
    """It is computed in float32, which ONNX Runtime has kernels for."""
    graph = from_text("g (bfloat16[2,2] x) => (bfloat16 y) { d = Det (x)\n y = Add (d, d) }")
    executor = TorchExecutor(graph)
    results = executor.run_tensors({"x": torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.bfloat16)})
    assert results["y"].dtype == torch.bfloat16
    assert float(results["y"]) == -2.0
    assert list(executor.fallbacks) == ["Det"]


def test_strings_fall_back_when_they_are_met():
    graph = from_text("g (string[2] x) => (float[2] y) { y = Cast <to = 1> (x) }")
    executor = TorchExecutor(graph)
    assert executor.fallbacks == {}
    ours = executor.run({"x": np.array(["1.5", "-2"], object)})
    np.testing.assert_array_equal(ours["y"], [1.5, -2.0])
    assert executor.fallbacks == {"Cast": "torch has no strings"}


def test_operator_that_nothing_runs_is_named():
    text = '<ir_version: 10, opset_import: ["": 23, "far": 1]> g (float[2] x) => (float[2] y) { [n7] y = far.Away (x) }'
    executor = TorchExecutor(from_text(text))
    with pytest.raises(OperatorError, match=r"Neither torch .* nor ONNX Runtime can run far\.Away 'n7' .*float32\[2\]"):
        executor.run({"x": normal(2)})


# ---- errors and memory -----------------------------------------------------------------


def test_failing_operator_is_named_with_its_shapes():
    graph = from_text("g (float[2,3] x, float[4] y) => (float[2,4] z) { [sum] z = Add (x, y) }")
    with pytest.raises(OperatorError, match=r"Add 'sum' on operands of float32\[2,3\], float32\[4\] failed: .*"):
        TorchExecutor(graph).run({"x": normal(2, 3), "y": normal(4)})


def test_missing_input_is_named():
    graph = from_text("g (float[2] x, float[2] y) => (float[2] z) { z = Add (x, y) }")
    with pytest.raises(UserError, match="Input 'y' of graph 'g' is missing"):
        TorchExecutor(graph).run({"x": normal(2)})


@pytest.mark.slow
def test_values_are_freed_after_their_last_use():
    text = """g (float[64] x) => (float[64] y) {
        a = Exp (x)
        b = Neg (a)
        c = Add (a, b)
        d = Sin (c)
        y = Cos (d)
    }"""
    alive, counts = {}, {}

    def observe(node, results):
        alive[node.outputs[0]] = weakref.ref(results[0])
        gc.collect()
        counts[node.outputs[0]] = sorted(name for name, value in alive.items() if value() is not None)

    TorchExecutor(from_text(text)).run({"x": normal(64)}, observe)
    assert counts == {"a": ["a"], "b": ["a", "b"], "c": ["c"], "d": ["d"], "y": ["y"]}


def test_transpose_moves_data_only_where_it_must():
    text = """g (float[1,8,1,4] x) => (float[1,1,4,8] moved, float[1,1,8,4] kept) {
        moved = Transpose <perm = [0, 2, 3, 1]> (x)
        kept = Transpose <perm = [0, 2, 1, 3]> (x)
    }"""
    x = torch.from_numpy(normal(1, 8, 1, 4))
    results = TorchExecutor(from_text(text)).run_tensors({"x": x})
    assert results["moved"].is_contiguous()
    assert results["moved"].data_ptr() != x.data_ptr()
    assert results["kept"].data_ptr() == x.data_ptr()


# ---- places ----------------------------------------------------------------------------


def test_shape_arithmetic_stays_on_the_host():
    graph = typed("""
        g (float[2,3,4] x) => (float[2,12] y) <int64 zero = {0}, int64[1] first = {0}, int64[1] rest = {-1}> {
            s = Shape (x)
            batch = Gather (s, zero)
            lifted = Unsqueeze (batch, first)
            target = Concat <axis = 0> (lifted, rest)
            r = Relu (x)
            y = Reshape (r, target)
        }""")
    assert host_values(graph) == {"s", "batch", "lifted", "target", "rest", "first", "zero"}


def test_what_depends_on_data_is_computed_on_the_device():
    graph = typed("""
        g (float[200] x) => (float[N] y) <int64[1] zero = {0}, int64[1] flat = {-1}> {
            places = NonZero (x)
            s = ReduceMax <keepdims = 1> (places)
            end = Reshape (s, flat)
            y = Slice (x, zero, end)
        }""")
    assert host_values(graph) == {"zero", "flat"}


def test_body_wants_reach_the_graph_around_it():
    graph = typed("""
        g (float[2,3] x, bool c) => (float[6] y) <int64[1] flat = {-1}> {
            s = Size (x)
            n = Reshape (s, flat)
            y = If (c) <then_branch = t () => (float[6] a) { a = Reshape (x, n) },
                        else_branch = e () => (float[6] b) { b = Expand (s, n) }>
        }""")
    assert {"s", "n"} <= host_values(graph)


# ---- views ---------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [0, 2, -1, -3])
def test_a_gather_by_a_constant_number_is_a_view(index):
    graph = typed(
        f"g (float[2,3,4] x) => (float[2,4] y, float[2,4] z) <int64 i = {{{index}}}> "
        "{ y = Gather<axis=1>(x, i)  z = Neg(y) }"
    )
    executor = TorchExecutor(graph)
    x = executor.upload({"x": normal(2, 3, 4)})
    found = executor.run_tensors(x)
    assert found["y"].untyped_storage().data_ptr() == x["x"].untyped_storage().data_ptr()
    np.testing.assert_array_equal(found["z"].numpy(), -normal(2, 3, 4)[:, index])


def test_a_gather_beyond_the_end_is_said():
    graph = typed("g (float[2,3] x) => (float[2] y) <int64 i = {3}> { y = Gather<axis=1>(x, i) }")
    with pytest.raises(OperatorError, match=r"Gather 'Gather_y' on operands of .* failed"):
        TorchExecutor(graph).run({"x": normal(2, 3)})
